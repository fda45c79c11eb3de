package lab

import (
	"context"
	"fmt"
	"strings"
)

// A Process is this program again, in a process of its own that runs beside this
// one until it is closed or killed.
type Process struct {
	Said string // the first line that it printed

	child   *child
	cancel  context.CancelFunc
	said    chan struct{} // closed when it has printed a line
	done    chan struct{} // closed when it has ended
	printed []string      // the lines after the first; for when it has ended
	err     error         // why it ended
}

// Start starts a process with a line of arguments, and returns when it has
// printed its first line. Like those of [Env.Processes] it uses the same Redis
// and the same key prefix. It is asked to end when ctx ends, but has to be closed
// all the same.
func (e *Env) Start(ctx context.Context, line string) (*Process, error) {
	p := &Process{said: make(chan struct{}), done: make(chan struct{})}
	ctx, p.cancel = context.WithCancel(ctx)
	var err error
	if p.child, err = e.child(ctx, hearer{p}, line); err != nil {
		p.cancel()
		return nil, err
	}
	if err := p.child.cmd.Start(); err != nil {
		p.cancel()
		return nil, fmt.Errorf("cannot start process %q: %w", line, err)
	}
	go func() {
		p.err = p.child.ended(ctx, p.child.cmd.Wait())
		close(p.done)
	}()
	select {
	case <-p.said:
		return p, nil
	case <-p.done:
		p.cancel()
		if p.err == nil {
			p.err = fmt.Errorf("process %q ended without a word", line)
		}
		return nil, p.err
	}
}

// A hearer takes the lines that a process prints.
type hearer struct{ p *Process }

func (h hearer) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		select {
		case <-h.p.said:
			h.p.printed = append(h.p.printed, line)
		default:
			h.p.Said = line
			close(h.p.said)
		}
	}
	return len(b), nil
}

// Kill ends the process without a warning (SIGKILL), and returns when it is gone.
func (p *Process) Kill() {
	_ = p.child.cmd.Process.Kill() // or it has ended
	<-p.done
	p.cancel()
}

// Close asks the process to end, and returns when it has.
func (p *Process) Close() {
	p.cancel()
	<-p.done
}

// Printed waits for the end of the process, and returns the lines that it printed
// after the first.
func (p *Process) Printed() []string {
	<-p.done
	return p.printed
}
