package failure_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := failure.NewRateLimit(10, &failure.RateLimitOptions{Name: "sms", Burst: 2})
		start := time.Now()
		for i, want := range []time.Duration{0, 0, 100, 200} {
			if calls, err := try(t.Context(), limit); calls != 1 || err != nil {
				t.Errorf("call %d: %v", i, err)
			}
			if took := time.Since(start).Round(time.Millisecond); took != want*time.Millisecond {
				t.Errorf("call %d after %v, want %v ms", i, took, want)
			}
		}
		time.Sleep(time.Hour)
		start = time.Now()
		for range 2 {
			_, _ = try(t.Context(), limit)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("a burst after a rest took %v", took)
		}
	})
}

// Whose turn does not come in time is told at once when to come again, and uses
// up nobody's turn.
func TestRateLimitRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := failure.NewRateLimit(0.5, &failure.RateLimitOptions{Name: "sms"}) // one in two seconds
		if _, err := try(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for range 5 {
			calls, err := try(t.Context(), limit)
			if calls != 0 || !errors.Is(err, failure.ErrLimited) || !errors.Is(err, transparency.ErrRejected) || failure.RetryAfter(err) != 2*time.Second {
				t.Errorf("Call = %d calls, %v, want ErrLimited and two seconds to wait", calls, err)
			}
		}
		patient := failure.NewRateLimit(1, &failure.RateLimitOptions{Wait: time.Minute})
		_, _ = try(t.Context(), patient)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := try(ctx, patient); !errors.Is(err, failure.ErrLimited) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Call error = %v, want ErrLimited: the turn comes after the deadline", err)
		}
		if time.Since(start) != 0 {
			t.Errorf("refusals took %v", time.Since(start))
		}
		cancelled, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		if _, err := try(cancelled, patient); !errors.Is(err, failure.ErrLimited) || !errors.Is(err, context.Canceled) || time.Since(start) != time.Second/2 {
			t.Errorf("Call error = %v after %v, want Canceled and ErrLimited after 0.5s", err, time.Since(start))
		}
		if calls, err := try(cancelled, patient); calls != 0 || err != context.Canceled {
			t.Errorf("Call with an ended context = %d calls, %v, want Canceled", calls, err)
		}
		if calls, err := try(t.Context(), patient); calls != 1 || err != nil || time.Since(start) != time.Second {
			t.Errorf("Call = %v after %v, want the turn that was given back, after 1s", err, time.Since(start))
		}
		strict := failure.NewRateLimit(1, &failure.RateLimitOptions{Wait: -1})
		_, _ = try(t.Context(), strict)
		if calls, err := try(t.Context(), strict); calls != 0 || !errors.Is(err, failure.ErrLimited) {
			t.Errorf("Call = %d calls, %v, want ErrLimited without a wait", calls, err)
		}
	})
}
