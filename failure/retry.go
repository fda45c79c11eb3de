package failure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/backoff"
)

// What zero fields of [RetryOptions] mean.
const (
	DefaultAttempts      = 3
	DefaultBase          = backoff.DefaultBase
	DefaultMax           = backoff.DefaultMax
	DefaultMaxRetryAfter = 10 * time.Second
)

// RetryOptions configures a [Retry]. Nil is fine.
type RetryOptions struct {
	// Attempts is how often the call is made at most. Zero means
	// [DefaultAttempts]; negative means that the context and the budget alone
	// decide.
	Attempts int

	// The wait before attempt n+1 is random, between zero and Base doubled n-1
	// times, but at most Max. Zero means [DefaultBase], and [DefaultMax] or
	// Base if that is longer; a negative Base means no wait, a negative Max no
	// bound.
	Base, Max time.Duration

	// MaxRetryAfter is the longest wait that is granted to a service which asks
	// for one (see [RetryAfter]); if it asks for more, the Retry gives up. What
	// it asks for comes on top of the random wait, so that callers told the
	// same do not come back together. Zero means [DefaultMaxRetryAfter];
	// negative means that no error is heeded in this.
	MaxRetryAfter time.Duration

	// Budget bounds the attempts after the first, and may be shared by all
	// Retries that call one service. Nil means one of its own with the default
	// options.
	Budget *Budget

	// Idempotent says that all calls may be made twice, so that attempts whose
	// outcome is unknown are repeated too. [WithIdempotent] says it of one.
	Idempotent bool

	// Retryable, when set, decides instead of Idempotent and the rule of
	// [Retry] which errors are worth another attempt.
	Retryable func(err error) bool
}

// A Retry is a [Policy] that makes a failed call again.
//
// By default it repeats only what had no effect, which is what
// [transparency.Retryable] is true for; with Idempotent also what is
// uncertain or timed out. It never repeats what this side refused
// ([transparency.ErrRejected], as from an open breaker), nor what a Retry
// within has given up on: retries in layers would multiply.
//
// Waits have full jitter (Brooker, "Exponential Backoff And Jitter", 2015).
// A Retry does not wait in vain: if the wait would outlast the deadline of the
// context it returns at once. It does not change and may be shared.
type Retry struct {
	opts RetryOptions
	err  error // why no call can work
	wait backoff.Policy
}

// NewRetry returns a Retry. An option that makes no sense is an error of every
// call, wrapping [github.com/go-transparency/transparency.ErrInvalid].
func NewRetry(opts *RetryOptions) *Retry {
	r := &Retry{}
	if opts != nil {
		r.opts = *opts
	}
	orDefault(&r.opts.Attempts, DefaultAttempts)
	orDefault(&r.opts.MaxRetryAfter, DefaultMaxRetryAfter)
	orDefault(&r.opts.Max, max(DefaultMax, r.opts.Base))
	r.wait = backoff.Policy{Base: r.opts.Base, Max: r.opts.Max}
	if r.opts.Budget == nil {
		r.opts.Budget = NewBudget(nil)
	}
	r.err = r.opts.Budget.err
	if base, limit := r.opts.Base, r.opts.Max; r.err == nil && limit > 0 && base > limit {
		r.err = invalid("the first wait is %v, more than the longest, %v", base, limit)
	}
	return r
}

// Do implements [Policy]. An error that is not worth another attempt is
// returned as it is. Else Do returns an [*Error] that wraps the last attempt's
// error and [ErrAttempts], [ErrBudget], [ErrNoTime], or, if the context has
// ended, its error. The last real error is never hidden by the end of the
// context: when that cut the last attempt short, the one before is there, and
// so it is when this side refused the last attempt, as a breaker does that the
// attempts have opened. If the outcome of an earlier attempt is unknown, the
// error wraps transparency.ErrUncertain, unless the last attempt was answered.
func (r *Retry) Do(ctx context.Context, next Next) (any, error) {
	if r == nil || r.opts.Budget == nil || next == nil {
		return nil, unusable("retry", next)
	}
	if r.err != nil {
		return nil, failed("retry", "", r.err)
	}
	result, err := next(ctx)
	if err == nil {
		r.opts.Budget.credit()
		return result, nil
	}
	made := Attempt(ctx)
	var doubt error // what came last of an attempt that may have had an effect
	for n, last := 1, err; ; n++ {
		worth := r.worth(ctx, err)
		if ctxErr := ctx.Err(); ctxErr != nil && (worth || errors.Is(err, ctxErr)) {
			return result, doubted(r.ended(ctx, n, err, last), doubt)
		}
		if !worth {
			if n > 1 && errors.Is(err, transparency.ErrRejected) && !errors.Is(err, last) {
				err = &Error{Policy: "retry", Reason: err, Attempts: n, Last: last}
			}
			return result, doubted(err, doubt)
		}
		wait, reason := r.next(ctx, n, err)
		if reason == nil && backoff.Sleep(ctx, wait) != nil {
			reason = ended(ctx)
		}
		if reason != nil {
			return result, &Error{Policy: "retry", Reason: reason, Attempts: n, After: RetryAfter(err), Last: doubted(err, doubt)}
		}
		if last = err; errors.Is(err, transparency.ErrUncertain) {
			doubt = err
		}
		if result, err = next(withAttempt(ctx, made+n)); err == nil {
			return result, nil
		}
	}
}

// next returns how long to wait before another attempt, or why there is none.
func (r *Retry) next(ctx context.Context, n int, err error) (time.Duration, error) {
	if r.opts.Attempts > 0 && n >= r.opts.Attempts {
		return 0, ErrAttempts
	}
	wait := r.wait.Delay(n - 1)
	if r.opts.MaxRetryAfter > 0 {
		after := RetryAfter(err)
		if after > r.opts.MaxRetryAfter {
			return 0, ErrNoTime
		}
		wait += min(after, math.MaxInt64-wait)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return 0, ErrNoTime
	}
	// Charged now: retries that wait are on their way.
	if !r.opts.Budget.spend() {
		return 0, ErrBudget
	}
	return wait, nil
}

// doubted returns err, joined with doubt if its class says that nothing has
// happened: that is so of the last attempt, but not of the call.
func doubted(err, doubt error) error {
	if doubt == nil || errors.Is(err, transparency.ErrUncertain) {
		return err
	}
	for _, class := range [...]error{
		transparency.ErrUnavailable, transparency.ErrRejected, transparency.ErrDenied, transparency.ErrInvalid,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, class) {
			return fmt.Errorf("%w; an earlier attempt: %w", err, doubt)
		}
	}
	return err
}

// ended returns the error of a call whose context has ended: err, joined with
// what the end of the context may have hidden.
func (r *Retry) ended(ctx context.Context, n int, err, last error) error {
	if errors.Is(err, ctx.Err()) {
		if n == 1 {
			return err
		}
		return &Error{Policy: "retry", Reason: err, Attempts: n, Last: last}
	}
	return &Error{Policy: "retry", Reason: ended(ctx), Attempts: n, Last: err}
}

// ended returns the error of ctx and its cause.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() { //nolint:errorlint // the very one
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// worth reports whether err is worth another attempt.
func (r *Retry) worth(ctx context.Context, err error) bool {
	if r.opts.Retryable != nil {
		return r.opts.Retryable(err)
	}
	return !gaveUp(err) && repeatable(err, r.opts.Idempotent || isIdempotent(ctx))
}

// gaveUp reports whether a Retry within has made all its attempts.
func gaveUp(err error) bool {
	return errors.Is(err, ErrAttempts) || errors.Is(err, ErrBudget) || errors.Is(err, ErrNoTime)
}

// repeatable reports whether a call that ended with err may be made again, and
// that may help.
func repeatable(err error, idempotent bool) bool {
	switch {
	case transparency.Retryable(err):
		return true
	case !idempotent:
		return false
	}
	for _, final := range [...]error{
		transparency.ErrRejected, transparency.ErrDenied, transparency.ErrInvalid, context.Canceled,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	// A deadline here is that of the attempt alone.
	return errors.Is(err, transparency.ErrUncertain) || errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded)
}
