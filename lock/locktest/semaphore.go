package locktest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/lock"
)

// permit returns a claim of one of so many permits.
func (r *run) permit(permits int) lock.Claim {
	c := r.claim(key)
	c.Permits = permits
	return c
}

// waiting returns such a claim of an owner who hears.
func (r *run) waiting(d lock.Driver, name string, permits int) lock.Claim {
	r.Helper()
	c := r.permit(permits)
	c.Token = r.token(owner(name))
	r.hears(d, owner(name))
	return c
}

func (r *run) refused(d lock.Driver, c lock.Claim, queue bool) lock.Grant {
	r.Helper()
	g := r.acquire(d, c, queue)
	if g.Fence != 0 {
		r.Fatalf("Acquire(%v) = fence %d, want none", c, g.Fence)
	}
	if g.Remaining <= 0 || g.Remaining > c.TTL {
		r.Errorf("Acquire(%v): %v remain, want up to %v", c, g.Remaining, c.TTL)
	}
	return g
}

func (r *run) acquirePermit(s *lock.Semaphore) *lock.Lease {
	r.Helper()
	lease, err := s.Acquire(r.Context())
	if err != nil {
		r.Fatalf("Acquire error = %v", err)
	}
	return lease
}

// What a driver does for semaphores.
var permitChecks = []check{
	{name: "as many tokens as permits, with rising fences", fn: func(r *run) {
		d, e := r.connect(), r.connect()
		var last uint64
		var claims []lock.Claim
		for range 3 {
			c := r.permit(3)
			if f := r.granted(d, c); f <= last {
				r.Errorf("fence %d after %d, want a greater one", f, last)
			} else {
				last = f
			}
			claims = append(claims, c)
		}
		other := r.permit(3)
		r.refused(e, other, false)
		r.release(e, other, false)
		r.release(e, claims[1], true)
		r.release(e, claims[1], false)
		if f := r.granted(e, other); f <= last {
			r.Errorf("fence %d after %d, want a greater one", f, last)
		}
		r.refused(d, r.permit(3), false)
	}},
	{name: "a semaphore and a lock of one key are apart", fn: func(r *run) {
		d, a, b := r.connect(), r.claim(key), r.permit(1)
		r.granted(d, a)
		r.granted(d, b)
		r.refused(d, r.permit(1), false)
		r.release(d, a, true)
		r.wantErr("Renew of the permit", r.renew(d, b), nil)
		r.wantErr("Renew of the lock", r.renew(d, a), lock.ErrLost)
		r.release(d, b, true)
	}},
	{name: "a permit is granted to its token anew", fn: func(r *run) {
		d, a := r.connect(), r.permit(2)
		a.Holder = "me"
		first := r.granted(d, a)
		time.Sleep(r.ttl / 2)
		if second := r.granted(d, a); second <= first {
			r.Errorf("second fence %d, want more than %d", second, first)
		}
		r.granted(d, r.permit(2))
		if g := r.refused(d, r.permit(2), false); g.Remaining <= r.ttl*2/3 {
			r.Errorf("%v remain after the second grant, want close to %v", g.Remaining, r.ttl)
		}
	}},
	{name: "permits expire one by one, and are renewed so", fn: func(r *run) {
		d, a, b := r.connect(), r.permit(2), r.permit(2)
		start := time.Now()
		r.granted(d, a)
		r.granted(d, b)
		time.Sleep(r.ttl / 2)
		r.wantErr("Renew", r.renew(d, b), nil)
		other := r.permit(2)
		r.eventually("a permit expires", r.ttl/2+2*r.slack(), func() bool { return r.acquire(d, other, false).Fence != 0 })
		if took := time.Since(start); took < r.ttl-2*time.Millisecond {
			r.Errorf("a permit was free after %v, want not before %v", took, r.ttl)
		}
		r.wantErr("Renew of the one that expired", r.renew(d, a), lock.ErrLost)
		r.release(d, a, false)
		r.refused(d, r.permit(2), false)
		r.wantErr("Renew of another token's", r.renew(d, r.permit(2)), lock.ErrLost)
	}},
	{name: "a refusal tells of the permit that ends in time", fn: func(r *run) {
		d := r.connect()
		for i, name := range []string{"first", "second", "third"} {
			c := r.permit(3)
			c.TTL, c.Holder = r.ttl*time.Duration(i+1), name
			r.granted(d, c)
		}
		for permits, want := range map[int]string{3: "first", 2: "second", 1: "third"} {
			g := r.acquire(d, r.permit(permits), false)
			i := time.Duration(4 - permits)
			if g.Fence != 0 || g.Holder != want || g.Remaining <= (i-1)*r.ttl || g.Remaining > i*r.ttl {
				r.Errorf("Acquire by one who knows of %d permits = %+v, want the %s", permits, g, want)
			}
		}
	}},
	{name: "a released permit is handed over in order", fn: func(r *run) {
		d, e := r.connect(), r.connect()
		a, b := r.permit(2), r.permit(2)
		x, y := r.waiting(d, "x", 2), r.waiting(e, "y", 2)
		x.Holder = "x"
		r.granted(d, a)
		r.granted(d, b)
		r.refused(d, x, true)
		time.Sleep(time.Millisecond)
		r.refused(e, y, true)
		r.refused(d, x, true) // its place stays
		r.release(d, a, true)
		if g := r.acquire(e, y, true); g.Fence != 0 {
			r.Errorf("the second in line was granted a permit before the first")
		}
		if g := r.acquire(e, r.permit(2), false); g.Fence != 0 || !g.Passing {
			r.Errorf("Acquire by one who does not stand in line = %+v, want that a permit is passing", g)
		}
		r.granted(d, x)
		r.release(d, x, true)
		r.granted(e, y)
		r.refused(d, r.permit(2), false)
	}},
	{name: "a permit that is handed over waits for a grace only, and can be passed on", fn: func(r *run) {
		d := r.connect()
		a, x, y := r.permit(1), r.waiting(d, "x", 1), r.waiting(d, "y", 1)
		r.granted(d, a)
		r.refused(d, x, true)
		time.Sleep(time.Millisecond)
		r.refused(d, y, true)
		r.release(d, a, true)
		r.release(d, x, true) // it has given up meanwhile
		other := r.permit(1)
		r.eventually("the permit is free", 50*time.Millisecond+r.slack(), func() bool { return r.acquire(d, other, false).Fence != 0 })
	}},
	{name: "a waiter that left the line is handed no permit", fn: func(r *run) {
		d := r.connect()
		a, x, y := r.permit(1), r.waiting(d, "x", 1), r.waiting(d, "y", 1)
		r.granted(d, a)
		r.refused(d, x, true)
		time.Sleep(time.Millisecond)
		r.refused(d, y, true)
		r.release(d, x, false)
		r.release(d, a, true)
		r.granted(d, y)
	}},
	{name: "each is judged by the number of permits that it knows of", fn: func(r *run) {
		d := r.connect()
		var big []lock.Claim
		for range 3 {
			big = append(big, r.permit(3))
			r.granted(d, big[len(big)-1])
		}
		few, many := r.waiting(d, "few", 2), r.waiting(d, "many", 3)
		r.refused(d, few, true)
		time.Sleep(time.Millisecond)
		r.refused(d, many, true)
		r.release(d, big[0], true)
		r.refused(d, few, true) // two others have one
		r.granted(d, many)
		r.release(d, big[1], true)
		r.refused(d, few, true)
		r.release(d, big[2], true)
		r.granted(d, few)
		r.refused(d, r.permit(2), false)
		r.granted(d, r.permit(3))
	}},
}

// What the engine makes of it.
var semaphoreChecks = []check{
	{name: "a semaphore is full and not fuller", fn: func(r *run) {
		const permits, processes, callers, each = 3, 3, 4, 5
		var inside, most, count atomic.Int32
		var wg sync.WaitGroup
		for range processes {
			s := r.locker(r.connect()).Semaphore(key, permits, nil)
			for range callers {
				wg.Go(func() {
					for range each {
						err := s.Do(r.Context(), func(ctx context.Context, fence uint64) error {
							now := inside.Add(1)
							for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
							}
							time.Sleep(r.ttl / 200)
							inside.Add(-1)
							count.Add(1)
							return ctx.Err()
						})
						if err != nil {
							r.Errorf("Do error = %v", err)
							return
						}
					}
				})
			}
		}
		wg.Wait()
		if most.Load() != permits || count.Load() != processes*callers*each {
			r.Errorf("%d at once in %d sections, want %d in %d", most.Load(), count.Load(), permits, processes*callers*each)
		}
	}},
	{name: "permits are leases: renewed, lost and released each by itself", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		l := r.locker(d)
		s := l.Semaphore(key, 3, nil)
		a := r.acquirePermit(s)
		taken := *d.last.Load()
		b, c := r.acquirePermit(s), r.acquirePermit(s)
		if a.Fence() >= b.Fence() || b.Fence() >= c.Fence() {
			r.Errorf("fences %d, %d, %d, want them to rise", a.Fence(), b.Fence(), c.Fence())
		}
		time.Sleep(r.ttl * 3 / 2)
		for _, lease := range []*lock.Lease{a, b, c} {
			if err := lease.Err(); err != nil {
				r.Errorf("Err of a permit that is held = %v", err)
			}
		}
		r.release(d.Driver, taken, true) // an operator's hand
		<-a.Context().Done()
		r.wantErr("Err", a.Err(), lock.ErrLost)
		r.wantErr("Unlock", a.Unlock(r.Context()), lock.ErrLost)
		if b.Err() != nil || c.Err() != nil {
			r.Errorf("Err of the others = %v, %v, want nil", b.Err(), c.Err())
		}
		r.unlock(b)
		r.unlock(b)
		next, last := r.acquirePermit(s), r.acquirePermit(s)
		_, err := s.TryAcquire(r.Context())
		r.wantErr("TryAcquire", err, lock.ErrHeld)
		for _, lease := range []*lock.Lease{c, next, last} {
			r.unlock(lease)
		}
	}},
	{name: "TryAcquire does not wait, and is not in another's way", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		const permits = 5
		var asked atomic.Int32
		together := make(chan struct{})
		d.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			if n := asked.Add(1); n == permits {
				close(together)
			} else if n < permits {
				select {
				case <-together:
				case <-ctx.Done():
				}
			}
			return d.Driver.Acquire(ctx, c, queue)
		}
		s := r.locker(d).Semaphore(key, permits, nil)
		leases := make([]*lock.Lease, permits)
		var wg sync.WaitGroup
		for i := range leases {
			wg.Go(func() {
				var err error
				if leases[i], err = s.TryAcquire(r.Context()); err != nil {
					r.Errorf("TryAcquire of a free permit = %v", err)
				}
			})
		}
		wg.Wait()
		for name, d := range map[string]lock.Driver{"same process": d, "another process": r.connect()} {
			lease, err := r.locker(d).Semaphore(key, permits, nil).TryAcquire(r.Context())
			var held *lock.HeldError
			if lease != nil || !errors.As(err, &held) || held.Remaining <= 0 || held.Remaining > r.ttl {
				r.Errorf("TryAcquire (%s) = %v, %v, want a HeldError", name, lease, err)
			}
		}
		for _, lease := range leases {
			r.unlock(lease)
		}
	}},
	{name: "who waits for a permit is served in turn, and woken", fn: func(r *run) {
		const n = 20
		holder := r.locker(r.connect()).Semaphore(key, 2, nil)
		first, second := r.acquirePermit(holder), r.acquirePermit(holder)
		d := &faulty{Driver: r.connect()}
		l := r.locker(d)
		s := l.Semaphore(key, 2, nil)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range n {
			wait := r.Context()
			if i == 0 || i == n/2 {
				wait = ctx
			}
			wg.Go(func() {
				lease, err := s.Acquire(wait)
				if wait == ctx {
					r.wantErr("Acquire of a cancelled waiter", err, context.Canceled, lock.ErrHeld)
					return
				}
				if err != nil {
					r.Errorf("Acquire error = %v", err)
					return
				}
				mu.Lock()
				order = append(order, int(lease.Fence()-first.Fence())) // rising, or out of turn
				mu.Unlock()
				r.unlock(lease)
			})
			r.eventually("a waiter", time.Second, func() bool { return l.Stats().Waiting == i+1 })
		}
		_, err := s.TryAcquire(r.Context())
		r.wantErr("TryAcquire while others wait", err, lock.ErrHeld)
		cancel()
		r.eventually("cancelled waiters leave", time.Second, func() bool { return l.Stats().Waiting == n-2 })
		time.Sleep(20 * time.Millisecond)
		before, start := l.Stats().Attempts, time.Now()
		r.unlock(first)
		wg.Wait()
		if took := time.Since(start); r.fake && took > 100*time.Millisecond || took > 2*time.Second {
			r.Errorf("%d waiters were served in %v, want them woken", n-2, took)
		}
		if sent := l.Stats().Attempts - before; sent > 2*n {
			r.Errorf("%d attempts for %d grants, want about one each", sent, n-2)
		}
		if len(order) != n-2 {
			r.Errorf("%d of %d were granted", len(order), n-2)
		}
		r.unlock(second)
	}},
	{name: "a permit whose holder crashed is free after its TTL", fn: func(r *run) {
		d := r.connect()
		r.granted(d, r.permit(2)) // and nobody renews or releases it
		l := r.locker(r.connect())
		s := l.Semaphore(key, 2, nil)
		start := time.Now()
		other := r.acquirePermit(s)
		lease := r.acquirePermit(s)
		if took := time.Since(start); took > r.ttl+r.slack() || took < r.ttl-r.slack() {
			r.Errorf("granted after %v, want the TTL of %v", took, r.ttl)
		}
		r.unlock(lease)
		r.unlock(other)
	}},
	{name: "a semaphore's bad input is refused before any I/O", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		d.acquire = func(context.Context, lock.Claim, bool) (lock.Grant, error) {
			r.Errorf("the driver was asked")
			return lock.Grant{}, nil
		}
		l := r.locker(d)
		for name, s := range map[string]*lock.Semaphore{
			"nil":          nil,
			"zero":         new(lock.Semaphore),
			"no permits":   l.Semaphore(key, 0, nil),
			"negative":     l.Semaphore(key, -1, nil),
			"empty key":    l.Semaphore("", 1, nil),
			"negative TTL": l.Semaphore(key, 1, &lock.SemaphoreOptions{TTL: -1}),
		} {
			_, err := s.Acquire(r.Context())
			r.wantErr("Acquire ("+name+")", err, transparency.ErrInvalid)
			_, err = s.TryAcquire(r.Context())
			r.wantErr("TryAcquire ("+name+")", err, transparency.ErrInvalid)
			err = s.Do(r.Context(), func(context.Context, uint64) error { return nil })
			r.wantErr("Do ("+name+")", err, transparency.ErrInvalid)
		}
	}},
}
