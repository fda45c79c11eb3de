package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/go-transparency/transparency/failure"
)

func TestOpens(t *testing.T) {
	closed := errors.New("refused")
	calls := 0
	breaks := func(after int) func() (*reply, error) {
		calls = 0
		return func() (*reply, error) {
			if calls++; calls > after {
				return nil, closed
			}
			return nil, errBroken
		}
	}
	if err := opens(breaks(5), closed); err != nil {
		t.Errorf("opens of a breaker = %v, want nil", err)
	}
	if err := opens(breaks(1000), closed); !errors.Is(err, closed) {
		t.Errorf("opens of what never refuses = %v, want what was expected of it", err)
	}
	if err := opens(succeed, closed); err == nil {
		t.Error("opens of what hides failures = nil, want an error")
	}
}

// A call that was not made, or not counted, is found out.
func TestBreakSideLooks(t *testing.T) {
	ctx := t.Context()
	skips := func(context.Context) (*reply, error) { return nil, nil }
	if err := breakSide(skips, nil).op(ctx); err == nil {
		t.Error("op of a breaker that makes no call = nil, want an error")
	}
	if err := parallelSide(3, skips, nil).op(ctx); err == nil {
		t.Error("parallel op of a breaker that makes no call = nil, want an error")
	}
	for _, tt := range []struct {
		stats failure.Stats
		calls uint64
		ok    bool
	}{
		{failure.Stats{Succeeded: 7}, 7, true},
		{failure.Stats{Succeeded: 6}, 7, false},
		{failure.Stats{Succeeded: 7, Failed: 1}, 7, false},
		{failure.Stats{Succeeded: 7, State: failure.StateDisabled}, 7, false},
	} {
		if err := closedWith(tt.stats, tt.calls); (err == nil) != tt.ok {
			t.Errorf("closedWith(%+v, %d) = %v, want ok %v", tt.stats, tt.calls, err, tt.ok)
		}
	}
}

// All callers call, as often as is told to verify, and counts and times are
// those of one call.
func TestParallelSide(t *testing.T) {
	const n = 25
	var made atomic.Int64
	told := uint64(0)
	s := parallelSide(n, func(context.Context) (*reply, error) {
		made.Add(1)
		return answer, nil
	}, func(_ context.Context, calls uint64) error {
		told = calls
		return nil
	})
	if s.per() != callers*n {
		t.Errorf("per() = %d, want %d", s.per(), callers*n)
	}
	if err := errors.Join(s.op(t.Context()), s.verify(t.Context())); err != nil || made.Load() != 2*callers*n || told != 2*callers*n {
		t.Errorf("after an op and a verify %d calls were made, %d told, %v, want %d", made.Load(), told, err, 2*callers*n)
	}
	if allocs, err := countAllocs(t.Context(), s); err != nil || allocs != 0 {
		t.Errorf("countAllocs of calls that allocate nothing = %v, %v, want 0", allocs, err)
	}
}
