package failure

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever leave a call was made by, and however many are made at once, each is
// counted, once.
func TestCountsAreExact(t *testing.T) {
	const callers, calls = 8, 5000
	for _, opts := range []BreakerOptions{
		{Failures: -1, Ratio: 1, Window: 100 * time.Millisecond}, // leaves for 1ms
		{Failures: -1, Ratio: 1, Window: 100 * time.Millisecond, Slow: time.Hour},
		{Failures: calls * callers, Ratio: -1},
	} {
		opts.MinCalls = callers * calls
		b := NewLocalBreaker(&opts)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for i := range calls {
					_, _ = b.Do(context.Background(), func(context.Context) (any, error) {
						return nil, []error{nil, errors.New("boom"), ErrOpen, nil}[i%4]
					})
				}
			})
		}
		wg.Wait()
		const all = callers * calls
		if got, want := b.Stats(), (Stats{Succeeded: all / 2, Failed: all / 4, Ignored: all / 4}); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
	}
}

// A leave is good for a moment of the window, in which what calls say is
// counted for the same time.
func TestLeaveIsShort(t *testing.T) {
	for _, o := range []BreakerOptions{{}, {Window: 10 * time.Millisecond}, {Slow: time.Second}} {
		b := NewLocalBreaker(&o)
		p := b.phase.Load()
		if b.counts(p); p.pass.Load().until > b.opts.Window/100+time.Since(b.born) {
			t.Errorf("a leave until %v of a window of %v", p.pass.Load().until, b.opts.Window)
		}
		b.ForceOpen()
		p.pass.Store(nil)
		if b.counts(p) != nil {
			t.Errorf("a leave in a phase that is over")
		}
	}
}

// Calls count when they end: those that last as long as a window open the
// breaker too, and those that last so long and succeed keep it closed.
func TestLongCallsCount(t *testing.T) {
	for failures, want := range map[int]State{3: StateOpen, 2: StateClosed} { // of five
		synctest.Test(t, func(t *testing.T) {
			b := NewLocalBreaker(&BreakerOptions{Failures: -1, OpenFor: time.Hour})
			for i := range 500 {
				go func() {
					_, _ = b.Do(t.Context(), func(context.Context) (any, error) {
						time.Sleep(DefaultLimit + DefaultWindow*time.Duration(i%2))
						if i%5 < failures {
							return nil, context.DeadlineExceeded
						}
						return nil, nil
					})
				}()
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(DefaultLimit + DefaultWindow)
			if got := b.State(); got != want {
				t.Errorf("State with %d of 5 long calls failing = %v, want %v", failures, got, want)
			}
		})
	}
}

// Of many calls that end at once after a quiet window all count.
func TestQuietWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewLocalBreaker(&BreakerOptions{Failures: -1})
		for i := range 100 {
			go func() {
				_, _ = b.Do(t.Context(), func(context.Context) (any, error) {
					time.Sleep(time.Minute + time.Duration((i+50)%100))
					if i < 45 {
						return nil, context.DeadlineExceeded
					}
					return nil, nil
				})
			}()
		}
		time.Sleep(2 * time.Minute)
		if got := b.Stats(); got.Succeeded != 55 || got.Failed != 45 || got.State != StateClosed {
			t.Errorf("Stats = %+v, want 45 of 100 failed, and closed", got)
		}
	})
}
