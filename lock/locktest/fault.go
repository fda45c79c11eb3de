package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/lock"
)

var errGone = fmt.Errorf("%w: test", transparency.ErrUnavailable)

// silent is a driver's answer to a request that was sent and is not answered.
func silent(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", transparency.ErrUncertain, ctx.Err())
}

// ended returns a context that has ended.
func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// What the engine makes of faults.
var faultChecks = []check{
	{name: "LK-1 a holder that was paused", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		d.renew = func(ctx context.Context, claims []lock.Claim) []error { return all(claims, silent(ctx)) }
		a := r.lock(r.locker(d).Mutex(key, nil))
		section := a.Context()

		var seen uint64 // by the resource
		write := func(fence uint64) bool {
			if fence < seen {
				return false
			}
			seen = fence
			return true
		}
		b := r.lock(r.locker(r.connect()).Mutex(key, nil))
		if b.Fence() <= a.Fence() {
			r.Errorf("successor's fence %d, want more than %d", b.Fence(), a.Fence())
		}
		if !write(b.Fence()) || write(a.Fence()) {
			r.Errorf("the resource refused the holder, or not the one before")
		}
		if section.Err() == nil || !errors.Is(context.Cause(section), lock.ErrLost) {
			r.Errorf("context of the paused holder: cause %v, want ErrLost", context.Cause(section))
		}
		r.wantErr("Unlock of the paused holder", a.Unlock(r.Context()), lock.ErrLost)
		r.taken()
		r.unlock(b)
	}},
	{name: "LK-2 loss is told before the key can expire", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		d.renew = func(ctx context.Context, claims []lock.Claim) []error { return all(claims, silent(ctx)) }
		start := time.Now()
		lease := r.lock(r.locker(d).Mutex(key, nil))
		until := lease.ValidUntil()
		<-lease.Context().Done()
		if r.fake { // else a busy machine can be late
			r.taken()
		}
		if took := time.Since(start); r.fake && took >= r.ttl || took < r.ttl*3/4 {
			r.Errorf("told of the loss after %v, want a little before %v", took, r.ttl)
		}
		if !lease.ValidUntil().Equal(until) {
			r.Errorf("ValidUntil moved without a renewal")
		}
		r.wantErr("Err", lease.Err(), lock.ErrLost)
	}},
	{name: "LK-3 LK-4 an acquire whose answer does not come", fn: func(r *run) {
		for _, end := range []string{"cancel", "deadline"} {
			d := &faulty{Driver: r.connect()}
			executed := make(chan struct{})
			d.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
				_, _ = d.Driver.Acquire(ctx, c, queue)
				close(executed)
				return lock.Grant{}, silent(ctx)
			}
			ctx, cancel := context.WithCancel(r.Context())
			want := context.Canceled
			if end == "deadline" {
				ctx, cancel = context.WithTimeout(r.Context(), r.ttl/4)
				want = context.DeadlineExceeded
			} else {
				go func() { <-executed; cancel() }()
			}
			lease, err := r.locker(d).Mutex(key, nil).Lock(ctx)
			if lease != nil {
				r.Errorf("Lock (%s) = a lease", end)
			}
			r.wantErr("Lock ("+end+")", err, want, transparency.ErrUncertain)
			r.free(r.slack())
			cancel()
		}
	}},
	{name: "LK-4 a grant that comes after the cancel", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		ctx, cancel := context.WithCancel(r.Context())
		d.acquire = func(_ context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			g, err := d.Driver.Acquire(r.Context(), c, queue)
			cancel()
			return g, err
		}
		lease, err := r.locker(d).Mutex(key, nil).Lock(ctx)
		if lease != nil {
			r.Errorf("Lock = a lease after its cancel")
		}
		r.wantErr("Lock", err, context.Canceled)
		r.free(r.slack())
	}},
	{name: "LK-3 an acquire that is executed after it was undone", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		late := make(chan lock.Grant, 1)
		d.acquire = func(ctx context.Context, c lock.Claim, _ bool) (lock.Grant, error) {
			err := silent(ctx)
			time.AfterFunc(r.ttl/12, func() {
				g, _ := d.Driver.Acquire(r.Context(), c, false)
				late <- g
			})
			return lock.Grant{}, err
		}
		ctx, cancel := context.WithTimeout(r.Context(), r.ttl/12)
		defer cancel()
		ttl := 10 * r.ttl
		_, err := r.locker(d).Mutex(key, &lock.MutexOptions{TTL: ttl}).Lock(ctx)
		r.wantErr("Lock", err, context.DeadlineExceeded, transparency.ErrUncertain)
		select {
		case g := <-late:
			if g.Fence == 0 {
				r.Errorf("the late attempt was not granted; the check shows nothing")
			}
		case <-time.After(2 * r.ttl):
			r.Fatalf("the driver was not asked in time; the check shows nothing")
		}
		r.free(ttl / 2)
	}},
	{name: "LK-4 a grant that comes after Close", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		l := r.locker(d)
		closed := make(chan error, 1)
		d.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			g, err := d.Driver.Acquire(ctx, c, queue)
			if c.Key != key {
				return g, err
			}
			go func() { closed <- l.Close() }()
			r.eventually("the Locker is closed", time.Second, func() bool {
				_, err := l.Mutex("other", nil).TryLock(ctx)
				return errors.Is(err, lock.ErrClosed)
			})
			return g, err
		}
		lease, err := l.Mutex(key, nil).Lock(r.Context())
		if lease != nil {
			r.Errorf("Lock = a lease of a Locker that is closed")
		}
		r.wantErr("Lock", err, lock.ErrClosed)
		r.wantErr("Close", <-closed, nil)
		r.free(0) // Close has seen to it
	}},
	{name: "LK-5 an answer later than the TTL", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		var sent time.Time
		var asked atomic.Int32
		d.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			sent = time.Now()
			g, err := d.Driver.Acquire(ctx, c, queue)
			if asked.Add(1) == 1 {
				time.Sleep(r.ttl + r.ttl/10)
			}
			return g, err
		}
		lease := r.lock(r.locker(d).Mutex(key, nil))
		if n := asked.Load(); n != 2 {
			r.Errorf("%d attempts, want 2", n)
		}
		if lease.ValidUntil().After(sent.Add(r.ttl)) {
			r.Errorf("valid for %v from the sending, want at most %v", lease.ValidUntil().Sub(sent), r.ttl)
		}
		r.taken()
		r.unlock(lease)
	}},
	{name: "LK-5 validity counts from the sending", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		var sent atomic.Int64
		start := time.Now()
		d.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			sent.Store(int64(time.Since(start)))
			g, err := d.Driver.Acquire(ctx, c, queue)
			time.Sleep(r.ttl / 12)
			return g, err
		}
		d.renew = func(ctx context.Context, claims []lock.Claim) []error {
			if time.Since(start) > r.ttl {
				return all(claims, silent(ctx))
			}
			sent.Store(int64(time.Since(start)))
			results := d.Driver.Renew(ctx, claims)
			time.Sleep(r.ttl / 8)
			return results
		}
		lease := r.lock(r.locker(d).Mutex(key, nil))
		check := func(when string) {
			if over := lease.ValidUntil().Sub(start.Add(time.Duration(sent.Load()) + r.ttl)); over > 0 {
				r.Errorf("%s: valid for %v longer than the key can last", when, over)
			}
		}
		check("granted")
		<-lease.Context().Done()
		check("renewed")
		if r.fake {
			r.taken()
		}
	}},
	{name: "LK-31 a TTL too short for the round trip", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		d.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			time.Sleep(r.ttl / 4)
			return d.Driver.Acquire(ctx, c, queue)
		}
		lease, err := r.locker(d).Mutex(key, nil).Lock(r.Context())
		if lease != nil {
			r.Errorf("Lock = a lease that cannot be renewed in time")
		}
		if !transparency.Retryable(err) {
			r.Errorf("Lock = %v, want a retryable error: the store may be quicker next time", err)
		}
		r.free(r.slack())
	}},
	{name: "an error without a class means that the outcome is unknown", fn: func(r *run) {
		bare := errors.New("test")
		d := &faulty{Driver: r.connect()}
		l := r.locker(d)
		lease := r.lock(l.Mutex(key, nil))
		var away atomic.Bool
		away.Store(true)
		d.release = func(ctx context.Context, c lock.Claim) (bool, error) {
			if away.Load() {
				return false, bare
			}
			return d.Driver.Release(ctx, c)
		}
		d.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			_, _ = d.Driver.Acquire(ctx, c, queue)
			return lock.Grant{}, bare
		}
		for _, ctx := range []context.Context{r.Context(), ended(r.Context())} {
			r.wantErr("Unlock", lease.Unlock(ctx), transparency.ErrUncertain, bare)
		}
		_, err := l.Mutex("other", nil).Lock(r.Context())
		r.wantErr("Lock", err, transparency.ErrUncertain, bare)
		away.Store(false)
		r.eventually("all is undone", 3*time.Second, func() bool { return l.Stats().Undoing == 0 })
		r.free(0)
		r.granted(d.Driver, r.claim("other"))
	}},
	{name: "LK-10 trouble shorter than the lease", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		start := time.Now()
		d.renew = func(ctx context.Context, claims []lock.Claim) []error {
			if time.Since(start) < r.ttl*2/3 {
				return all(claims, errGone)
			}
			return d.Driver.Renew(ctx, claims)
		}
		l := r.locker(d)
		lease := r.lock(l.Mutex(key, nil))
		time.Sleep(2 * r.ttl)
		if err := lease.Err(); err != nil || lease.Context().Err() != nil {
			r.Errorf("Err after trouble that ended in time = %v, want nil", err)
		}
		if s := l.Stats(); s.RenewalsFailed < 2 || s.Renewed < 1 {
			r.Errorf("Stats = %+v, want failed renewals and others", s)
		}
		r.unlock(lease)
	}},
	{name: "LK-10 trouble longer than the lease", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		d.renew = func(_ context.Context, claims []lock.Claim) []error { return all(claims, errGone) }
		lease := r.lock(r.locker(d).Mutex(key, nil))
		until := lease.ValidUntil()
		<-lease.Context().Done()
		if late := time.Since(until); late < 0 || late > r.slack() {
			r.Errorf("told of the loss %v after the lease was valid, want at that moment", late)
		}
	}},
	{name: "LK-10 a renewal without an answer is tried again in time", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		var tries atomic.Int32
		d.renew = func(ctx context.Context, claims []lock.Claim) []error {
			if tries.Add(1) <= 2 {
				return all(claims, silent(ctx))
			}
			return d.Driver.Renew(ctx, claims)
		}
		lease := r.lock(r.locker(d).Mutex(key, nil))
		time.Sleep(r.ttl * 3 / 2)
		if err := lease.Err(); err != nil {
			r.Errorf("Err after two renewals without an answer = %v, want nil", err)
		}
		r.unlock(lease)
	}},
	{name: "LK-10 LK-11 one definite no", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		l := r.locker(d)
		lease := r.lock(l.Mutex(key, nil))
		c := *d.last.Load()
		r.release(d.Driver, c, true) // an operator's hand
		start := time.Now()
		<-lease.Context().Done()
		if took := time.Since(start); took > r.ttl/3+r.slack() {
			r.Errorf("told of the loss after %v, want within a renewal, %v", took, r.ttl/3)
		}
		r.wantErr("cause", context.Cause(lease.Context()), lock.ErrLost)
		if lease.ValidUntil().After(time.Now()) {
			r.Errorf("ValidUntil after the loss lies ahead")
		}
		renewed := l.Stats()
		time.Sleep(r.ttl)
		if s := l.Stats(); s.Renewed != renewed.Renewed || s.Held != 0 || s.Lost != 1 {
			r.Errorf("Stats = %+v, want nothing renewed any more", s)
		}
		r.free(0)
	}},
	{name: "a lease that was lost is in nobody's way", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		l := r.locker(d)
		lease := r.lock(l.Mutex(key, nil))
		r.release(d.Driver, *d.last.Load(), true)
		<-lease.Context().Done()
		next := r.lock(l.Mutex(key, nil)) // before its Unlock
		r.wantErr("Unlock", lease.Unlock(r.Context()), lock.ErrLost)
		if err := next.Err(); err != nil {
			r.Errorf("Err of the next lease = %v, want nil", err)
		}
		r.unlock(next)
	}},
	{name: "Do tells of a loss although its section did not", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		mine := errors.New("mine")
		for _, result := range []error{nil, mine} {
			err := lock.Do(r.Context(), r.locker(d).Mutex(key, nil), func(ctx context.Context, _ uint64) error {
				r.release(d.Driver, *d.last.Load(), true)
				<-ctx.Done()
				r.wantErr("cause of the section's end", context.Cause(ctx), lock.ErrLost)
				return result
			})
			r.wantErr("Do", err, lock.ErrLost)
			if result != nil {
				r.wantErr("Do", err, result)
			}
		}
	}},
	{name: "the first attempt tells of trouble, a waiter sits it out", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		var away atomic.Bool
		var tries atomic.Int32
		var failed sync.Map // tokens, which may be executed yet
		d.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			if _, used := failed.Load(c.Token); used {
				r.Errorf("the token of an attempt that failed is used again")
			}
			if away.Load() {
				failed.Store(c.Token, true)
				if c.Key == key && tries.Add(1)%2 == 0 {
					return lock.Grant{}, fmt.Errorf("%w: test", transparency.ErrUncertain)
				}
				return lock.Grant{}, errGone
			}
			return d.Driver.Acquire(ctx, c, queue)
		}
		holder := r.lock(r.locker(r.connect()).Mutex(key, nil))
		l := r.locker(d)
		got := make(chan error, 1)
		go func() {
			lease, err := l.Mutex(key, nil).Lock(r.Context())
			if err == nil {
				err = lease.Unlock(r.Context())
			}
			got <- err
		}()
		r.eventually("a waiter", time.Second, func() bool { return l.Stats().Waiting == 1 })
		away.Store(true)
		_, err := l.Mutex("other", nil).Lock(r.Context())
		if !transparency.Retryable(err) {
			r.Errorf("Lock = %v, want a retryable error", err)
		}
		r.unlock(holder)
		time.Sleep(r.ttl / 3)
		away.Store(false)
		if err := <-got; err != nil {
			r.Errorf("Lock of one who had waited = %v, want nil", err)
		}
		if tries.Load() < 2 {
			r.Errorf("%d tries, which show little", tries.Load())
		}
	}},
	{name: "a waiter does not sit out trouble for longer than its TTL", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		var away atomic.Bool
		d.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			if away.Load() {
				return lock.Grant{}, errGone
			}
			return d.Driver.Acquire(ctx, c, queue)
		}
		holder := r.lock(r.locker(r.connect()).Mutex(key, nil))
		l := r.locker(d)
		got := make(chan error, 1)
		go func() {
			_, err := l.Mutex(key, nil).Lock(r.Context())
			got <- err
		}()
		r.eventually("a waiter", time.Second, func() bool { return l.Stats().Waiting == 1 })
		away.Store(true)
		start := time.Now()
		r.wantErr("Lock", <-got, lock.ErrHeld, transparency.ErrUnavailable)
		if took := time.Since(start); took > r.ttl+2*time.Second+r.slack() { // a poll before, a pause after
			r.Errorf("Lock returned after %v of trouble, want a TTL of %v", took, r.ttl)
		}
		r.unlock(holder)
	}},
}
