package location

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency"
)

// A view is what the Registry remembers of one service. It is guarded by the
// Registry's mu.
type view struct {
	service string
	used    time.Time

	// What the store last said.
	listing Listing    // Endpoints apart
	live    []Endpoint // in order
	asOf    time.Time  // when that was asked for
	failure error      // of the last look; nil if it was answered
	failed  time.Time  // when it failed

	// The last known good set. It is what is served when the store does not
	// answer, or has lost the endpoints.
	good      []Endpoint
	goodAsOf  time.Time
	goodEpoch string

	// Endpoints of the good set that have not come back, after all were gone.
	missing      []Endpoint
	missingAsOf  time.Time
	missingUntil time.Time

	// Looks at the store. One is under way at a time; whoever asks meanwhile
	// shares the next, so that each answer is newer than its question.
	now, next *flight

	// Watching.
	watchers int
	stop     context.CancelFunc // of the poller
	kick     chan struct{}
	told     *event        // the last event; nil before the poller's first look
	changed  chan struct{} // closed when another event is told
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

// find returns the view of a service. It requires r.mu.
func (r *Registry) find(service string) (*view, error) {
	switch {
	case r.err != nil:
		return nil, r.err
	case r.closed:
		return nil, ErrClosed
	}
	v, ok := r.views[service]
	if !ok {
		if len(r.views) >= r.opts.MaxServices && !r.evict() {
			return nil, fmt.Errorf("%w: %d services are watched already", transparency.ErrRejected, len(r.views))
		}
		v = &view{service: service, kick: make(chan struct{}, 1), changed: make(chan struct{})}
		r.views[service] = v
	}
	v.used = time.Now()
	return v, nil
}

// evict forgets the service that was not asked for longest, and reports
// whether there was one. Who waits for its flight is served all the same. It
// requires r.mu.
func (r *Registry) evict() bool {
	var oldest *view
	for _, v := range r.views {
		if v.watchers == 0 && (oldest == nil || v.used.Before(oldest.used)) {
			oldest = v
		}
	}
	if oldest == nil {
		return false
	}
	delete(r.views, oldest.service)
	return true
}

// forget drops the view if there is nothing in it to keep. It requires r.mu.
func (r *Registry) forget(v *view) {
	if v.watchers == 0 && len(v.good) == 0 && v.now == nil && r.views[v.service] == v {
		delete(r.views, v.service)
	}
}

// look returns the next flight, which begins at once or after the present one,
// and has one more waiter. It requires r.mu, and that the Registry is not
// closed.
func (r *Registry) look(v *view) *flight {
	if v.next == nil {
		v.next = &flight{done: make(chan struct{})}
		v.next.ctx, v.next.cancel = context.WithTimeout(r.ctx, r.opts.Timeout)
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
const maxAside = 32

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
		asked := time.Now()
		listing, err := r.driver.List(f.ctx, v.service, known)
		f.cancel()
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
}

// unanswered takes note of a look that was given up. It says nothing of the
// store, but the next to ask can be served what is known.
func (v *view) unanswered() {
	if len(v.good) > 0 && v.failure == nil {
		v.failure = fmt.Errorf("%w: no reply in time", transparency.ErrUnavailable)
		v.failed = time.Now().Add(-askAgain)
	}
}

// apply takes note of an answer. It requires r.mu.
func (r *Registry) apply(v *view, l Listing, err error, asked time.Time) {
	r.stats.Lookups++
	if err != nil {
		r.stats.LookupsFailed++
		v.failure, v.failed = classed(err), time.Now()
		return
	}
	v.failure = nil
	v.asOf = asked
	if l.Same {
		l.Version = v.listing.Version
	} else {
		v.live = make([]Endpoint, 0, len(l.Endpoints))
		for _, e := range l.Endpoints {
			if e, err := e.checked(); err == nil && e.ID != "" {
				v.live = append(v.live, e)
			} else {
				l.Broken++
			}
		}
		if v.live, err = arrange(v.live); err != nil {
			v.failure, v.failed = classed(err), time.Now()
			l.Version = ""
		}
		if l.Broken > 0 {
			r.stats.Broken += uint64(l.Broken)
			r.opts.Logger.Warn("location: endpoints that cannot be read are left out", "service", v.service, "count", l.Broken)
		}
	}
	l.Endpoints = nil
	v.listing = l
	v.settle(time.Now(), r.opts.TTL*2/3)
}

// settle draws the conclusions of an answer: what is the last known good set,
// and what of it is missing.
func (v *view) settle(now time.Time, patience time.Duration) {
	l := &v.listing
	if len(v.live) == 0 {
		if l.Known && l.Emptied {
			v.good, v.missing = nil, nil
		}
		return
	}
	// All were gone, and not on purpose: the store lost them, or stood still
	// until their leases had run out. They come back one by one, and the first
	// must not get the load of all. One is not waited for: it has a successor.
	lost := v.goodEpoch != l.Epoch
	void := l.SinceVoid > 0 && l.SinceVoid < patience && now.Sub(v.goodAsOf) > l.SinceVoid
	if len(v.good) > 1 && (lost || void) {
		v.missing, v.missingAsOf, v.missingUntil = v.good, v.goodAsOf, now.Add(patience)
	}
	v.missing = without(v.missing, v.live)
	if !now.Before(v.missingUntil) {
		v.missing = nil
	}
	v.good, v.goodAsOf, v.goodEpoch = v.live, v.asOf, l.Epoch
	if len(v.missing) > 0 {
		all := append(append([]Endpoint(nil), v.live...), v.missing...)
		if all, err := arrange(all); err == nil {
			v.good = all
		}
	}
}

// without returns the endpoints of all that are in none of those, neither by
// ID nor by place.
func without(all, those []Endpoint) []Endpoint {
	var rest []Endpoint
next:
	for _, e := range all {
		for _, o := range those {
			if e.ID == o.ID || e.Scheme == o.Scheme && e.Host == o.Host && e.Port == o.Port {
				continue next
			}
		}
		rest = append(rest, e)
	}
	return rest
}

// event is what there is to say now. An empty service is no error of it.
func (v *view) event(now time.Time, opts *Options) event {
	l := &v.listing
	if v.failure == nil && len(v.live) > 0 {
		if len(v.missing) > 0 {
			return event{snapshot: Snapshot{v.good, v.missingAsOf, true}}
		}
		return event{snapshot: Snapshot{v.live, v.asOf, false}}
	}
	if len(v.good) > 0 && (opts.MaxStale < 0 || now.Sub(v.goodAsOf) < opts.MaxStale) {
		return event{snapshot: Snapshot{v.good, v.goodAsOf, true}}
	}
	v.good, v.missing = nil, nil
	switch {
	case v.failure != nil:
		return event{err: v.failure}
	case !l.Known:
		return event{err: ErrUnknownService}
	}
	return event{snapshot: Snapshot{asOf: v.asOf}}
}

// tell tells those who watch.
func (v *view) tell(e event) {
	news := v.told == nil || !e.same(*v.told)
	v.told = &e
	if news {
		close(v.changed)
		v.changed = make(chan struct{})
	}
}

// classed returns an error of a look with a class: nothing was changed.
func classed(err error) error {
	for _, class := range [...]error{
		transparency.ErrUnavailable, transparency.ErrUncertain, transparency.ErrRejected,
		transparency.ErrDenied, transparency.ErrInvalid,
	} {
		if errors.Is(err, class) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", transparency.ErrUnavailable, err)
}

// askAgain is how long a store that failed is left alone by those who can be
// served what was known.
const askAgain = time.Second

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
