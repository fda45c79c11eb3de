package failure_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// FA-23: the order of the policies shows in who refuses what.
func TestStandardOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := failure.NewStandard("pay")
		s.Whole = failure.NewTimeout(time.Hour, nil)
		s.Hedge = hedging(2)
		s.RateLimit = failure.NewRateLimit(1000, nil)
		breaker := s.Breaker.(*failure.LocalBreaker)
		var deadlines []time.Duration
		calls, errs := 0, []error{errDown, errDown, nil}
		got, err := failure.Call(t.Context(), func(ctx context.Context) (int, error) {
			deadline, _ := ctx.Deadline()
			deadlines = append(deadlines, time.Until(deadline))
			calls++
			return calls, errs[calls-1]
		}, s)
		if got != 3 || err != nil {
			t.Errorf("Call = %d, %v, want 3", got, err)
		}
		if stats := breaker.Stats(); stats.Failed != 2 || stats.Succeeded != 1 {
			t.Errorf("the breaker has counted %+v, want each attempt", stats)
		}
		if !slices.Equal(deadlines, slices.Repeat([]time.Duration{failure.DefaultLimit}, 3)) {
			t.Errorf("the attempts had %v, want each its own limit", deadlines)
		}

		// What this side refuses is not counted, and not repeated.
		s = failure.NewStandard("pay")
		breaker = s.Breaker.(*failure.LocalBreaker)
		s.Bulkhead = failure.NewBulkhead(&failure.BulkheadOptions{Places: 1, Queue: 1})
		release := occupy(t, s.Bulkhead)
		start := time.Now()
		calls, err = try(t.Context(), s)
		if calls != 0 || !errors.Is(err, failure.ErrFull) || errors.Is(err, failure.ErrAttempts) || time.Since(start) != failure.DefaultQueueWait {
			t.Errorf("Call error = %v after %v, want ErrFull after one wait", err, time.Since(start))
		}
		if stats := breaker.Stats(); stats.Ignored != 1 || stats.Failed != 0 {
			t.Errorf("the breaker has counted %+v, want the refusal ignored", stats)
		}
		breaker.ForceOpen()
		start = time.Now()
		if calls, err = try(t.Context(), s); calls != 0 || !errors.Is(err, failure.ErrOpen) || time.Since(start) != 0 {
			t.Errorf("Call error = %v after %v, want ErrOpen without a wait for a place", err, time.Since(start))
		}
		release()

		// The whole ends what the parts would go on with.
		s = failure.NewStandard("pay")
		s.Whole = failure.NewTimeout(5*time.Second, nil)
		s.Retry = failure.NewRetry(&failure.RetryOptions{Attempts: -1, Base: -1, Idempotent: true, Budget: plenty()})
		s.Timeout = failure.NewTimeout(2*time.Second, nil)
		s.Breaker = nil
		start = time.Now()
		calls = 0
		_, err = failure.Call(t.Context(), func(ctx context.Context) (int, error) { calls++; <-ctx.Done(); return 0, ctx.Err() }, s)
		if calls != 3 || time.Since(start) != 5*time.Second || !errors.Is(err, failure.ErrTimeout) || !strings.Contains(err.Error(), "after 5s") {
			t.Errorf("Call error = %v after %v and %d attempts, want the limit of the whole", err, time.Since(start), calls)
		}
	})
}

// A Standard of nothing calls, and is a Policy like others.
func TestStandardZero(t *testing.T) {
	if calls, err := try(t.Context(), &failure.Standard{}, errBoom); calls != 1 || err != errBoom {
		t.Errorf("the zero Standard: %d calls, %v", calls, err)
	}
	second := failure.NewFallback(func(context.Context, error) (int, error) { return 7, nil }, nil)
	got, err := failure.Call(t.Context(), func(context.Context) (int, error) { return 0, errBoom }, second, failure.NewStandard("pay"))
	if got != 7 || err != nil {
		t.Errorf("Call = %d, %v, want the fallback's answer", got, err)
	}
}

// Nil and zero policies, and nothing to call, are errors.
func TestPoliciesZero(t *testing.T) {
	ok := func(context.Context) (any, error) { return 7, nil }
	for name, p := range map[string]failure.Policy{
		"nil Retry": (*failure.Retry)(nil), "zero Retry": &failure.Retry{},
		"nil Timeout": (*failure.Timeout)(nil), "zero Timeout": &failure.Timeout{},
		"nil Bulkhead": (*failure.Bulkhead)(nil), "zero Bulkhead": &failure.Bulkhead{},
		"nil RateLimit": (*failure.RateLimit)(nil), "zero RateLimit": &failure.RateLimit{},
		"nil Hedge": (*failure.Hedge)(nil), "zero Hedge": &failure.Hedge{},
		"nil Fallback": (*failure.Fallback[int])(nil), "zero Fallback": &failure.Fallback[int]{},
		"nil Standard":       (*failure.Standard)(nil),
		"negative places":    failure.NewBulkhead(&failure.BulkheadOptions{Places: -1}),
		"no rate":            failure.NewRateLimit(0, nil),
		"negative burst":     failure.NewRateLimit(1, &failure.RateLimitOptions{Burst: -1}),
		"endless rate":       failure.NewRateLimit(1e300, nil),
		"negative delay":     failure.NewHedge(&failure.HedgeOptions{Delay: -1}),
		"negative attempts":  failure.NewHedge(&failure.HedgeOptions{Attempts: -1}),
		"share over one":     failure.NewHedge(&failure.HedgeOptions{Share: 1.1}),
		"hedge's bad budget": failure.NewHedge(&failure.HedgeOptions{Budget: failure.NewBudget(&failure.BudgetOptions{Ratio: 2})}),
	} {
		got, err := p.Do(t.Context(), ok)
		if got != nil || !errors.Is(err, transparency.ErrInvalid) || !strings.HasPrefix(err.Error(), "failure: ") {
			t.Errorf("%s: Do = %v, %v, want ErrInvalid", name, got, err)
		}
	}
	for name, p := range map[string]failure.Policy{
		"Retry": failure.NewRetry(nil), "Timeout": failure.NewTimeout(time.Second, nil), "Hedge": hedging(2),
		"Bulkhead": failure.NewBulkhead(nil), "RateLimit": failure.NewRateLimit(1, nil), "Standard": &failure.Standard{},
		"Fallback": failure.NewFallback(func(context.Context, error) (int, error) { return 0, nil }, nil),
	} {
		if got, err := p.Do(t.Context(), nil); got != nil || !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("%s: Do(nil) = %v, %v, want ErrInvalid", name, got, err)
		}
	}
	for _, b := range []*failure.Bulkhead{nil, {}} {
		if release, err := b.Acquire(t.Context()); release != nil || !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("Acquire of %v = %v, want ErrInvalid", b, err)
		}
		_ = b.Stats()
	}
	_ = (*failure.Hedge)(nil).Stats()
	_ = (&failure.Hedge{}).Stats()
	if calls, err := try(t.Context(), failure.NewRetry(&failure.RetryOptions{Budget: &failure.Budget{}}), errDown, errDown); calls != 1 || !errors.Is(err, failure.ErrBudget) {
		t.Errorf("Retry with the zero Budget: %d calls, %v, want no retry", calls, err)
	}
	var e *failure.Error
	if e.Error() == "" || e.Unwrap() != nil || e.RetryAfter() != 0 {
		t.Errorf("a nil Error says %q", e.Error())
	}
}
