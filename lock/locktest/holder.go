package locktest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/lock"
)

// heldBy checks that err names the holder, and how long he may have it.
func (r *run) heldBy(op string, err error, want string) {
	r.Helper()
	var held *lock.HeldError
	if !errors.As(err, &held) || held.Holder != want || held.Remaining <= 0 || held.Remaining > r.ttl {
		r.Errorf("%s error = %v, want a HeldError of %q", op, err, want)
	}
	if want != "" && !strings.Contains(err.Error(), want) {
		r.Errorf("%s error = %q, want it to say %q", op, err, want)
	}
}

// What others are told of a holder, and what an operator does about him.
var holderChecks = []check{
	{name: "a driver tells who has the key", fn: func(r *run) {
		d, a, b := r.connect(), r.claim(key), r.claim(key)
		a.Holder, b.Holder = "Ana by the window", strings.Repeat("b", 200)
		r.granted(d, a)
		if g := r.acquire(d, b, false); g.Fence != 0 || g.Holder != a.Holder {
			r.Errorf("Acquire of a held key = %+v, want the holder %q", g, a.Holder)
		}
		r.wantErr("Renew", r.renew(d, a), nil)
		r.release(d, b, false)
		r.release(d, a, true)
		r.granted(d, b)
		if g := r.acquire(d, a, false); g.Fence != 0 || g.Holder != b.Holder {
			r.Errorf("Acquire of a held key = %+v, want the next holder", g)
		}
		r.release(d, b, true)
		c := r.claim(key)
		r.granted(d, c)
		if g := r.acquire(d, a, false); g.Fence != 0 || g.Holder != "" {
			r.Errorf("Acquire = %+v, want a holder who says nothing of itself", g)
		}
	}},
	{name: "who is kept waiting is told by whom", fn: func(r *run) {
		a := r.lockerOf(r.connect(), lock.Options{Holder: "a/1"})
		b := r.lockerOf(r.connect(), lock.Options{Holder: "b/2"})
		lease := r.lock(a.Mutex(key, nil))
		permit := r.acquirePermit(a.Semaphore(key, 1, nil))
		for name, l := range map[string]*lock.Locker{"same process": a, "another process": b} {
			_, err := l.Mutex(key, nil).TryLock(r.Context())
			r.heldBy("TryLock ("+name+")", err, "a/1")
			_, err = l.Semaphore(key, 1, nil).TryAcquire(r.Context())
			r.heldBy("TryAcquire ("+name+")", err, "a/1")
		}
		ctx, cancel := context.WithCancel(r.Context())
		errs := make(chan error, 3)
		for i := range 3 { // one contends, the others stand behind it
			go func() {
				_, err := b.Mutex(key, nil).Lock(ctx)
				errs <- err
			}()
			r.eventually("a waiter", time.Second, func() bool { return b.Stats().Waiting == i+1 })
		}
		cancel()
		for range 3 {
			r.heldBy("Lock", <-errs, "a/1")
		}
		r.unlock(permit)
		r.unlock(lease)
		next := r.lock(b.Mutex(key, nil))
		_, err := a.Mutex(key, nil).TryLock(r.Context())
		r.heldBy("TryLock", err, "b/2")
		r.unlock(next)
		_, err = r.lockerOf(r.connect(), lock.Options{Holder: strings.Repeat("x", 201)}).Mutex(key, nil).Lock(r.Context())
		r.wantErr("Lock with a long name", err, transparency.ErrInvalid)
	}},
	{name: "breaking takes the key from whoever has it", fn: func(r *run) {
		d, e := r.connect(), r.connect()
		a, b := r.claim(key), r.claim(key)
		b.Token = r.token(owner("b"))
		r.hears(e, owner("b"))
		first := r.granted(d, a)
		r.acquire(e, b, true)
		start := time.Now()
		broken := r.broken(e)
		if broken <= first {
			r.Errorf("Break = fence %d, want more than the holder's %d", broken, first)
		}
		r.wantErr("Renew of the one who had it", r.renew(d, a), lock.ErrLost)
		r.release(d, a, false)
		if g := r.acquire(d, r.claim(key), false); g.Fence != 0 {
			if !r.fake && time.Since(start) > 20*time.Millisecond {
				return // what was handed over may have lapsed
			}
			r.Errorf("one who does not stand in line was granted the key")
		}
		if next := r.granted(e, b); next <= broken {
			r.Errorf("fence %d after that of Break, %d, want a greater one", next, broken)
		}
		again := r.broken(d)
		r.wantErr("Renew", r.renew(e, b), lock.ErrLost)
		if f := r.granted(d, a); f <= again {
			r.Errorf("fence %d after that of Break, %d, want a greater one", f, again)
		}
	}},
	{name: "breaking what nobody has, and nothing else", fn: func(r *run) {
		d, a, b := r.connect(), r.claim("other"), r.permit(1)
		r.granted(d, a)
		r.granted(d, b)
		fence := r.broken(d)
		r.wantErr("Renew of another key", r.renew(d, a), nil)
		r.wantErr("Renew of a permit", r.renew(d, b), nil)
		if f := r.granted(d, r.claim(key)); f <= fence {
			r.Errorf("fence %d after that of Break, %d, want a greater one", f, fence)
		}
	}},
	{name: "a lock is broken by its own process", fn: func(r *run) {
		l := r.locker(r.connect())
		m := l.Mutex(key, nil)
		lease := r.lock(m)
		if _, err := l.Break(r.Context(), key); err != nil {
			r.Fatalf("Break error = %v", err)
		}
		r.wantErr("Err", lease.Err(), lock.ErrLost)
		next, err := m.TryLock(r.Context())
		if err != nil {
			r.Fatalf("TryLock after Break = %v", err)
		}
		r.wantErr("Unlock", lease.Unlock(r.Context()), lock.ErrLost)
		r.taken()
		r.unlock(next)
	}},
	{name: "an operator breaks a lock", fn: func(r *run) {
		a, b, operator := r.locker(r.connect()), r.locker(r.connect()), r.locker(r.connect())
		lease := r.lock(a.Mutex(key, nil))
		got := r.lockLater(b.Mutex(key, nil))
		r.eventually("a waiter", time.Second, func() bool { return b.Stats().Waiting == 1 })
		time.Sleep(20 * time.Millisecond)
		start := time.Now()
		fence, err := operator.Break(r.Context(), key)
		if err != nil {
			r.Fatalf("Break error = %v", err)
		}
		next := r.await(got)
		if took := time.Since(start); took > r.slack() {
			r.Errorf("the next had it %v after Break", took)
		}
		if fence <= lease.Fence() || fence >= next.Fence() {
			r.Errorf("fences of the holder %d, of Break %d and of the next %d, want them to rise", lease.Fence(), fence, next.Fence())
		}
		<-lease.Context().Done()
		if took := time.Since(start); took > r.ttl/3+r.slack() {
			r.Errorf("the holder was told after %v, want within a renewal, %v", took, r.ttl/3)
		}
		r.wantErr("cause", context.Cause(lease.Context()), lock.ErrLost)
		r.wantErr("Unlock", lease.Unlock(r.Context()), lock.ErrLost)
		r.taken()
		r.unlock(next)
		if _, err := operator.Break(ended(r.Context()), key); !errors.Is(err, context.Canceled) || errors.Is(err, transparency.ErrUncertain) {
			r.Errorf("Break with an ended context = %v, want its error alone", err)
		}
		_, err = operator.Break(r.Context(), "")
		r.wantErr("Break of an empty key", err, transparency.ErrInvalid)
		_ = operator.Close()
		_, err = operator.Break(r.Context(), key)
		r.wantErr("Break after Close", err, lock.ErrClosed)
	}},
}

// broken breaks the key's lock.
func (r *run) broken(d lock.Driver) uint64 {
	r.Helper()
	fence, err := d.Break(r.Context(), key)
	if err != nil {
		r.Fatalf("Break error = %v", err)
	}
	return fence
}
