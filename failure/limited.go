package failure

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A limited is a context with a deadline, as by context.WithDeadlineCause, which
// makes its timer only when somebody waits for its end: a call that is over
// before pays for none.
type limited struct {
	context.Context // its parent
	deadline        time.Time
	over            error

	timed atomic.Pointer[timed]

	mu    sync.Mutex // guards what follows, and making timed
	ended bool
}

// timed is the context that keeps the deadline.
type timed struct {
	context.Context
	cancel context.CancelFunc
}

func limit(ctx context.Context, d time.Duration, over error) *limited {
	return &limited{Context: ctx, deadline: time.Now().Add(d), over: over}
}

// begin makes the context that keeps the deadline.
func (l *limited) begin() *timed {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.timed.Load()
	if t == nil {
		ctx, cancel := context.WithDeadlineCause(l.Context, l.deadline, l.over)
		if l.ended {
			cancel()
		}
		t = &timed{ctx, cancel}
		l.timed.Store(t)
	}
	return t
}

// end ends the context, if that was not done.
func (l *limited) end() {
	l.mu.Lock()
	l.ended = true
	t := l.timed.Load()
	l.mu.Unlock()
	if t != nil {
		t.cancel()
	}
}

// isOver reports whether its own deadline has passed, and ended it.
func (l *limited) isOver() bool {
	if time.Now().Before(l.deadline) {
		return false
	}
	t := l.begin()
	<-t.Done()                        // the timer is due, if it has not run
	return context.Cause(t) == l.over //nolint:errorlint // the very one
}

func (l *limited) Deadline() (time.Time, bool) {
	if deadline, ok := l.Context.Deadline(); ok && deadline.Before(l.deadline) {
		return deadline, true
	}
	return l.deadline, true
}

func (l *limited) Done() <-chan struct{} {
	if t := l.timed.Load(); t != nil {
		return t.Done()
	}
	return l.begin().Done()
}

func (l *limited) Err() error {
	t := l.timed.Load()
	if t == nil {
		l.mu.Lock()
		ended := l.ended
		l.mu.Unlock()
		if err := l.Context.Err(); err != nil || !ended && time.Now().Before(l.deadline) {
			return err
		}
		t = l.begin()
	}
	return t.Err()
}

// Value asks the context that keeps the deadline, if there is one: what is made
// from a limited finds out by it that it need not watch.
func (l *limited) Value(key any) any {
	if t := l.timed.Load(); t != nil {
		return t.Value(key)
	}
	return l.Context.Value(key)
}
