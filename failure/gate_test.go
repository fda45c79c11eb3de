package failure

import (
	"context"
	"errors"
	"sync"
	"testing"
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
		if pass := b.renew(p, 0); pass.until > b.opts.Window/100 {
			t.Errorf("a leave for %v of a window of %v", pass.until, b.opts.Window)
		}
		b.ForceOpen()
		if pass := b.renew(p, 0); pass != nil {
			t.Errorf("a leave in a phase that is over")
		}
	}
}
