package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

var errOutput = errors.New("cannot write to standard output")

// output makes every write to w whole, and ends the run when one fails.
type output struct {
	mu     sync.Mutex
	w      io.Writer
	failed context.CancelCauseFunc
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.w.Write(p)
	if err != nil && o.failed != nil {
		o.failed(fmt.Errorf("%w: %w", errOutput, err))
	}
	return n, err
}

// lines passes on whole lines only, so that those of two children do not mix.
// It is for one child, whose output one goroutine copies.
type lines struct {
	w    io.Writer
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	_, err := l.w.Write(l.rest[:end])
	l.rest = append(l.rest[:0], l.rest[end:]...)
	return len(p), err
}

// flush passes on what came after the last line.
func (l *lines) flush() {
	if len(l.rest) > 0 {
		_, _ = l.w.Write(append(l.rest, '\n')) // the output keeps the error
		l.rest = nil
	}
}

// bounded keeps the first bytes written to it, so that a child that fails
// without end does not fill the memory.
type bounded struct{ buf bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	const most = 4096
	if room := most - b.buf.Len(); room > 0 {
		b.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// Color reports whether the output is a terminal that may be sent colors:
// never with NO_COLOR (https://no-color.org) or TERM=dumb.
func (e *Env) Color() bool {
	if value, _ := e.lookup("NO_COLOR"); value != "" {
		return false
	}
	// Older Windows consoles, which set no TERM, print escape codes as they are.
	term, _ := e.lookup("TERM")
	modern, _ := e.lookup("WT_SESSION")
	if term == "dumb" || term == "" && modern == "" {
		return false
	}
	file, ok := e.out.w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
