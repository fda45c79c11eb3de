package lab_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/internal/redistest"
)

// inRun calls f as a program.
func inRun(t *testing.T, settings map[string]string, f func(ctx context.Context, env *lab.Env)) {
	t.Helper()
	err := newEnv(t, settings).Run(t.Context(), func(ctx context.Context, env *lab.Env) error {
		f(ctx, env)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestStart(t *testing.T) {
	inRun(t, nil, func(ctx context.Context, env *lab.Env) {
		for _, test := range []struct {
			name string
			end  func(*lab.Process)
			want string
		}{
			{"closed", (*lab.Process).Close, "[second asked]"},
			{"killed", (*lab.Process).Kill, ""}, // what it had said last may be lost
		} {
			p, err := env.Start(ctx, "beside a b")
			if err != nil {
				t.Fatal(err)
			}
			if p.Said != "[a b]" {
				t.Errorf("Said = %q, want the first line", p.Said)
			}
			test.end(p)
			if got := fmt.Sprint(p.Printed()); test.want != "" && got != test.want || strings.Contains(got, "asked") != (test.name == "closed") {
				t.Errorf("%s: Printed = %s, want %s", test.name, got, test.want)
			}
			p.Kill()
			p.Close()
		}
	})
}

// A process that does not get as far as its first line.
func TestStartFails(t *testing.T) {
	inRun(t, nil, func(ctx context.Context, env *lab.Env) {
		for line, want := range map[string]string{
			"fail": "this process failed: check nothing",
			"mute": `process "mute" ended without a word`,
		} {
			if p, err := env.Start(ctx, line); err == nil || err.Error() != want {
				t.Errorf("Start(%q) = %v, %v; want the error %q", line, p, err, want)
			}
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if p, err := env.Start(ended, "beside"); err == nil {
			t.Errorf("Start after the end of its context = %v, want an error", p)
		}
	})
}

// A secret is that of the run: its processes have the same, and others do not.
func TestSecret(t *testing.T) {
	server := redistest.StartServer(t)
	var secrets []string
	for range 2 {
		inRun(t, map[string]string{"REDIS_URL": "redis://" + server.Addr()}, func(ctx context.Context, env *lab.Env) {
			first, err := env.Secret(ctx)
			if err != nil {
				t.Fatal(err)
			}
			second, err := env.Secret(ctx)
			if err != nil || string(first) != string(second) || len(first) != 32 {
				t.Errorf("Secret = %d bytes, and then others: %t, %v", len(first), string(first) != string(second), err)
			}
			secrets = append(secrets, string(first))
		})
	}
	if secrets[0] == secrets[1] {
		t.Error("two runs have one secret")
	}
	wantNoKeys(t, server)

	inRun(t, nil, func(ctx context.Context, env *lab.Env) {
		secret, err := env.Secret(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := env.Output(ctx, "secret"); err != nil || got != fmt.Sprintf("%x", secret) {
			t.Errorf("a process of the run has another secret (%v)", err)
		}
	})
	err := newEnv(t, map[string]string{"REDIS_PORT": "1"}).Run(t.Context(), func(ctx context.Context, env *lab.Env) error {
		_, err := env.Secret(ctx)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "share a secret") || !strings.Contains(err.Error(), "check") {
		t.Errorf("Secret without a Redis: error = %v, want what to check", err)
	}
}
