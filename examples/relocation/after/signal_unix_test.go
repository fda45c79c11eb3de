//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-transparency/transparency/examples/internal/labtest"
	"github.com/go-transparency/transparency/internal/redistest"
)

// Ctrl-C, at the beginning and while the client has no server, sent to the
// program alone and, as a terminal does, to its servers too.
func TestInterrupt(t *testing.T) {
	server := redistest.StartServer(t)
	for _, moment := range []string{"CONNECTED ", "The next server has noted "} {
		for name, group := range map[string]int{"parent": 1, "group": -1} {
			t.Run(moment+name, func(t *testing.T) {
				cmd := labtest.Program{Env: map[string]string{"REDIS_URL": "redis://" + server.Addr()}}.Command(context.Background(), t)
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
				lines := bufio.NewScanner(stdout)
				for lines.Scan() && !strings.HasPrefix(lines.Text(), moment) {
				}
				start := time.Now()
				if err := syscall.Kill(group*cmd.Process.Pid, syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, stdout)
				_ = cmd.Wait()
				if status, took := cmd.ProcessState.ExitCode(), time.Since(start); status != 130 || took > 3*time.Second {
					t.Errorf("exit status %d after %v, want 130 at once", status, took)
				}
				if got, want := stderr.String(), "after.test: interrupted\n"; got != want {
					t.Errorf("stderr = %q, want %q", got, want)
				}
				if err := syscall.Kill(-cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
					t.Errorf("kill(group, 0) = %v, want that no process is left", err)
				}
				if n, err := server.Client(t).DBSize(t.Context()).Result(); err != nil || n != 0 {
					t.Errorf("DBSIZE = %d, %v; want no key left", n, err)
				}
			})
		}
	}
}
