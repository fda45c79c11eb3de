package failure_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// occupy takes a place until the function it returns is called.
func occupy(t *testing.T, b *failure.Bulkhead) (release func()) {
	t.Helper()
	release, err := b.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// FA-28: who came first is served first, and who goes away costs nothing.
func TestBulkheadOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := failure.NewBulkhead(&failure.BulkheadOptions{Places: 1, Queue: 6, QueueWait: -1})
		release := occupy(t, b)
		var served []int
		var left atomic.Int64
		for i := range 6 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				_, err := failure.Call(ctx, func(context.Context) (int, error) {
					served = append(served, i)
					time.Sleep(time.Second)
					return 0, nil
				}, b)
				if errors.Is(err, context.Canceled) && errors.Is(err, failure.ErrFull) && errors.Is(err, transparency.ErrRejected) {
					left.Add(1)
				} else if err != nil {
					t.Errorf("Call %d error = %v", i, err)
				}
			}()
			synctest.Wait()
			if i%2 == 0 {
				time.AfterFunc(time.Second, cancel) // the head of the queue among them
			}
		}
		if _, err := try(t.Context(), b); !errors.Is(err, failure.ErrFull) {
			t.Errorf("Call with a full queue: error = %v, want ErrFull", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := b.Stats(); s.Active != 1 || s.Waiting != 3 || s.Rejected != 4 || left.Load() != 3 {
			t.Errorf("Stats = %+v, and %d left, want three who wait after three have left", s, left.Load())
		}
		start := time.Now()
		release()
		release() // does nothing
		synctest.Wait()
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if !slices.Equal(served, []int{1, 3, 5}) || time.Since(start) != 2500*time.Millisecond {
			t.Errorf("served %v, want 1, 3, 5, each after the other", served)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if s := b.Stats(); s.Active != 0 || s.Waiting != 0 {
			t.Errorf("Stats = %+v, want nobody left", s)
		}
	})
}

// A call does not wait longer than it may.
func TestBulkheadWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			opts failure.BulkheadOptions
			want time.Duration
		}{
			{failure.BulkheadOptions{Places: 1}, failure.DefaultQueueWait},
			{failure.BulkheadOptions{Places: 1, QueueWait: time.Minute}, time.Minute},
			{failure.BulkheadOptions{Places: 1, QueueWait: -1}, time.Hour},
			{failure.BulkheadOptions{Places: 1, Queue: -1}, 0},
		} {
			b := failure.NewBulkhead(&c.opts)
			release := occupy(t, b)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			start := time.Now()
			calls, err := try(ctx, b)
			if took := time.Since(start); calls != 0 || !errors.Is(err, failure.ErrFull) || took != c.want || errors.Is(err, context.DeadlineExceeded) != (took == time.Hour) {
				t.Errorf("%+v: Call error = %v after %v, want ErrFull after %v", c.opts, err, took, c.want)
			}
			cancel()
			release()
			if calls, err := try(t.Context(), b); calls != 1 || err != nil {
				t.Errorf("%+v: Call after it = %v", c.opts, err)
			}
			if calls, err := try(ctx, b); calls != 0 || err != ctx.Err() {
				t.Errorf("%+v: Call with an ended context: %d calls, %v", c.opts, calls, err)
			}
		}
	})
}

// FA-28: a panic and Goexit free the place.
func TestBulkheadPanics(t *testing.T) {
	b := failure.NewBulkhead(&failure.BulkheadOptions{Places: 1, Queue: -1})
	for _, end := range []func(){func() { panic(errBoom) }, runtime.Goexit} {
		ended := make(chan any)
		go func() {
			defer func() { ended <- recover() }()
			_, _ = failure.Call(t.Context(), func(context.Context) (int, error) { end(); return 0, nil }, b)
		}()
		if got := <-ended; got != nil && got != errBoom {
			t.Errorf("panic %v, want the very one", got)
		}
		if calls, err := try(t.Context(), b); calls != 1 || err != nil {
			t.Errorf("Call after it = %v, want a free place", err)
		}
	}
}

// FA-28: there are never more calls under way than places, nor does any place
// get lost, however many come, go away and end at once.
func TestBulkheadStress(t *testing.T) {
	const places = 3
	b := failure.NewBulkhead(&failure.BulkheadOptions{Places: places, Queue: 20, QueueWait: time.Millisecond})
	var active, most atomic.Int64
	var wg sync.WaitGroup
	for seed := range 32 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(seed), 7))
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(2000))*time.Microsecond)
				_, _ = failure.Call(ctx, func(context.Context) (int, error) {
					if n := active.Add(1); n > most.Load() {
						most.Store(n)
					}
					for range rng.IntN(20) {
						runtime.Gosched()
					}
					active.Add(-1)
					return 0, nil
				}, b)
				cancel()
			}
		})
	}
	wg.Wait()
	if most.Load() > places {
		t.Errorf("%d calls at once in %d places", most.Load(), places)
	}
	if s := b.Stats(); s.Active != 0 || s.Waiting != 0 {
		t.Errorf("Stats = %+v, want all places free", s)
	}
	for range places {
		defer occupy(t, b)()
	}
}

// FA-27, FA-28: an abandoned call keeps its place until it ends.
func TestAbandonedKeepsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := failure.NewStandard("pay")
		s.Timeout = failure.NewTimeout(time.Second, &failure.TimeoutOptions{Abandon: true})
		s.Bulkhead = failure.NewBulkhead(&failure.BulkheadOptions{Places: 1, Queue: -1})
		if _, err := failure.Call(t.Context(), deaf(time.Minute), s); !errors.Is(err, failure.ErrTimeout) {
			t.Errorf("Call error = %v, want ErrTimeout", err)
		}
		if calls, err := try(t.Context(), s); calls != 0 || !errors.Is(err, failure.ErrFull) {
			t.Errorf("Call = %v while the place is taken, want ErrFull", err)
		}
		time.Sleep(time.Minute)
		if calls, err := try(t.Context(), s); calls != 1 || err != nil {
			t.Errorf("Call = %v when the abandoned call has ended", err)
		}
	})
}
