package lock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// skewed gives a Locker a wall clock that is off by what is returned.
func skewed(l *Locker) *atomic.Int64 {
	var off atomic.Int64
	l.wall = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
	return &off
}

// LK-23: the wall clock is set back, and nothing happens; it is set forward,
// and the lease ends early at worst.
func TestWallClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemoryDriver()
		l := New(store, &Options{TTL: time.Minute})
		defer l.Close()
		off := skewed(l)

		off.Store(int64(-time.Hour))
		back, err := l.Mutex("back", nil).Lock(t.Context())
		if err != nil {
			t.Fatalf("Lock error = %v", err)
		}
		off.Store(int64(-2 * time.Hour))
		time.Sleep(5 * time.Minute)
		if err := back.Err(); err != nil || l.Stats().Renewed == 0 {
			t.Errorf("Err after the clock was set back = %v, %+v, want a lease that is renewed", err, l.Stats())
		}
		off.Store(int64(time.Hour))
		if err := back.Err(); !errors.Is(err, ErrLost) {
			t.Errorf("Err after the clock was set forward = %v, want ErrLost", err)
		}
		if g, _ := store.Acquire(t.Context(), Claim{Key: "back", Token: "other", TTL: time.Minute}, false); g.Remaining > time.Minute {
			t.Errorf("the key lasts for %v, want up to a minute: the store gets durations only", g.Remaining)
		}
		forward, err := l.Mutex("forward", nil).Lock(t.Context())
		if err != nil {
			t.Fatalf("Lock error = %v", err)
		}
		time.Sleep(5 * time.Minute)
		if err := forward.Err(); err != nil {
			t.Errorf("Err of a lease taken since = %v, want nil", err)
		}
	})
}

// The wall clock is set back while nothing can be renewed: the monotonic one
// ends the lease.
func TestWallClockBackAndCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewMemory(&Options{TTL: time.Minute})
		defer l.Close()
		off := skewed(l)
		l.driver = &sleepy{l.driver, func() { time.Sleep(time.Hour) }}
		lease, err := l.Mutex("k", nil).Lock(t.Context())
		if err != nil {
			t.Fatalf("Lock error = %v", err)
		}
		off.Store(int64(-time.Hour))
		start := time.Now()
		<-lease.Context().Done()
		if took := time.Since(start); took >= time.Minute {
			t.Errorf("told of the loss after %v, want less than the TTL", took)
		}
	})
}

// LK-24: the machine sleeps, and its monotonic clock with it. On waking, no
// way to ask says that the lock is held.
func TestSuspend(t *testing.T) {
	for name, ask := range map[string]func(*Lease) bool{
		"Err":                func(s *Lease) bool { return s.Err() == nil },
		"Context":            func(s *Lease) bool { return s.Context().Err() == nil },
		"an earlier Context": func(s *Lease) bool { return s.ctx.Err() == nil },
		"Unlock":             func(s *Lease) bool { return s.Unlock(t.Context()) == nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			l := NewMemory(&Options{TTL: time.Minute})
			defer l.Close()
			off := skewed(l)
			lease, err := l.Mutex("k", nil).Lock(t.Context())
			if err != nil {
				t.Fatalf("Lock error = %v", err)
			}
			early := lease.Context()
			time.Sleep(30 * time.Second) // it has been renewed once
			off.Store(int64(10 * time.Minute))
			if ask(lease) {
				t.Errorf("%s after a suspend says that the lock is held", name)
			}
			select {
			case <-early.Done():
			default:
				t.Errorf("%s after a suspend: the lease's context is not done", name)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		l := NewMemory(&Options{TTL: time.Minute})
		defer l.Close()
		off := skewed(l)
		lease, err := l.Mutex("k", nil).Lock(t.Context())
		if err != nil {
			t.Fatalf("Lock error = %v", err)
		}
		off.Store(int64(10 * time.Minute))
		start := time.Now()
		<-lease.Context().Done()
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("Done %v after the suspend, want within a third of the TTL", took)
		}
	})
}

// A renewal is no exception: a reply that comes in after a suspend does not
// revive the lease.
func TestSuspendDuringRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewMemory(&Options{TTL: time.Minute})
		defer l.Close()
		off := skewed(l)
		l.driver = &sleepy{l.driver, func() { off.Store(int64(10 * time.Minute)) }}
		lease, err := l.Mutex("k", nil).Lock(t.Context())
		if err != nil {
			t.Fatalf("Lock error = %v", err)
		}
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if err := lease.Err(); !errors.Is(err, ErrLost) {
			t.Errorf("Err = %v, want ErrLost", err)
		}
	})
}

// asleep is a driver under which something happens at each attempt.
type asleep struct {
	Driver
	acquiring func()
}

func (s *asleep) Acquire(ctx context.Context, c Claim, queue bool) (Grant, error) {
	g, err := s.Driver.Acquire(ctx, c, queue)
	s.acquiring()
	return g, err
}

// Nor is an attempt: a grant from before a suspend is asked for anew.
func TestSuspendDuringLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *Locker
		var off *atomic.Int64
		l = New(&asleep{NewMemoryDriver(), func() {
			if l.Stats().Attempts == 1 {
				off.Store(int64(10 * time.Minute))
			}
		}}, nil)
		defer l.Close()
		off = skewed(l)
		lease, err := l.Mutex("k", nil).Lock(t.Context())
		if err != nil {
			t.Fatalf("Lock error = %v", err)
		}
		if err := lease.Err(); err != nil || l.Stats().Attempts != 2 {
			t.Errorf("Err of a new lease = %v, %+v, want a second attempt", err, l.Stats())
		}
	})
}

// The context of a section looks at the clocks too.
func TestSuspendInDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewMemory(nil)
		defer l.Close()
		off := skewed(l)
		err := Do(t.Context(), l.Mutex("k", nil), func(ctx context.Context, _ uint64) error {
			off.Store(int64(10 * time.Minute))
			if ctx.Err() == nil {
				t.Errorf("Err of the section's context after a suspend = nil")
			}
			return nil
		})
		if !errors.Is(err, ErrLost) {
			t.Errorf("Do = %v, want ErrLost", err)
		}
	})
}
