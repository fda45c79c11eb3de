package lab_test

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-transparency/transparency/examples/internal/labtest"
	"github.com/go-transparency/transparency/internal/redistest"
)

func TestErrorIsOneLine(t *testing.T) {
	labtest.Program{}.Run(t).WantFailure(t, []string{"no argument:; second line"})
}

func TestProcesses(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { wantProcesses(t, nil, 1) })
	t.Run("server", func(t *testing.T) {
		server := redistest.StartServer(t)
		wantProcesses(t, map[string]string{"REDIS_URL": "redis://" + server.Addr()}, 0)
		wantNoKeys(t, server)
	})
}

func wantProcesses(t *testing.T, env map[string]string, announced int) {
	t.Helper()
	r := labtest.Program{Args: []string{"run", "key child", "print a b", "print c"}, Env: env}.Run(t)
	if r.Status != 0 || r.Stderr != "" {
		t.Fatalf("status %d, stderr %q; want success", r.Status, r.Stderr)
	}
	got := strings.Split(r.Stdout, "\n")
	if !slices.Contains(got, "[a b]") || !slices.Contains(got, "[c]") {
		t.Errorf("stdout = %q, want the lines of both children", r.Stdout)
	}
	if n := strings.Count(r.Stdout, "inside this process"); n != announced {
		t.Errorf("the embedded Redis was announced %d times in %q, want %d", n, r.Stdout, announced)
	}
}

// The error of a child is told once, by the parent, and ends its siblings.
func TestChildFails(t *testing.T) {
	start := time.Now()
	r := labtest.Program{Args: []string{"run", "wait", "fail"}}.Run(t)
	r.WantFailure(t, []string{"this process failed: check nothing"})
	if strings.Count(r.Stderr, ": ") != 2 { // program: failed: check
		t.Errorf("stderr = %q, want the program's name once", r.Stderr)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it took %v: the sibling was not ended", took)
	}
}

func TestChildDies(t *testing.T) {
	r := labtest.Program{Args: []string{"run", "die"}}.Run(t)
	r.WantFailure(t, []string{`process "die"`, "exit status 7"})
	if !strings.Contains(r.Stdout, "last words\n") {
		t.Errorf("stdout = %q, want the unfinished line too", r.Stdout)
	}
}

// running is a program whose parent and child process say who they are.
type running struct {
	*exec.Cmd
	stdout io.ReadCloser
	stderr strings.Builder
	child  string // pid
}

func startRunning(t *testing.T, url, how, child string) *running {
	t.Helper()
	p := &running{Cmd: labtest.Program{
		Args: []string{how, child},
		Env:  map[string]string{"REDIS_URL": url},
	}.Command(context.Background(), t)}
	p.Stderr = &p.stderr
	ownGroup(p.Cmd)
	var err error
	if p.stdout, err = p.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	lines := bufio.NewScanner(p.stdout)
	for lines.Scan() {
		if _, pid, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(lines.Text(), "parent") && !strings.HasPrefix(lines.Text(), "Redis:") {
			p.child = pid
			break
		}
	}
	if p.child == "" {
		t.Fatalf("no child was started; stderr %q", p.stderr.String())
	}
	return p
}

// end waits for the parent and returns its exit status and how long that took.
func (p *running) end(t *testing.T) (status int, took time.Duration) {
	t.Helper()
	start := time.Now()
	_, _ = io.Copy(io.Discard, p.stdout)
	_ = p.Wait()
	return p.ProcessState.ExitCode(), time.Since(start)
}

// A reader that goes away (… | head) ends the program, its children and its
// keys, with an error and not by a signal.
func TestOutputIsClosed(t *testing.T) {
	server := redistest.StartServer(t)
	cmd := labtest.Program{Args: []string{"run", "flood", "key child"}, Env: map[string]string{"REDIS_URL": "redis://" + server.Addr()}}.Command(t.Context(), t)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = bufio.NewReader(stdout).ReadString('\n')
	_ = stdout.Close()
	_ = cmd.Wait()
	labtest.Result{Stderr: stderr.String(), Status: cmd.ProcessState.ExitCode()}.WantFailure(t, []string{"cannot write to standard output"})
	wantNoKeys(t, server)
}

func wantNoKeys(t *testing.T, server *redistest.Server) {
	t.Helper()
	keys, err := server.Client(t).Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 0 {
		t.Errorf("keys = %q, %v; want none left", keys, err)
	}
}
