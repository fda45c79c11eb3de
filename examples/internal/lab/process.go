package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// What a parent tells its children through the environment.
const (
	envChild  = "LAB_CHILD"
	envPrefix = "LAB_PREFIX"
)

// patience is how long a process that was told to end may take to clean up.
const patience = 3 * time.Second

// Processes runs this program again in processes of their own, all at once, one
// for each line of arguments, and waits for them all. What they print is passed
// on line by line. When one fails the others are ended, and its error is
// returned. The children use the same Redis and the same key prefix.
func (e *Env) Processes(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, line := range args {
		wg.Go(func() {
			if err := e.process(ctx, e.Out, line); err != nil {
				cancel(err) // only the first counts: it ended the others
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// Output runs one process as [Env.Processes] does and returns what it printed.
func (e *Env) Output(ctx context.Context, args string) (string, error) {
	var out strings.Builder
	err := e.process(ctx, &out, args)
	return strings.TrimSpace(out.String()), err
}

func (e *Env) process(ctx context.Context, out io.Writer, line string) error {
	c, err := e.child(ctx, out, line)
	if err != nil {
		return err
	}
	return c.ended(ctx, c.cmd.Run())
}

// A child is this program again, with other arguments.
type child struct {
	cmd    *exec.Cmd
	line   string // the arguments
	out    *lines
	stderr *bounded
}

// child returns a process that is still to be started. It ends with ctx.
func (e *Env) child(ctx context.Context, out io.Writer, line string) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program's file: %w", err)
	}
	c := &child{line: line, out: &lines{w: out}, stderr: &bounded{}}
	c.cmd = exec.CommandContext(ctx, exe, strings.Fields(line)...) //nolint:gosec // this program again
	c.cmd.Env, err = e.childEnv()
	if err != nil {
		return nil, err
	}
	c.cmd.Stdout, c.cmd.Stderr = c.out, c.stderr

	// A child ends when its standard input does. That asks it to end on every
	// system, and happens by itself when this process dies, in whatever way.
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("cannot start process %q: %w", line, err)
	}
	c.cmd.Cancel = stdin.Close
	c.cmd.WaitDelay = 2 * patience // then it is killed
	return c, nil
}

// ended says why a child ended, of whose run err is the result.
func (c *child) ended(ctx context.Context, err error) error {
	c.out.flush()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == exitInterrupted:
		return errInterrupted
	}
	if text := strings.TrimSpace(c.stderr.buf.String()); text != "" {
		// The child has said it already, in one line.
		name := strings.TrimSuffix(filepath.Base(c.cmd.Path), ".exe")
		return errors.New(strings.TrimPrefix(text, name+": "))
	}
	return fmt.Errorf("process %q: %w", c.line, err)
}

func (e *Env) childEnv() ([]string, error) {
	env := append(os.Environ(), envChild+"=1", envPrefix+"="+e.Prefix())
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.embedded != nil {
		env = append(env, envURL+"=redis://"+e.embedded.Addr())
	}
	return env, nil
}

func isChild() bool { return os.Getenv(envChild) != "" }

// withParent returns a context that ends with the parent, by what
// [Env.Processes] does with the child's standard input.
func withParent(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until it ends, or breaks
		cancel()
		time.Sleep(patience)
		os.Exit(exitInterrupted)
	}()
	return ctx
}
