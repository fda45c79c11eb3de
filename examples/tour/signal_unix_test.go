//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-transparency/transparency/examples/internal/labtest"
	"github.com/go-transparency/transparency/internal/redistest"
)

// In this process, of which TestMain checks that no goroutine is left.
func TestLeavesNothing(t *testing.T) {
	if out := labtest.Output(t, run); !shown.MatchString(out) {
		t.Errorf("stdout:\n%s\nwant all to hold", out)
	}
	http.DefaultClient.CloseIdleConnections()
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("wait4 = %d, %v; want that no child is left", pid, err)
	}
}

// Ctrl-C in the middle, sent to the tour alone and, as a terminal does, to its
// children too.
func TestInterrupt(t *testing.T) {
	server := redistest.StartServer(t)
	client := server.Client(t)
	if err := client.Set(t.Context(), "other", "somebody's", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for name, group := range map[string]int{"parent": 1, "group": -1} {
		t.Run(name, func(t *testing.T) {
			cmd := labtest.Program{Env: map[string]string{
				envRows: "hanging", "REDIS_URL": "redis://" + server.Addr(),
			}}.Command(context.Background(), t)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			var stderr strings.Builder
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			child := awaitChild(t, cmd, stdout)
			if n := client.DBSize(t.Context()).Val(); n < 2 {
				t.Errorf("DBSIZE = %d in the middle of the tour, want keys to be removed", n)
			}

			start := time.Now()
			if err := syscall.Kill(group*cmd.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, stdout)
			_ = cmd.Wait()
			if status, took := cmd.ProcessState.ExitCode(), time.Since(start); status != 130 || took > 2*time.Second {
				t.Errorf("exit status %d after %v, want 130 at once", status, took)
			}
			if got, want := stderr.String(), "tour.test: interrupted\n"; got != want {
				t.Errorf("stderr = %q, want %q", got, want)
			}
			if err := syscall.Kill(child, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("kill(child, 0) = %v, want that there is no such process", err)
			}
			wantOnly(t, client, "other")
		})
	}
}

// awaitChild reads until the child process says who it is.
func awaitChild(t *testing.T, cmd *exec.Cmd, stdout io.Reader) (pid int) {
	t.Helper()
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "child "); ok {
			pid, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	_ = cmd.Wait()
	t.Fatalf("the tour ended early: %v, stderr %v", cmd.ProcessState, cmd.Stderr)
	return 0
}
