package location

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency"
)

// Resolve implements [Locator]. It asks the store, once for all who want to
// know at the same time. When the store does not answer, or has lost the
// endpoints, Resolve returns the last that were known, marked as stale; while
// the store is known not to answer it does so at once, and looks in the
// background. After MaxStale it returns an error.
func (r *Registry) Resolve(ctx context.Context, service string) (Snapshot, error) {
	name, err := CleanService(service)
	if err != nil {
		return Snapshot{}, failed("resolve", "", err)
	}
	e, err := r.resolve(ctx, name)
	if err == nil {
		err = e.err
	}
	if err == nil && e.snapshot.Len() == 0 {
		err = ErrNoInstances
	}
	if err != nil {
		return e.snapshot, failed("resolve", name, err)
	}
	return e.snapshot, nil
}

func (r *Registry) resolve(ctx context.Context, name string) (event, error) {
	if !r.made() {
		return event{}, errNotMade
	}
	if err := ctx.Err(); err != nil {
		return event{}, err
	}
	v, f, known, err := r.ask(name)
	if f == nil {
		return known, err
	}
	select {
	case <-f.done:
		return f.event, nil
	case <-ctx.Done():
		r.giveUp(v, f)
		return event{}, fmt.Errorf("%w: no reply yet: %w", transparency.ErrUnavailable, ctx.Err())
	case <-r.ctx.Done():
		return event{}, ErrClosed
	}
}

// ask returns a flight to wait for, or what can be said at once.
func (r *Registry) ask(name string) (*view, *flight, event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, err := r.find(name)
	if err != nil {
		return nil, nil, event{}, err
	}
	now := time.Now()
	if v.failure != nil {
		if e := v.event(now, &r.opts); e.err == nil {
			if now.Sub(v.failed) >= askAgain {
				r.lookAside(v)
			}
			return v, nil, e, nil
		}
	}
	return v, r.look(v), event{}, nil
}

// A flight is one look. It is given up when nobody waits for it any more, so
// that a store that hangs holds no more goroutines than there are callers.
type flight struct {
	ctx     context.Context
	cancel  context.CancelFunc
	waiters int
	aside   bool // it is one of Registry.aside
	done    chan struct{}
	event   event
}

// look returns the next flight, which begins at once or after the present one,
// and has one more waiter. It requires r.mu, and that the Registry is not
// closed.
func (r *Registry) look(v *view) *flight {
	if v.next == nil {
		v.next = &flight{done: make(chan struct{})}
		v.next.ctx, v.next.cancel = context.WithCancel(r.ctx)
	}
	f := v.next
	f.waiters++
	if v.now == nil {
		v.now, v.next = v.next, nil
		r.tasks.Add(1)
		go r.fly(v)
	}
	return f
}

// maxAside bounds the looks that nobody waits for.
const maxAside = 8

// lookAside begins a flight that nobody waits for. It requires r.mu.
func (r *Registry) lookAside(v *view) {
	if v.now == nil && r.aside < maxAside {
		r.aside++
		r.look(v).aside = true
	}
}

// giveUp takes one waiter from a flight.
func (r *Registry) giveUp(v *view, f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.waiters--; f.waiters > 0 {
		return
	}
	f.cancel()
	if v.next == f {
		v.next = nil
		return
	}
	if v.now == f {
		v.unanswered()
	}
}

// fly asks the store for as long as anyone wants to know.
func (r *Registry) fly(v *view) {
	defer r.tasks.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	for v.now != nil {
		f, known := v.now, v.listing.Version
		r.mu.Unlock()
		ctx, cancel := context.WithTimeout(f.ctx, r.opts.Timeout)
		asked := time.Now()
		listing, err := r.driver.List(ctx, v.service, known)
		err = ours(ctx, err)
		cancel()
		f.cancel()
		if err == nil && !listing.Same {
			if listing = readable(listing); listing.Broken > 0 {
				r.opts.Logger.Warn("location: endpoints that cannot be read are left out", "service", v.service, "count", listing.Broken)
			}
		}
		r.mu.Lock()
		if err == nil || f.waiters > 0 { // else it was given up
			r.apply(v, listing, err, asked)
		}
		f.event = v.event(time.Now(), &r.opts)
		if r.closed {
			f.event = event{err: ErrClosed}
		}
		if f.waiters > 0 {
			v.tell(f.event)
		}
		if f.aside {
			r.aside--
		}
		close(f.done)
		v.now, v.next = v.next, nil
	}
	r.forget(v)
	r.trim()
}

// unanswered takes note of a look that was given up. It says nothing of the
// store, but the next to ask can be served what is known.
func (v *view) unanswered() {
	if len(v.good) > 0 && v.failure == nil {
		v.failure = fmt.Errorf("%w: no reply in time", transparency.ErrUnavailable)
		v.failed = time.Now().Add(-askAgain)
	}
}

// askAgain is how long a store that failed is left alone by those who can be
// served what was known.
const askAgain = time.Second

// classed returns an error of a look with a class: nothing was changed.
func classed(err error) error { return classedAs(transparency.ErrUnavailable, err) }

// changed returns an error of a call that changes something with a class,
// unless it is an answer, or just that of a context.
func changed(err error) error {
	for _, answer := range [...]error{nil, ErrInstanceConflict, ErrLost, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, answer) {
			return err
		}
	}
	return classedAs(transparency.ErrUncertain, err)
}

func classedAs(class, err error) error {
	for _, class := range [...]error{
		transparency.ErrUnavailable, transparency.ErrUncertain, transparency.ErrRejected,
		transparency.ErrDenied, transparency.ErrInvalid,
	} {
		if errors.Is(err, class) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", class, err)
}

// ours returns an error of a call that the Registry made for itself, with ctx.
// The end of that context is not the end of anyone else's.
func ours(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	class := transparency.ErrUnavailable
	if errors.Is(err, transparency.ErrUncertain) {
		class = transparency.ErrUncertain
	}
	return fmt.Errorf("%w: no reply in time", class)
}
