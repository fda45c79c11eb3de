package failure_test

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// Times without end are as good as that, and overflow nothing.
func TestEndlessTimes(t *testing.T) {
	const endless = math.MaxInt64
	synctest.Test(t, func(t *testing.T) {
		opts := failure.BreakerOptions{Name: "pay", Failures: 1, OpenFor: endless, ProbeTimeout: endless, Window: endless}
		local := failure.NewLocalBreaker(&opts)
		fail(t, local, 1)
		time.Sleep(365 * 24 * time.Hour)
		if got := local.State(); got != failure.StateOpen {
			t.Errorf("State after a year = %v, want open", got)
		}
		long := failure.BreakerOptions{Name: "pay", Failures: 1, OpenFor: endless/2 + 1, MaxOpenFor: endless}
		grown := failure.NewLocalBreaker(&long)
		fail(t, grown, 1)
		time.Sleep(endless/2 + 1)
		fail(t, grown, 1)
		time.Sleep(365 * 24 * time.Hour)
		if got := grown.State(); got != failure.StateOpen {
			t.Errorf("State a year after a failed probe = %v, want open", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := failure.NewRetry(&failure.RetryOptions{MaxRetryAfter: endless})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		calls, err := try(ctx, r, failure.WithRetryAfter(errDown, endless))
		if calls != 1 || !errors.Is(err, failure.ErrNoTime) {
			t.Errorf("Call = %d calls, %v, want one, and ErrNoTime", calls, err)
		}
	})
}

// What a service asks for is not lost behind the policies.
func TestRetryAfterThroughPolicies(t *testing.T) {
	asks := failure.WithRetryAfter(errBoom, time.Minute)
	synctest.Test(t, func(t *testing.T) {
		_, err := failure.Call(t.Context(), func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, asks }, failure.NewTimeout(time.Second, nil))
		if got := failure.RetryAfter(err); got != time.Minute {
			t.Errorf("RetryAfter(%v) = %v, want 1m", err, got)
		}
	})
	empty := failure.NewFallback(func(context.Context, error) (int, error) { return 0, io.EOF }, nil)
	_, err := try(t.Context(), empty, asks)
	if got := failure.RetryAfter(err); got != time.Minute {
		t.Errorf("RetryAfter(%v) = %v, want 1m", err, got)
	}
	if text := (&failure.Error{Policy: "breaker", After: time.Microsecond}).Error(); strings.Contains(text, "in 0s") {
		t.Errorf("Error = %q", text)
	}
}

// The class of an error is that of the call: if the second best is
// unavailable, that does not mean that the call had no effect.
func TestFallbackKeepsClass(t *testing.T) {
	for _, class := range []error{
		transparency.ErrUnavailable, transparency.ErrUncertain, transparency.ErrRejected,
		transparency.ErrDenied, transparency.ErrInvalid,
	} {
		down := failure.NewFallback(func(context.Context, error) (int, error) { return 0, errors.Join(class, io.EOF) }, nil)
		_, err := try(t.Context(), down, errBoom)
		if errors.Is(err, class) || !errors.Is(err, io.EOF) || !errors.Is(err, errBoom) {
			t.Errorf("Call error = %v, want both errors, and not the class of the answer's", err)
		}
		if calls, _ := try(t.Context(), failure.Policy(policy(func(ctx context.Context, next failure.Next) (any, error) {
			return failure.NewRetry(nil).Do(ctx, func(ctx context.Context) (any, error) { return down.Do(ctx, next) })
		})), errBoom, errBoom); calls != 1 {
			t.Errorf("a call that may have had an effect was made %d times", calls)
		}
	}
}

// A time limit within another does not claim the end of the other.
func TestNestedTimeouts(t *testing.T) {
	for _, abandon := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, err := failure.Call(t.Context(), func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() },
				failure.NewTimeout(time.Second, nil), failure.NewTimeout(time.Hour, &failure.TimeoutOptions{Abandon: abandon}))
			if !errors.Is(err, failure.ErrTimeout) || strings.Contains(err.Error(), "1h") {
				t.Errorf("abandon %v: Call error = %v, want that of one second", abandon, err)
			}
		})
	}
}

// A Base longer than the default Max is one.
func TestLongBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := failure.NewRetry(&failure.RetryOptions{Attempts: 2, Base: time.Hour, Budget: plenty()})
		var longest time.Duration
		for range 50 {
			start := time.Now()
			_, _ = try(t.Context(), r, errDown, errDown)
			longest = max(longest, time.Since(start))
		}
		if longest < time.Minute {
			t.Errorf("the longest of 50 waits up to an hour was %v", longest)
		}
	})
}

// A breaker that opens under the attempts does not hide what opened it.
func TestRetryKeepsLastErrorBehindBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, last := range []error{errDown, transparency.ErrUncertain} {
			r := failure.NewRetry(&failure.RetryOptions{Idempotent: true, Attempts: 5, Budget: plenty()})
			b := failure.NewLocalBreaker(&failure.BreakerOptions{Failures: 2})
			_, err := failure.Call(t.Context(), func(context.Context) (int, error) { return 0, last }, r, b)
			if !errors.Is(err, failure.ErrOpen) || !errors.Is(err, last) || transparency.Retryable(err) {
				t.Errorf("Call error = %v, want ErrOpen and %v", err, last)
			}
			if after := failure.RetryAfter(err); after <= 0 || after > 5*time.Second {
				t.Errorf("RetryAfter = %v, want what the breaker said", after)
			}
		}
	})
}

// An attempt that had no effect does not make one undone that may have had.
func TestRetryKeepsDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no := errors.New("an answer")
		for _, last := range []error{errDown, transparency.ErrDenied, transparency.ErrInvalid, failure.ErrOpen} {
			r := failure.NewRetry(&failure.RetryOptions{Idempotent: true, Attempts: 3, Budget: plenty()})
			_, err := try(t.Context(), r, transparency.ErrUncertain, errDown, last)
			if !errors.Is(err, transparency.ErrUncertain) || !errors.Is(err, last) {
				t.Errorf("Call error = %v, want %v, and that the outcome is unknown", err, last)
			}
		}
		r := failure.NewRetry(&failure.RetryOptions{Idempotent: true, Budget: plenty()})
		if _, err := try(t.Context(), r, transparency.ErrUncertain, no); err != no {
			t.Errorf("Call error = %v, want the answer as it was", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		_, err := failure.Call(ctx, func(ctx context.Context) (int, error) {
			if calls++; calls == 3 {
				cancel()
				return 0, ctx.Err()
			}
			return 0, []error{transparency.ErrUncertain, errDown}[calls-1]
		}, r)
		if !errors.Is(err, transparency.ErrUncertain) || !errors.Is(err, context.Canceled) {
			t.Errorf("Call error = %v, want the context's, and that the outcome is unknown", err)
		}
	})
}

// A Classify that panics costs no place of a probe.
func TestPanicInClassify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := failure.NewLocalBreaker(&failure.BreakerOptions{Failures: 1, Classify: func(_ context.Context, err error) failure.Outcome {
			if err == io.EOF {
				panic("classify")
			}
			return failure.Failed
		}})
		fail(t, b, 1)
		time.Sleep(5 * time.Second)
		p, err := b.Allow(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			p.Done(io.EOF)
		}()
		if _, err := try(t.Context(), b); err != nil || b.State() != failure.StateClosed {
			t.Errorf("Call error = %v, and the breaker is %v, want a probe that closed it", err, b.State())
		}
	})
}

// Nothing is begun only to be abandoned.
func TestAbandonNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls, err := try(ctx, failure.NewTimeout(time.Second, &failure.TimeoutOptions{Abandon: true}))
	if calls != 0 || !errors.Is(err, context.Canceled) || errors.Is(err, transparency.ErrUncertain) {
		t.Errorf("Call = %d calls, %v, want none, and Canceled alone", calls, err)
	}
}
