package locktest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency/lock"
)

// How the engine waits.
var waitChecks = []check{
	{name: "a context bounds the wait, and only that", fn: func(r *run) {
		a, b := r.locker(r.connect()), r.locker(r.connect())
		lease := r.lock(a.Mutex(key, nil))
		for name, l := range map[string]*lock.Locker{"same process": a, "another process": b} {
			ctx, cancel := context.WithTimeout(r.Context(), r.ttl/4)
			start := time.Now()
			got, err := l.Mutex(key, nil).Lock(ctx)
			if got != nil {
				r.Errorf("Lock (%s) of a held lock = a lease", name)
			}
			r.wantErr("Lock ("+name+")", err, lock.ErrHeld, context.DeadlineExceeded)
			if took := time.Since(start); took > r.ttl/4+r.slack() {
				r.Errorf("Lock (%s) returned after %v, want %v", name, took, r.ttl/4)
			}
			cancel()
			_, err = l.Mutex("other", nil).Lock(ctx)
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrHeld) {
				r.Errorf("Lock (%s) with an ended context = %v", name, err)
			}
		}
		r.unlock(lease)
		r.free(r.slack())
	}},
	{name: "a release wakes a waiter of another process", fn: func(r *run) {
		a, b := r.locker(r.connect()), r.locker(r.connect())
		for range 3 {
			lease := r.lock(a.Mutex(key, nil))
			got := r.lockLater(b.Mutex(key, nil))
			r.eventually("a waiter", time.Second, func() bool { return b.Stats().Waiting == 1 })
			time.Sleep(20 * time.Millisecond)
			start := time.Now()
			r.unlock(lease)
			next := r.await(got)
			if took := time.Since(start); took > r.slack() {
				r.Errorf("handed over in %v", took)
			}
			r.unlock(next)
		}
	}},
	{name: "LK-14 a release before the waiter can hear", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		listening := make(chan struct{})
		open := sync.OnceFunc(func() { close(listening) })
		d.listen = func(ctx context.Context, owner string, wake func(string)) error {
			<-listening
			return d.Driver.Listen(ctx, owner, wake)
		}
		r.Cleanup(open)
		holder := r.lock(r.locker(r.connect()).Mutex(key, nil))
		l := r.locker(d)
		got := r.lockLater(l.Mutex(key, nil))
		r.eventually("a waiter", time.Second, func() bool { return l.Stats().Waiting == 1 })
		r.unlock(holder)
		start := time.Now()
		open()
		lease := r.await(got)
		if took := time.Since(start); took > r.slack() {
			r.Errorf("granted %v after it could hear", took)
		}
		r.unlock(lease)
	}},
	{name: "LK-14 a release between the answer and the wait", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		l := r.locker(d)
		other := r.lock(r.locker(r.connect()).Mutex("other", nil))
		ctx, cancel := context.WithCancel(r.Context())
		gaveUp := make(chan struct{})
		go func() { // so that the Locker hears already
			defer close(gaveUp)
			_, _ = l.Mutex("other", nil).Lock(ctx)
		}()
		r.eventually("a waiter", time.Second, func() bool { return l.Stats().Waiting == 1 && l.Stats().Attempts >= 2 })

		holder := r.lock(r.locker(r.connect()).Mutex(key, nil))
		release := sync.OnceFunc(func() {
			r.unlock(holder)
			time.Sleep(20 * time.Millisecond) // the news arrives first
		})
		d.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			g, err := d.Driver.Acquire(ctx, c, queue)
			if c.Key == key {
				release()
			}
			return g, err
		}
		start := time.Now()
		lease := r.lock(l.Mutex(key, nil))
		if took := time.Since(start); took > r.slack() {
			r.Errorf("granted after %v", took)
		}
		r.unlock(lease)
		cancel()
		<-gaveUp
		r.unlock(other)
	}},
	{name: "wake-ups that never come", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		d.listen = func(ctx context.Context, owner string, wake func(string)) error {
			wake("")
			<-ctx.Done()
			return ctx.Err()
		}
		holder := r.lock(r.locker(r.connect()).Mutex(key, nil))
		l := r.locker(d)
		got := r.lockLater(l.Mutex(key, nil))
		r.eventually("a waiter", time.Second, func() bool { return l.Stats().Waiting == 1 })
		r.unlock(holder)
		start := time.Now()
		lease := r.await(got)
		if took := time.Since(start); took > time.Second+r.slack() {
			r.Errorf("granted after %v, want the second of a poll", took)
		}
		r.unlock(lease)
	}},
	{name: "LK-15 a holder that crashed", fn: func(r *run) {
		d, c := r.connect(), r.claim(key)
		r.granted(d, c) // and nobody renews or releases it
		start := time.Now()
		l := r.locker(r.connect())
		lease := r.lock(l.Mutex(key, nil))
		took := time.Since(start)
		if took > r.ttl+r.slack() || took < r.ttl-r.slack() {
			r.Errorf("granted after %v, want the TTL of %v", took, r.ttl)
		}
		if n, most := l.Stats().Attempts, uint64(r.ttl/time.Second)+5; n > most {
			r.Errorf("%d attempts in %v, want at most %d", n, took, most)
		}
		r.unlock(lease)
	}},
	{name: "LK-17 many waiters of one process", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		var subscriptions atomic.Int32
		d.listen = func(ctx context.Context, owner string, wake func(string)) error {
			subscriptions.Add(1)
			return d.Driver.Listen(ctx, owner, wake)
		}
		holder := r.lock(r.locker(r.connect()).Mutex(key, nil))
		l := r.locker(d)
		const n = 200
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		cancelled, cancel := context.WithCancel(r.Context())
		r.Cleanup(cancel)
		for i := range n {
			ctx := r.Context()
			if i < 2 || i == n/2 { // the head, the next, and one of the middle
				ctx = cancelled
			}
			wg.Go(func() {
				lease, err := l.Mutex(key, nil).Lock(ctx)
				if ctx == cancelled {
					r.wantErr("Lock of a cancelled waiter", err, context.Canceled, lock.ErrHeld)
					return
				}
				if err != nil {
					r.Errorf("Lock error = %v", err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				r.unlock(lease)
			})
			r.eventually("a waiter", time.Second, func() bool { return l.Stats().Waiting == i+1 })
		}
		cancel()
		r.eventually("cancelled waiters leave", time.Second, func() bool { return l.Stats().Waiting == n-3 })
		before := l.Stats().Attempts
		r.unlock(holder)
		wg.Wait()
		if len(order) != n-3 {
			r.Fatalf("%d of %d were granted", len(order), n-3)
		}
		for i := 1; i < len(order); i++ {
			if order[i] < order[i-1] {
				r.Fatalf("waiter %d came after %d", order[i], order[i-1])
			}
		}
		if got := subscriptions.Load(); got != 1 {
			r.Errorf("%d subscriptions, want 1", got)
		}
		if sent := l.Stats().Attempts - before; sent > 2*n {
			r.Errorf("%d attempts for %d releases, want about one each", sent, n-3)
		}
	}},
	{name: "processes take turns", fakeTime: true, fn: func(r *run) {
		const processes, each = 4, 10
		counts := make([]atomic.Int32, processes)
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		for i := range processes {
			m := r.locker(r.connect()).Mutex(key, nil)
			wg.Go(func() {
				for ctx.Err() == nil {
					lease, err := m.Lock(ctx)
					if err != nil {
						return
					}
					time.Sleep(time.Millisecond)
					r.unlock(lease)
					if counts[i].Add(1) == each {
						cancel()
					}
				}
			})
		}
		wg.Wait()
		for i := range counts {
			if n := counts[i].Load(); n < each-3 {
				r.Errorf("process %d had %d turns while another had %d", i, n, each)
			}
		}
	}},
	{name: "a waiter that gave up leaves nothing", fn: func(r *run) {
		a, b := r.locker(r.connect()), r.locker(r.connect())
		lease := r.lock(a.Mutex(key, nil))
		ctx, cancel := context.WithTimeout(r.Context(), r.ttl/6)
		defer cancel()
		_, err := b.Mutex(key, nil).Lock(ctx)
		r.wantErr("Lock", err, lock.ErrHeld, context.DeadlineExceeded)
		r.eventually("its place is given up", time.Second, func() bool { return b.Stats().Undoing == 0 })
		r.unlock(lease)
		r.granted(r.connect(), r.claim(key)) // at once, and not kept for who gave up
	}},
}
