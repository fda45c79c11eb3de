package failure

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
)

// An ending is how a call in another goroutine ended.
type ending struct {
	attempt  int // which of several it was
	result   any
	err      error
	returned bool // else it called runtime.Goexit, or panicked with
	panicked any
}

// settle ends the call in the goroutine of its caller as it ended in its own.
func (e *ending) settle() (any, error) {
	switch {
	case e.panicked != nil:
		panic(e.panicked)
	case !e.returned:
		runtime.Goexit()
	}
	return e.result, e.err
}

// An awayer makes calls in goroutines of their own.
type awayer struct {
	discard func(result any)
	logger  *slog.Logger
}

func newAwayer(discard func(any), logger *slog.Logger) awayer {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return awayer{discard, logger}
}

// call makes a call and hands its ending to its caller, from whom it runs
// apart. If he has left, it clears up instead, and calls late unless that is
// nil.
func (a *awayer) call(ctx context.Context, next Next, attempt int, endings chan<- ending, left <-chan struct{}, late func()) {
	e := ending{attempt: attempt}
	defer func() {
		if !e.returned {
			e.panicked = recover()
		}
		select {
		case endings <- e:
		case <-left:
			if late != nil {
				defer late()
			}
			a.late(&e)
		}
	}()
	e.result, e.err = next(ctx)
	e.returned = true
}

// late clears up after a call whose caller has left.
func (a *awayer) late(e *ending) {
	defer func() {
		if p := recover(); p != nil {
			a.logger.Error("failure: Discard panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	if e.panicked != nil {
		a.logger.Error("failure: an abandoned call panicked", "panic", e.panicked, "stack", string(debug.Stack()))
	}
	if e.result != nil && a.discard != nil {
		a.discard(e.result)
	}
}
