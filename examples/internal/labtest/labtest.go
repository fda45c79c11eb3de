// Package labtest is how the example programs are tested: in this process for
// their output, and as processes of their own for their exit status, standard
// error and signals. A program's test binary doubles as the program, so that
// the child processes it starts are the program too.
package labtest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-transparency/transparency/examples/internal/lab"
)

// envProgram makes the test binary the program.
const envProgram = "LAB_TEST_PROGRAM"

// Main is the TestMain of a program whose main is lab.Main(run).
func Main(m *testing.M, run func(context.Context, *lab.Env) error) {
	// A fuzzing worker is this binary too, and inherits the variable.
	worker := len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "-test.")
	if os.Getenv(envProgram) != "" && !worker {
		lab.Main(run)
	}
	for _, name := range []string{"CONFIG_BACKEND", "CONFIG_URL", "USER_SERVICE_URL", "PRODUCT_SERVICE_URL"} {
		_ = os.Unsetenv(name)
	}
	// For the processes that the tests start, and those that they start. Under the
	// race detector each would wait a second before it ends.
	_ = os.Setenv(envProgram, "1")
	_ = os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	goleak.VerifyTestMain(m)
}

// Output runs the program as [Example] does and returns what it prints. Without a
// Redis it may run in a bubble of testing/synctest, where its time takes none.
func Output(tb testing.TB, run func(context.Context, *lab.Env) error, args ...string) string {
	tb.Helper()
	var out strings.Builder
	none := func(string) (string, bool) { return "", false }
	if err := lab.New(args, &out, none, tb.TempDir()).Run(tb.Context(), run); err != nil {
		tb.Errorf("the program failed: %v", err)
	}
	return out.String()
}

// Example runs the program in this process, without any setting, and lets it
// print to standard output. An error is printed as a last line.
func Example(run func(context.Context, *lab.Env) error, args ...string) {
	dir, err := os.MkdirTemp("", "labtest")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	none := func(string) (string, bool) { return "", false }
	if err := lab.New(args, os.Stdout, none, dir).Run(context.Background(), run); err != nil {
		fmt.Println("error:", err)
	}
}

// Program is the program as a process.
type Program struct {
	Args   []string
	Env    map[string]string // beside what every process needs
	Dotenv string            // the content of .env in its working directory
	Dir    string            // its working directory; empty means an empty one
}

// Result is how a program ended.
type Result struct {
	Stdout, Stderr string
	Status         int
}

// Run runs p to its end.
func (p Program) Run(tb testing.TB) Result {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	var stdout, stderr strings.Builder
	cmd := p.Command(ctx, tb)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		tb.Fatal(err)
	}
	return Result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// Command returns p as a command whose streams are still to be set.
func (p Program) Command(ctx context.Context, tb testing.TB) *exec.Cmd {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	if p.Dir == "" {
		p.Dir = tb.TempDir()
	}
	if p.Dotenv != "" {
		if err := os.WriteFile(p.Dir+"/.env", []byte(p.Dotenv), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	cmd := exec.CommandContext(ctx, exe, p.Args...)
	cmd.Dir = p.Dir
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if name == envProgram || !ours(name) {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		cmd.Env = append(cmd.Env, name+"="+p.Env[name])
	}
	return cmd
}

// ours reports whether a variable would change what a program does.
func ours(name string) bool {
	for _, prefix := range []string{"REDIS_", "CONFIG_", "USER_SERVICE_", "PRODUCT_SERVICE_", "LAB_", "NO_COLOR", "FORCE_COLOR"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// WantFailure checks that the program failed as programs here do: status 1 and
// one line on standard error that has all of want and none of the secrets.
func (r Result) WantFailure(tb testing.TB, want []string, secrets ...string) {
	tb.Helper()
	if r.Status != 1 {
		tb.Errorf("exit status = %d, want 1; stdout:\n%s\nstderr:\n%s", r.Status, r.Stdout, r.Stderr)
	}
	if strings.Count(r.Stderr, "\n") != 1 || !strings.HasSuffix(r.Stderr, "\n") {
		tb.Errorf("stderr = %q, want one line", r.Stderr)
	}
	for _, text := range want {
		if !strings.Contains(r.Stderr, text) {
			tb.Errorf("stderr = %q, want %q in it", r.Stderr, text)
		}
	}
	for _, secret := range secrets {
		if strings.Contains(r.Stderr+r.Stdout, secret) {
			tb.Errorf("output holds the secret %q:\n%s%s", secret, r.Stdout, r.Stderr)
		}
	}
}
