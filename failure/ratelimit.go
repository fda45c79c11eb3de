package failure

import (
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/go-transparency/transparency/internal/backoff"
)

// DefaultTurnWait is what a zero field of [RateLimitOptions] means.
const DefaultTurnWait = time.Second

// RateLimitOptions configures a [RateLimit]. Nil is fine.
type RateLimitOptions struct {
	// Name is told in errors.
	Name string

	// Burst is how many calls may come at once, after a rest. Zero means as
	// many as in a second, and at least one.
	Burst int

	// Wait is how long a call waits for its turn at most. Zero means
	// [DefaultTurnWait]; negative means that none waits.
	Wait time.Duration
}

// A RateLimit is a [Policy] that bounds how many calls are made in a time, as a
// service asks of its callers. It is a bucket of tokens, and stands on
// [golang.org/x/time/rate]. It may be shared.
type RateLimit struct {
	opts    RateLimitOptions
	err     error // why no call can work
	limiter *rate.Limiter
}

// NewRateLimit returns a RateLimit of so many calls a second. A number that is
// not positive or more than 10⁹, and a Burst that is negative, are an error of
// every call, wrapping [github.com/go-transparency/transparency.ErrInvalid].
func NewRateLimit(perSecond float64, opts *RateLimitOptions) *RateLimit {
	l := &RateLimit{}
	if opts != nil {
		l.opts = *opts
	}
	orDefault(&l.opts.Wait, DefaultTurnWait)
	orDefault(&l.opts.Burst, int(max(1, min(perSecond, math.MaxInt32))))
	switch {
	case !(perSecond > 0 && perSecond <= 1e9):
		l.err = invalid("the rate is %v calls a second", perSecond)
	case l.opts.Burst < 0:
		l.err = invalid("the burst is %d", l.opts.Burst)
	}
	l.limiter = rate.NewLimiter(rate.Limit(perSecond), l.opts.Burst)
	return l
}

// Do implements [Policy]. It calls next when it is the call's turn. If that
// would not come in time it returns at once, with an [*Error] wrapping
// [ErrLimited] that says when to come again. If the context ends while the call
// waits, the error wraps the context's too.
func (l *RateLimit) Do(ctx context.Context, next Next) (any, error) {
	if l == nil || l.limiter == nil || next == nil {
		return nil, unusable("rate limit", next)
	}
	if l.err != nil {
		return nil, failed("rate limit", l.opts.Name, l.err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := time.Now()
	turn := l.limiter.ReserveN(now, 1)
	wait := turn.DelayFrom(now)
	if wait > 0 {
		deadline, ok := ctx.Deadline()
		if wait > l.opts.Wait || ok && deadline.Sub(now) <= wait {
			turn.CancelAt(now)
			return nil, &Error{Policy: "rate limit", Name: l.opts.Name, Reason: ErrLimited, After: wait}
		}
		if backoff.Sleep(ctx, wait) != nil {
			turn.Cancel()
			return nil, &Error{Policy: "rate limit", Name: l.opts.Name, Reason: fmt.Errorf("%w: %w", ErrLimited, ended(ctx))}
		}
	}
	return next(ctx)
}
