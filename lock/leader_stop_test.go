package lock_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/lock"
)

// When the context ends, the function is waited for under the lock, and the
// lock is free right after.
func TestLeaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := newMoody(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := time.Now()
		err := lock.RunLeader(ctx, m, nil, func(section context.Context, _ uint64) error {
			cancel()
			<-section.Done()
			time.Sleep(5 * lock.DefaultTTL)
			if free(t, m) {
				t.Errorf("the lock is free while the function runs")
			}
			return section.Err()
		})
		wantErr(t, "RunLeader", err, context.Canceled)
		if took := time.Since(start); took != 5*lock.DefaultTTL || !free(t, m) {
			t.Errorf("RunLeader took %v and the lock is free: %v; want it to be, when the function has returned", took, free(t, m))
		}
		wantErr(t, "RunLeader again", lock.RunLeader(ctx, m, nil, func(context.Context, uint64) error {
			t.Errorf("called with a context that has ended")
			return nil
		}), context.Canceled)
	})
}

// The context bounds waiting for another leader, and the pauses.
func TestLeaderStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := newMoody(t)
		never := func(context.Context, uint64) error { t.Errorf("called"); return nil }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		lease := mustLock(t, m)
		start := time.Now()
		wantErr(t, "RunLeader behind another", lock.RunLeader(ctx, m, nil, never), context.DeadlineExceeded, lock.ErrHeld)
		if took := time.Since(start); took != time.Minute {
			t.Errorf("RunLeader returned after %v, want one minute", took)
		}
		mustUnlock(t, lease)

		trouble := transparency.ErrUnavailable
		d.acquire.Store(&trouble)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		opts := &lock.LeaderOptions{Base: 1 << 62, Max: -1} // a pause of ages
		wantErr(t, "RunLeader in a pause", lock.RunLeader(ctx, m, opts, never), context.DeadlineExceeded, transparency.ErrUnavailable)
	})
}

// A function that does not heed the loss is waited for: another process may
// lead meanwhile, but this call does not run a second one.
func TestLeaderOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := newMoody(t)
		elsewhere := lock.New(d.Driver, nil)
		defer elsewhere.Close()
		var running, calls atomic.Int32
		done := make(chan error, 1)
		go func() {
			done <- lock.RunLeader(t.Context(), m, nil, func(ctx context.Context, _ uint64) error {
				if running.Add(1) > 1 {
					t.Errorf("two run at a time")
				}
				defer running.Add(-1)
				if calls.Add(1) == 2 {
					return nil
				}
				lost := lock.ErrLost
				d.renew.Store(&lost)
				<-ctx.Done()
				d.renew.Store(nil)
				time.Sleep(10 * lock.DefaultTTL)
				return nil
			})
		}()
		time.Sleep(3 * lock.DefaultTTL) // it is lost by then
		if running.Load() != 1 || calls.Load() != 1 {
			t.Fatalf("%d calls, want one that runs on", calls.Load())
		}
		lease := mustLock(t, elsewhere.Mutex("leader", nil))
		mustUnlock(t, lease)
		if err := <-done; err != nil || calls.Load() != 2 {
			t.Errorf("RunLeader = %v after %d calls, want nil after two", err, calls.Load())
		}
	})
}

// LK-26: a panic and Goexit pass through, and the lock is free.
func TestLeaderUnwinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := newMoody(t)
		leader := lock.NewLeader(m, nil)
		for name, unwind := range map[string]func(){
			"panic":  func() { panic("over") },
			"Goexit": runtime.Goexit,
		} {
			var recovered any
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { recovered = recover() }()
				_ = leader.Run(t.Context(), func(context.Context, uint64) error { unwind(); return nil })
				t.Errorf("%s: Run returned", name)
			})
			wg.Wait()
			if (recovered != nil) != (name == "panic") || !free(t, m) || leader.State() != lock.LeaderIdle {
				t.Errorf("%s: recovered %v, %v, free: %v", name, recovered, leader, free(t, m))
			}
		}
		if err := leader.Run(t.Context(), func(context.Context, uint64) error { return nil }); err != nil {
			t.Errorf("Run after that = %v, want nil", err)
		}
	})
}
