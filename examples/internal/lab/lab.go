package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// Exit statuses of [Main].
const (
	exitFailed      = 1
	exitInterrupted = 130 // as a shell reports a program ended by Ctrl-C
)

// errInterrupted says that a child process ended because of Ctrl-C.
var errInterrupted = errors.New("interrupted")

// Env is what a program gets. Its methods are safe for concurrent use.
type Env struct {
	Args []string  // after the program's name
	Out  io.Writer // standard output; each write is whole

	out    *output
	lookup func(string) (string, bool) // os.LookupEnv
	dir    string                      // where .env may be

	settings func() (*redis.Options, error) // nil: the embedded Redis; reads once

	mu       sync.Mutex
	client   *redis.Client
	embedded *miniredis.Miniredis
	prefix   string
	used     bool // somebody knows the prefix
	remove   bool // the keys under prefix are this process's to remove
}

// Main runs a program and exits. An error becomes one line on standard error
// and status 1. Ctrl-C and SIGTERM end the context of run, which is waited for,
// and give status 130. In every case the children are gone by then and the keys
// under [Env.Prefix] are removed; a second Ctrl-C does not wait for that.
func Main(run func(context.Context, *Env) error) {
	// With its reader gone (… | head), a write to standard output is an error
	// like any other and not the end of the process.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // from now on signals do what they always do
	if isChild() {
		ctx = withParent(ctx)
	}

	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	err := New(os.Args[1:], os.Stdout, os.LookupEnv, ".").Run(ctx, run)
	switch {
	case err == nil:
		os.Exit(0)
	case isInterrupt(err):
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, errInterrupted)
		os.Exit(exitInterrupted)
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "%s: %v: %s\n", name, errInterrupted, oneLine(err))
		os.Exit(exitInterrupted)
	default:
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, oneLine(err))
		os.Exit(exitFailed)
	}
}

// New returns the environment of one run. Settings come from lookup and from
// .env in dir.
func New(args []string, out io.Writer, lookup func(string) (string, bool), dir string) *Env {
	e := &Env{Args: args, out: &output{w: out}, lookup: lookup, dir: dir}
	e.Out = e.out
	e.settings = sync.OnceValues(func() (*redis.Options, error) { return readSettings(e.lookup, e.dir) })
	e.prefix, e.remove = keyPrefix(lookup)
	return e
}

// Run calls run and then cleans up after it: keys, client, embedded Redis.
func (e *Env) Run(ctx context.Context, run func(context.Context, *Env) error) error {
	logging.Disable() // go-redis would write lines of its own to standard error
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	e.out.failed = cancel

	err := run(ctx, e)
	if cause := context.Cause(ctx); errors.Is(cause, errOutput) {
		err = cause
	}
	// The end of ctx must not keep the keys.
	clean, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	if cleanErr := e.close(clean); cleanErr != nil && (err == nil || isInterrupt(err)) {
		err = cleanErr
	}
	return err
}

func (e *Env) close(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client == nil {
		return nil
	}
	var err error
	if e.used && e.remove && e.embedded == nil {
		err = e.removeKeys(ctx)
	}
	_ = e.client.Close()
	if e.embedded != nil {
		e.embedded.Close()
	}
	return err
}

// isInterrupt reports whether err says only that the run was told to end.
func isInterrupt(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, errInterrupted)
}

// oneLine returns the text of err on one line.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// Usage is the error of a program that got arguments it does not know.
func Usage(known string) error {
	return fmt.Errorf("unknown arguments: check that they are %s", known)
}
