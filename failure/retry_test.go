package failure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

var errDown = fmt.Errorf("%w: refused", transparency.ErrUnavailable)

// plenty is a budget that is no matter.
func plenty() *failure.Budget {
	return failure.NewBudget(&failure.BudgetOptions{PerSecond: 1e6})
}

// try calls what gives these errors in turn, then nil, and returns how often it
// was called.
func try(ctx context.Context, p failure.Policy, errs ...error) (calls int, err error) {
	_, err = failure.Call(ctx, func(context.Context) (int, error) {
		calls++
		if calls <= len(errs) {
			return 0, errs[calls-1]
		}
		return 0, nil
	}, p)
	return calls, err
}

func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := failure.NewRetry(&failure.RetryOptions{Attempts: 4, Base: time.Second, Max: 2 * time.Second})
		if calls, err := try(t.Context(), r, errDown, errDown, errDown); calls != 4 || err != nil {
			t.Errorf("after three failures: %d calls, %v, want 4, nil", calls, err)
		}
		if took := time.Since(start); took <= 0 || took > 5*time.Second {
			t.Errorf("took %v, want up to 1 + 2 + 2 s", took)
		}
		calls, err := try(t.Context(), r, errDown, errDown, errDown, errDown)
		var e *failure.Error
		if calls != 4 || !errors.Is(err, failure.ErrAttempts) || !errors.Is(err, transparency.ErrUnavailable) || !errors.As(err, &e) || e.Attempts != 4 {
			t.Errorf("after four failures: %d calls, %v, want 4, ErrAttempts with the last error", calls, err)
		}
	})
}

// FA-23: what may not be repeated is not.
func TestRetryWhat(t *testing.T) {
	uncertain := fmt.Errorf("%w: no reply", transparency.ErrUncertain)
	timedOut := &failure.Error{Policy: "timeout", Reason: failure.ErrTimeout, Last: context.DeadlineExceeded}
	open := &failure.Error{Policy: "breaker", Reason: failure.ErrOpen, After: time.Millisecond}
	for _, c := range []struct {
		err                error
		always, idempotent bool
	}{
		{errDown, true, true},
		{uncertain, false, true},
		{timedOut, false, true},
		{fmt.Errorf("%w: %w", errDown, context.DeadlineExceeded), false, true},
		{open, false, false},
		{fmt.Errorf("bulkhead: %w", transparency.ErrRejected), false, false},
		{transparency.ErrDenied, false, false},
		{transparency.ErrInvalid, false, false},
		{errors.Join(transparency.ErrUncertain, transparency.ErrDenied), false, false},
		{errBoom, false, false},
		{context.Canceled, false, false},
		{errors.Join(uncertain, context.Canceled), false, false},
	} {
		for _, idempotent := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r := failure.NewRetry(&failure.RetryOptions{Idempotent: idempotent})
				calls, err := try(t.Context(), r, c.err)
				want, wantErr := 1, c.err
				if c.always || idempotent && c.idempotent {
					want, wantErr = 2, nil
				}
				if calls != want || err != wantErr {
					t.Errorf("%v, idempotent %v: %d calls, error %v, want %d, %v", c.err, idempotent, calls, err, want, wantErr)
				}
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		r := failure.NewRetry(nil)
		if calls, err := try(failure.WithIdempotent(t.Context()), r, uncertain); calls != 2 || err != nil {
			t.Errorf("of one idempotent call: %d calls, %v, want 2, nil", calls, err)
		}
		if calls, err := try(t.Context(), r, uncertain); calls != 1 || err != uncertain {
			t.Errorf("of another: %d calls, %v, want 1, %v", calls, err, uncertain)
		}
		for _, policies := range [][]failure.Policy{nil, {r}} {
			var within int
			_, _ = failure.Call(failure.WithIdempotent(t.Context()), func(ctx context.Context) (int, error) {
				within, _ = try(ctx, r, uncertain)
				return 0, nil
			}, policies...)
			if within != 1 {
				t.Errorf("of one within an idempotent call: %d calls, want 1", within)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := failure.NewRetry(&failure.RetryOptions{Retryable: func(err error) bool { return err == errBoom }})
		if calls, err := try(t.Context(), r, errBoom, errDown); calls != 2 || err != errDown {
			t.Errorf("by a rule of the caller's: %d calls, %v, want 2, %v", calls, err, errDown)
		}
	})
}

// FA-19: nobody waits for what cannot come in time.
func TestRetryDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := failure.NewRetry(nil)
		start := time.Now()
		calls, err := try(ctx, r, failure.WithRetryAfter(errDown, 5*time.Second))
		if calls != 1 || !errors.Is(err, failure.ErrNoTime) || !errors.Is(err, errDown) || failure.RetryAfter(err) != 5*time.Second {
			t.Errorf("%d calls, %v, want 1, ErrNoTime with the last error", calls, err)
		}
		if errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
			t.Errorf("after %v: %v, want it at once, and no deadline that has not passed", time.Since(start), err)
		}
	})
}

// FA-20: the end of the context during a wait hides nothing.
func TestRetryContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(reason) })
		r := failure.NewRetry(nil)
		start := time.Now()
		_, err := try(ctx, r, failure.WithRetryAfter(errDown, 5*time.Second))
		for _, want := range []error{context.Canceled, reason, errDown} {
			if !errors.Is(err, want) {
				t.Errorf("error %v, want one wrapping %v", err, want)
			}
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		_, err := failure.Call(ctx, func(ctx context.Context) (int, error) {
			if n++; n == 1 {
				return 0, errDown
			}
			cancel()
			return 0, ctx.Err()
		}, failure.NewRetry(nil))
		if !errors.Is(err, context.Canceled) || !errors.Is(err, errDown) {
			t.Errorf("error %v, want the context's and the real one before it", err)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := try(ctx, failure.NewRetry(nil), context.Canceled); err != context.Canceled {
		t.Errorf("error %v, want context.Canceled as it was", err)
	}
	if _, err := try(ctx, failure.NewRetry(nil), errDown); !errors.Is(err, context.Canceled) || !errors.Is(err, errDown) {
		t.Errorf("error %v, want both", err)
	}
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if calls, err := try(t.Context(), failure.NewRetry(nil), failure.WithRetryAfter(errDown, 5*time.Second)); calls != 2 || err != nil {
			t.Errorf("%d calls, %v, want 2, nil", calls, err)
		}
		if took := time.Since(start); took < 5*time.Second || took > 5*time.Second+failure.DefaultBase {
			t.Errorf("took %v, want 5s and some jitter", took)
		}
		start = time.Now()
		calls, err := try(t.Context(), failure.NewRetry(nil), failure.WithRetryAfter(errDown, 484_289*time.Hour))
		if calls != 1 || !errors.Is(err, failure.ErrNoTime) || time.Since(start) != 0 {
			t.Errorf("asked for 55 years: %d calls, %v after %v, want it given up at once", calls, err, time.Since(start))
		}
		deaf := failure.NewRetry(&failure.RetryOptions{MaxRetryAfter: -1})
		if calls, err := try(t.Context(), deaf, failure.WithRetryAfter(errDown, time.Hour)); calls != 2 || err != nil || time.Since(start) > time.Second {
			t.Errorf("unheeded: %d calls, %v after %v, want 2, nil", calls, err, time.Since(start))
		}
	})
}

// FA-22: an empty budget hides nothing, and nobody waits for it.
func TestBudgetEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := failure.NewBudget(&failure.BudgetOptions{Ratio: 1, PerSecond: -1})
		r := failure.NewRetry(&failure.RetryOptions{Budget: b})
		start := time.Now()
		calls, err := try(t.Context(), r, errDown)
		if calls != 1 || !errors.Is(err, failure.ErrBudget) || !errors.Is(err, errDown) || time.Since(start) != 0 {
			t.Errorf("%d calls, %v after %v, want 1, ErrBudget with the last error, at once", calls, err, time.Since(start))
		}
		if calls, err := try(t.Context(), r); calls != 1 || err != nil {
			t.Errorf("a success: %d calls, %v", calls, err)
		}
		if calls, err := try(t.Context(), r, errDown); calls != 2 || err != nil {
			t.Errorf("after a success: %d calls, %v, want a retry", calls, err)
		}
		if _, err := try(t.Context(), r, errDown); !errors.Is(err, failure.ErrBudget) {
			t.Errorf("error %v, want ErrBudget: a retry earns nothing", err)
		}
	})
}

// What is saved up is bounded: a hundred retries, however long all went well.
func TestBudgetIsBounded(t *testing.T) {
	r := failure.NewRetry(&failure.RetryOptions{Attempts: 2, Base: -1, Budget: failure.NewBudget(&failure.BudgetOptions{PerSecond: -1})})
	for range 5000 {
		_, _ = try(t.Context(), r)
	}
	retries := 0
	for range 1000 {
		calls, _ := try(t.Context(), r, errDown, errDown)
		retries += calls - 1
	}
	if retries != 100 {
		t.Errorf("%d retries after many successes, want 100", retries)
	}
}

// FA-21: retries that wait are charged already, and at one call a second there
// is an allowance.
func TestBudgetCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := failure.NewRetry(&failure.RetryOptions{Attempts: 2, Base: time.Hour, Max: time.Hour, Budget: failure.NewBudget(&failure.BudgetOptions{PerSecond: 1})})
		var wg sync.WaitGroup
		var mu sync.Mutex
		spent := 0
		for range 100 {
			wg.Go(func() {
				if _, err := try(t.Context(), r, errDown); errors.Is(err, failure.ErrBudget) {
					mu.Lock()
					defer mu.Unlock()
					spent++
				}
			})
		}
		synctest.Wait()
		if spent != 90 {
			t.Errorf("%d of 100 found the budget empty, want 90: the rest wait", spent)
		}
		wg.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		r := failure.NewRetry(&failure.RetryOptions{Attempts: 2})
		for range 100 {
			time.Sleep(time.Second)
			if calls, _ := try(t.Context(), r, errDown, errDown); calls != 2 {
				t.Errorf("%d calls, want 2: there is a retry a second", calls)
			}
		}
	})
}

// FA-33: layers see that the work is being done again, and do not multiply it.
func TestAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []int
		note := func(ctx context.Context) (int, error) {
			seen = append(seen, failure.Attempt(ctx))
			return 0, errDown
		}
		outer := failure.NewRetry(&failure.RetryOptions{Budget: plenty()})
		inner := failure.NewRetry(&failure.RetryOptions{Budget: plenty()})
		_, err := failure.Call(t.Context(), note, outer, inner)
		if !errors.Is(err, failure.ErrAttempts) || fmt.Sprint(seen) != "[1 2 3]" {
			t.Errorf("attempts %v, %v, want [1 2 3]: what the inner gave up on is given up", seen, err)
		}
		seen = nil
		always := failure.NewRetry(&failure.RetryOptions{Attempts: 2, Budget: plenty(), Retryable: func(error) bool { return true }})
		_, _ = failure.Call(t.Context(), note, always, always)
		if fmt.Sprint(seen) != "[1 2 2 3]" {
			t.Errorf("attempts %v, want [1 2 2 3]", seen)
		}
	})
	if got := failure.Attempt(t.Context()); got != 1 {
		t.Errorf("Attempt of a bare context = %d, want 1", got)
	}
}

// FA-34: policies do not change, so that they can be shared.
func TestShareRetry(t *testing.T) {
	r := failure.NewRetry(&failure.RetryOptions{Attempts: 5, Base: -1, Budget: plenty(), Idempotent: true})
	policies := []failure.Policy{
		r, failure.NewTimeout(time.Minute, nil), failure.NewTimeout(time.Minute, &failure.TimeoutOptions{Abandon: true}),
		failure.NewLocalBreaker(&failure.BreakerOptions{Failures: -1, MinCalls: 1 << 20}),
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			n := 0
			got, err := failure.Call(t.Context(), func(context.Context) (int, error) {
				if n++; n <= i%5 {
					return 0, errDown
				}
				return i, nil
			}, policies...)
			if got != i || err != nil || n != i%5+1 {
				t.Errorf("call %d = %d, %v after %d attempts", i, got, err, n)
			}
		})
	}
	wg.Wait()
}

func TestRetryPassesPanics(t *testing.T) {
	defer func() {
		if got := recover(); got != io.EOF {
			t.Errorf("panic %v, want the very one", got)
		}
	}()
	_, _ = failure.Call(t.Context(), func(context.Context) (int, error) { panic(io.EOF) }, failure.NewRetry(nil))
}

// An answer is told as it is, also if it came when the context had ended.
func TestRetryKeepsAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	no := errors.New("an answer")
	_, err := failure.Call(ctx, func(context.Context) (int, error) { cancel(); return 0, no }, failure.NewRetry(nil))
	if err != no {
		t.Errorf("Call error = %v, want the very answer", err)
	}
}
