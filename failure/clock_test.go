package failure

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// skewed gives a breaker a wall clock that is off by what is returned.
func skewed(b *LocalBreaker) *atomic.Int64 {
	var off atomic.Int64
	b.wall = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
	return &off
}

func fail(b *LocalBreaker, n int) {
	for range n {
		_, _ = Call(context.Background(), func(context.Context) (int, error) { return 0, errors.New("boom") }, b)
	}
}

// FA-9: the wall clock is set back, and times end by the monotonic one.
func TestWallClockBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewLocalBreaker(&BreakerOptions{Failures: -1, MinCalls: 10, OpenFor: time.Minute})
		off := skewed(b)
		fail(b, 9)
		off.Store(int64(-time.Hour))
		time.Sleep(DefaultWindow + DefaultWindow/10)
		fail(b, 9)
		if got := b.State(); got != StateClosed {
			t.Errorf("State = %v, want the window to have passed", got)
		}
		off.Store(int64(-2 * time.Hour))
		fail(b, 1)
		if got := b.State(); got != StateOpen {
			t.Errorf("State = %v, want open: no window has passed", got)
		}
		off.Store(int64(-3 * time.Hour))
		time.Sleep(time.Minute)
		if got := b.State(); got != StateHalfOpen {
			t.Errorf("State = %v after the open time, want half-open", got)
		}
	})
}

// FA-9: a suspend, in which the monotonic clock stands still, ages the window
// and the open time.
func TestSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewLocalBreaker(&BreakerOptions{Failures: -1, MinCalls: 10, OpenFor: time.Minute})
		off := skewed(b)
		for range 5 {
			fail(b, 9)
			off.Add(int64(time.Hour))
		}
		if got := b.State(); got != StateClosed {
			t.Errorf("State = %v, want closed: a suspend is between", got)
		}
		fail(b, 10)
		if got := b.State(); got != StateOpen {
			t.Errorf("State = %v, want open", got)
		}
		off.Add(int64(time.Hour))
		time.Sleep(time.Millisecond)
		if got := b.State(); got != StateHalfOpen {
			t.Errorf("State = %v after a suspend, want half-open", got)
		}
		if s := b.Stats(); s.Failed != 55 || s.Opened != 1 {
			t.Errorf("Stats = %+v, want all 55 failures and one opening", s)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := NewLocalBreaker(&BreakerOptions{Failures: 3, MinCalls: 1000})
		off := skewed(b)
		fail(b, 2)
		off.Add(int64(time.Hour))
		fail(b, 1)
		if got := b.State(); got != StateOpen {
			t.Errorf("State = %v, want open: failures in a row have no window", got)
		}
	})
}

// FA-9: slow calls are of a window that no clock set back ends, and a suspend.
func TestClocksOfSlowCalls(t *testing.T) {
	slow := func(b *LocalBreaker, n int) {
		for range n {
			_, _ = b.Do(context.Background(), func(context.Context) (any, error) { time.Sleep(time.Millisecond); return nil, nil })
		}
	}
	opts := &BreakerOptions{Failures: -1, Ratio: -1, Slow: 1, MinCalls: 10, Window: time.Minute}
	synctest.Test(t, func(t *testing.T) {
		b := NewLocalBreaker(opts)
		off := skewed(b)
		for range 5 {
			slow(b, 9)
			off.Add(int64(time.Minute))
		}
		want(t, b, StateClosed) // a suspend is between
		slow(b, 9)
		off.Add(-int64(time.Hour))
		slow(b, 1)
		want(t, b, StateOpen)
	})
	synctest.Test(t, func(t *testing.T) { // the oldest tenths alone have passed
		b := NewLocalBreaker(opts)
		slow(b, 5)
		time.Sleep(30 * time.Second)
		slow(b, 4)
		time.Sleep(30 * time.Second)
		slow(b, 5)
		want(t, b, StateClosed)
		slow(b, 1)
		want(t, b, StateOpen)
	})
}

// A suspend while calls are under way.
func TestSuspendWhileCalling(t *testing.T) {
	b := NewLocalBreaker(&BreakerOptions{Failures: 1 << 30, MinCalls: 1 << 30, Slow: time.Hour})
	off := skewed(b)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 2000 {
				if fail(b, 1); i == 0 {
					off.Add(int64(time.Hour))
				}
				_, _ = b.Do(context.Background(), func(context.Context) (any, error) { return nil, nil })
			}
		})
	}
	wg.Wait()
	want(t, b, StateClosed)
}

// Breakers that opened together do not probe together.
func TestOpenTimeIsCut(t *testing.T) {
	b := NewLocalBreaker(&BreakerOptions{OpenFor: time.Second, MaxOpenFor: 3 * time.Second})
	for failed, full := range []time.Duration{1, 2, 3, 3, 3} {
		full *= time.Second
		least, most := full, time.Duration(0)
		for range 1000 {
			d := b.openTime(failed)
			least, most = min(least, d), max(most, d)
		}
		if most > full || most < full*97/100 || least < full*85/100 || least > full*88/100 {
			t.Errorf("open from %v to %v, want from 85 to 100 %% of %v", least, most, full)
		}
	}
	if d := b.openTime(1 << 40); d > 3*time.Second {
		t.Errorf("open for %v, want at most 3s", d)
	}
}
