package failure

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
)

// DefaultMaxAbandoned is what a zero field of [TimeoutOptions] means.
const DefaultMaxAbandoned = 64

// TimeoutOptions configures a [Timeout]. Nil is fine.
type TimeoutOptions struct {
	// Abandon makes Do return when the time is over, or the context of its
	// caller ends, whether the call has returned or not. The call then runs on,
	// in the goroutine in which it was made; what it returns is dropped.
	Abandon bool

	// MaxAbandoned is how many abandoned calls may go on. While they do, more
	// calls get [ErrFull]. (Those that are under way then may still be
	// abandoned: a [Bulkhead] within bounds them all.) Zero means
	// [DefaultMaxAbandoned]; negative means no bound.
	MaxAbandoned int

	// Discard is given the result of each call that was abandoned, to close
	// what has to be closed. It runs in the goroutine of the call.
	Discard func(result any)

	// Logger is told of a panic of a call that was abandoned: it has no caller
	// left to be passed to. Nil discards.
	Logger *slog.Logger
}

// A Timeout is a [Policy] that gives a call a time limit of its own, by a
// deadline of its context, which ends in any case when Do returns. A Timeout
// may be shared.
type Timeout struct {
	limit   time.Duration
	over    error // the cause of its deadline, and of no other's
	abandon bool
	most    int64
	away    awayer

	abandoned atomic.Int64
}

// NewTimeout returns a Timeout of limit. One that is not positive is an error
// of every call, wrapping
// [github.com/go-transparency/transparency.ErrInvalid].
func NewTimeout(limit time.Duration, opts *TimeoutOptions) *Timeout {
	var o TimeoutOptions
	if opts != nil {
		o = *opts
	}
	orDefault(&o.MaxAbandoned, DefaultMaxAbandoned)
	return &Timeout{
		limit:   limit,
		over:    fmt.Errorf("%w after %v", ErrTimeout, limit),
		abandon: o.Abandon,
		most:    int64(o.MaxAbandoned),
		away:    newAwayer(o.Discard, o.Logger),
	}
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
	if t == nil || t.over == nil || next == nil {
		return nil, unusable("timeout", next)
	}
	if t.limit <= 0 {
		return nil, failed("timeout", "", invalid("the limit is %v", t.limit))
	}
	if t.abandon {
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		if t.most > 0 && t.abandoned.Load() >= t.most {
			return nil, &Error{Policy: "timeout", Reason: fmt.Errorf("%w: %d abandoned calls go on", ErrFull, t.most)}
		}
	}
	limited := limit(ctx, t.limit, t.over)
	defer limited.end()
	if t.abandon {
		return t.race(limited, next)
	}
	result, err := next(limited)
	if err != nil && limited.isOver() {
		err = t.error(err)
	}
	return result, err
}

func (t *Timeout) error(last error) error {
	return &Error{Policy: "timeout", Reason: t.over, Last: last}
}

// race makes the call in another goroutine and returns when it ends, or ctx.
func (t *Timeout) race(ctx *limited, next Next) (any, error) {
	endings := make(chan ending) // received from until left is closed
	left := make(chan struct{})
	defer close(left)
	go t.away.call(ctx, next, 1, endings, left, func() { t.abandoned.Add(-1) })
	var e ending
	select {
	case e = <-endings:
	case <-ctx.Done():
		select {
		case e = <-endings:
		default:
			t.abandoned.Add(1)
			if ctx.isOver() {
				return nil, t.error(errGoesOn)
			}
			return nil, &Error{Policy: "timeout", Reason: ended(ctx), Last: errGoesOn}
		}
	}
	result, err := e.settle()
	if err != nil && ctx.isOver() {
		err = t.error(err)
	}
	return result, err
}

// errGoesOn stands for the error of a call that has not ended.
var errGoesOn = fmt.Errorf("%w: the call goes on", transparency.ErrUncertain)
