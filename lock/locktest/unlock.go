package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/lock"
)

// What Unlock makes of faults.
var unlockChecks = []check{
	{name: "LK-7 a release whose answer is lost", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		var deaf atomic.Bool
		d.release = func(ctx context.Context, c lock.Claim) (bool, error) {
			owned, err := d.Driver.Release(ctx, c)
			if deaf.Load() {
				return false, fmt.Errorf("%w: test", transparency.ErrUncertain)
			}
			return owned, err
		}
		l := r.locker(d)
		lease := r.lock(l.Mutex(key, nil))
		deaf.Store(true)
		err := lease.Unlock(r.Context())
		r.wantErr("Unlock", err, transparency.ErrUncertain)
		if errors.Is(err, lock.ErrLost) {
			r.Errorf("Unlock = %v, want no claim of a loss", err)
		}
		r.wantErr("Err", lease.Err(), lock.ErrReleased)
		c := r.lock(l.Mutex(key, nil)) // the same process, another lease
		deaf.Store(false)
		if err := lease.Unlock(r.Context()); err != nil {
			r.Errorf("Unlock again = %v, want nil", err)
		}
		r.taken()
		r.eventually("the Locker stops trying", 3*time.Second, func() bool { return l.Stats().Undoing == 0 })
		r.unlock(c)
	}},
	{name: "Unlock by two at once", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		var asked atomic.Int32
		overtaken := make(chan struct{})
		d.release = func(ctx context.Context, c lock.Claim) (bool, error) {
			if asked.Add(1) == 1 {
				select {
				case <-overtaken:
				case <-ctx.Done():
				}
			} else {
				defer close(overtaken)
			}
			return d.Driver.Release(ctx, c)
		}
		lease := r.lock(r.locker(d).Mutex(key, nil))
		first := make(chan error, 1)
		go func() { first <- lease.Unlock(r.Context()) }()
		r.eventually("the first release", time.Second, func() bool { return asked.Load() == 1 })
		r.unlock(lease)
		if err := <-first; err != nil {
			r.Errorf("Unlock that was overtaken = %v, want nil", err)
		}
		r.wantErr("Err", lease.Err(), lock.ErrReleased)
	}},
	{name: "a release that was not made is made later", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		var away atomic.Bool
		d.release = func(ctx context.Context, c lock.Claim) (bool, error) {
			if away.Load() {
				return false, errGone
			}
			return d.Driver.Release(ctx, c)
		}
		l := r.locker(d)
		lease := r.lock(l.Mutex(key, &lock.MutexOptions{TTL: 10 * r.ttl}))
		away.Store(true)
		err := lease.Unlock(r.Context())
		if !transparency.Retryable(err) {
			r.Errorf("Unlock = %v, want a retryable error", err)
		}
		time.Sleep(r.ttl / 6)
		away.Store(false)
		r.free(2 * time.Second)
		if err := lease.Unlock(r.Context()); err != nil {
			r.Errorf("Unlock again = %v, want nil", err)
		}
	}},
	{name: "Unlock of a key that was taken away", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		l := r.locker(d)
		lease := r.lock(l.Mutex(key, nil))
		r.release(d.Driver, *d.last.Load(), true)
		b := r.lock(r.locker(r.connect()).Mutex(key, nil))
		r.wantErr("Unlock", lease.Unlock(r.Context()), lock.ErrLost)
		if s := l.Stats(); s.Lost != 1 || s.Held != 0 {
			r.Errorf("Stats = %+v, want one lost", s)
		}
		r.wantErr("Unlock again", lease.Unlock(r.Context()), lock.ErrLost)
		r.wantErr("Err", lease.Err(), lock.ErrLost)
		r.taken()
		r.unlock(b)
	}},
	{name: "Unlock of a lost lease tells of the loss, whatever the store says", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		lease := r.lock(r.locker(d).Mutex(key, nil))
		r.release(d.Driver, *d.last.Load(), true)
		<-lease.Context().Done()
		d.release = func(context.Context, lock.Claim) (bool, error) { return false, errGone }
		for range 2 {
			r.wantErr("Unlock", lease.Unlock(r.Context()), lock.ErrLost)
		}
	}},
	{name: "Unlock with an ended context and no answer", fn: func(r *run) {
		const grace = 100 * time.Millisecond
		for _, class := range []error{transparency.ErrUncertain, transparency.ErrUnavailable} {
			d := &faulty{Driver: r.connect()}
			lease := r.lock(r.locker(d).Mutex(key, nil))
			var away atomic.Bool
			away.Store(true)
			d.release = func(ctx context.Context, c lock.Claim) (bool, error) {
				if !away.Load() {
					return d.Driver.Release(ctx, c)
				}
				<-ctx.Done()
				return false, fmt.Errorf("%w: %w", class, ctx.Err())
			}
			start := time.Now()
			err := lease.Unlock(ended(r.Context()))
			if took := time.Since(start); took < grace || took > grace+r.slack() {
				r.Errorf("Unlock returned after %v, want %v", took, grace)
			}
			r.wantErr("Unlock", err, class, context.Canceled)
			if errors.Is(err, context.DeadlineExceeded) {
				r.Errorf("Unlock = %v, want the end of the caller's context and no other", err)
			}
			away.Store(false)
			r.unlock(lease)
			away.Store(true)
			r.unlock(lease) // the same answer, and nothing sent
		}
	}},
	{name: "a release that cannot be made is given up with the TTL, or when it is refused", fn: func(r *run) {
		for _, refusal := range []error{transparency.ErrUnavailable, transparency.ErrDenied, transparency.ErrInvalid} {
			d := &faulty{Driver: r.connect()}
			l := r.locker(d)
			lease := r.lock(l.Mutex(key+refusal.Error(), nil))
			d.release = func(context.Context, lock.Claim) (bool, error) {
				return false, fmt.Errorf("%w: test", refusal)
			}
			r.wantErr("Unlock", lease.Unlock(r.Context()), refusal)
			most := r.slack()
			if errors.Is(refusal, transparency.ErrUnavailable) {
				most += r.ttl + time.Second // a pause between two tries
				if n := l.Stats().Undoing; n != 1 {
					r.Errorf("%d releases are still tried, want 1", n)
				}
			}
			r.eventually("the Locker stops trying", most, func() bool { return l.Stats().Undoing == 0 })
		}
	}},
}
