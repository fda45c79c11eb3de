//go:build unix

package lab_test

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-transparency/transparency/internal/redistest"
)

// ownGroup lets a test send signals as a terminal does: to a whole group.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func TestSignals(t *testing.T) {
	server := redistest.StartServer(t)
	for _, test := range []struct {
		name   string
		how    string
		signal syscall.Signal
		group  bool
	}{
		{"SIGINT", "run", syscall.SIGINT, false},
		{"SIGINT to all, as Ctrl-C sends it", "run", syscall.SIGINT, true},
		{"SIGTERM", "run", syscall.SIGTERM, false},
		{"SIGTERM to all", "run", syscall.SIGTERM, true},
		{"SIGINT, a process beside", "start", syscall.SIGINT, false},
		{"SIGINT to all, a process beside", "start", syscall.SIGINT, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := startRunning(t, "redis://"+server.Addr(), test.how, "wait")
			target := p.Process.Pid
			if test.group {
				target = -target
			}
			if err := syscall.Kill(target, test.signal); err != nil {
				t.Fatal(err)
			}
			status, took := p.end(t)
			if status != 130 || took > 2*time.Second {
				t.Errorf("exit status %d after %v, want 130 at once", status, took)
			}
			if got, want := p.stderr.String(), "lab.test: interrupted\n"; got != want {
				t.Errorf("stderr = %q, want %q", got, want)
			}
			wantGone(t, p.child, 0)
			wantNoKeys(t, server)
		})
	}
}

// Nothing runs in a process that was killed: its children see that it is gone.
func TestParentIsKilled(t *testing.T) {
	for _, args := range [][2]string{{"run", "wait"}, {"run", "stubborn"}, {"start", "wait"}, {"start", "stubborn"}} {
		t.Run(args[0]+" "+args[1], func(t *testing.T) {
			t.Parallel()
			p := startRunning(t, "", args[0], args[1])
			if err := p.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			p.end(t)
			wantGone(t, p.child, 10*time.Second)
		})
	}
}

// A child that does not listen keeps its parent no longer than it must.
func TestStubbornChild(t *testing.T) {
	t.Parallel()
	p := startRunning(t, "", "run", "stubborn")
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if status, took := p.end(t); status != 130 || took > 10*time.Second {
		t.Errorf("exit status %d after %v, want 130 within seconds", status, took)
	}
	wantGone(t, p.child, 0)
}

// alive reports whether the process runs. One that has ended and that nobody has
// waited for, as may be where process 1 does not, counts as gone.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err == nil && strings.Contains(string(stat), ") Z ") {
		return false
	}
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// wantGone checks that the process is gone, now or within d.
func wantGone(t *testing.T, pid string, d time.Duration) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(d)
	for alive(n) {
		if !time.Now().Before(deadline) {
			t.Errorf("process %d is still there", n)
			_ = syscall.Kill(n, syscall.SIGKILL)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}
