package location

import (
	"context"
	"time"
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
		v = &view{service: service, kick: make(chan struct{}, 1), changed: make(chan struct{})}
		r.views[service] = v
	}
	v.used = time.Now()
	return v, nil
}

// trim forgets the services that were not asked for longest, as long as more
// are remembered than may be. Names that lead to nothing do not count, so that
// made up ones displace none. It requires r.mu.
func (r *Registry) trim() {
	for len(r.views) > r.opts.MaxServices {
		kept := 0
		var oldest *view
		for _, v := range r.views {
			if v.watchers > 0 || len(v.good) > 0 {
				kept++
			}
			if v.watchers == 0 && len(v.good) > 0 && v.now == nil && (oldest == nil || v.used.Before(oldest.used)) {
				oldest = v
			}
		}
		if kept <= r.opts.MaxServices || oldest == nil {
			return
		}
		delete(r.views, oldest.service)
	}
}

// forget drops the view if there is nothing in it to keep. It requires r.mu.
func (r *Registry) forget(v *view) {
	if v.watchers == 0 && len(v.good) == 0 && v.now == nil && r.views[v.service] == v {
		delete(r.views, v.service)
	}
}

// readable returns the listing without what is no endpoint, and counts that.
func readable(l Listing) Listing {
	all := make([]Endpoint, 0, len(l.Endpoints))
	for _, e := range l.Endpoints {
		if e, err := e.checked(); err == nil && e.ID != "" {
			all = append(all, e)
		} else {
			l.Broken++
		}
	}
	l.Endpoints = all
	return l
}

// apply takes note of an answer, which is readable. It requires r.mu.
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
		if l.Broken > 0 {
			r.stats.Broken += uint64(l.Broken)
		}
		if v.live, err = arrange(l.Endpoints); err != nil {
			v.failure, v.failed = classed(err), time.Now()
			l.Version = ""
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
			if e.ID == o.ID || e.samePlace(o) {
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
