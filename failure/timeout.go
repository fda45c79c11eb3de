package failure

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/go-transparency/transparency"
)

// TimeoutOptions configures a [Timeout]. Nil is fine.
type TimeoutOptions struct {
	// Abandon makes Do return when the time is over, or the context of its
	// caller ends, whether the call has returned or not. The call then runs on,
	// in the goroutine in which it was made; what it returns is dropped.
	Abandon bool

	// Logger is told of a panic of a call that was abandoned: it has no caller
	// left to be passed to. Nil discards.
	Logger *slog.Logger
}

// A Timeout is a [Policy] that gives a call a time limit of its own, by a
// deadline of its context. It does not change and may be shared.
type Timeout struct {
	limit   time.Duration
	over    error // the cause of its deadline, and of no other's
	abandon bool
	logger  *slog.Logger
}

// NewTimeout returns a Timeout of limit. One that is not positive is an error
// of every call, wrapping
// [github.com/go-transparency/transparency.ErrInvalid].
func NewTimeout(limit time.Duration, opts *TimeoutOptions) *Timeout {
	t := &Timeout{limit: limit, over: fmt.Errorf("%w after %v", ErrTimeout, limit), logger: slog.New(slog.DiscardHandler)}
	if opts != nil {
		t.abandon = opts.Abandon
		if opts.Logger != nil {
			t.logger = opts.Logger
		}
	}
	return t
}

// Do implements [Policy]. It waits for the call, which is to look at its
// context, and returns what it returned; if that is an error, and the time was
// over, an [*Error] wrapping [ErrTimeout] and that error. A value that came
// too late is a value.
//
// If it was told to Abandon, it makes the call in another goroutine, and does
// not wait longer than that; when the context has ended it makes none. The
// error of an abandoned call wraps [transparency.ErrUncertain], and
// [ErrTimeout] or the error of the caller's context.
func (t *Timeout) Do(ctx context.Context, next Next) (any, error) {
	if t.limit <= 0 {
		return nil, failed("timeout", "", invalid("the limit is %v", t.limit))
	}
	if t.abandon && ctx.Err() != nil {
		return nil, ended(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.limit, t.over)
	defer cancel()
	if t.abandon {
		return t.race(ctx, next)
	}
	result, err := next(ctx)
	if err != nil && context.Cause(ctx) == t.over { //nolint:errorlint // the very one
		err = t.error(err)
	}
	return result, err
}

func (t *Timeout) error(last error) error {
	return &Error{Policy: "timeout", Reason: t.over, Last: last}
}

// ending is how a call in another goroutine ended.
type ending struct {
	result   any
	err      error
	returned bool // else it called runtime.Goexit, or panicked with
	panicked any
}

// race makes the call in another goroutine and returns when it ends, or ctx.
func (t *Timeout) race(ctx context.Context, next Next) (any, error) {
	finished := make(chan ending) // received from until left is closed
	left := make(chan struct{})
	defer close(left)
	go func() {
		var e ending
		defer func() {
			if !e.returned {
				e.panicked = recover()
			}
			select {
			case finished <- e:
			case <-left:
				if e.panicked != nil {
					t.logger.Error("failure: an abandoned call panicked", "panic", e.panicked, "stack", string(debug.Stack()))
				}
			}
		}()
		e.result, e.err = next(ctx)
		e.returned = true
	}()
	var e ending
	select {
	case e = <-finished:
	case <-ctx.Done():
		select {
		case e = <-finished:
		default:
			err := fmt.Errorf("%w: the call goes on", transparency.ErrUncertain)
			if context.Cause(ctx) == t.over { //nolint:errorlint // the very one
				return nil, t.error(err)
			}
			return nil, &Error{Policy: "timeout", Reason: ended(ctx), Last: err}
		}
	}
	switch {
	case e.panicked != nil:
		panic(e.panicked)
	case !e.returned:
		runtime.Goexit()
	case e.err != nil && context.Cause(ctx) == t.over: //nolint:errorlint // the very one
		return e.result, t.error(e.err)
	}
	return e.result, e.err
}
