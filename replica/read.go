package replica

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-transparency/transparency"
)

// Read implements [ReplicaPool].
func (p *Pool[C]) Read(ctx context.Context, opts *ReadOptions, fn func(ctx context.Context, c C) error) error {
	var o ReadOptions
	if opts != nil {
		o = *opts
	}
	if err := p.check(ctx, fn == nil); err != nil {
		return failed("read", err)
	}
	setDefault(&o.Attempts, p.opts.Attempts)
	setDefault(&o.AttemptTimeout, p.opts.AttemptTimeout)
	p.counts.reads.Add(1)
	p.budget.add()
	// A read need not wait until all is known, unless it is particular.
	ready := func(v *view[C]) bool { return v.round || len(v.readers) > 0 && o.MaxLag <= 0 }
	if !ready(p.view.Load()) {
		if err := p.await(ctx, ready); err != nil {
			return failed("read", err)
		}
	}
	r := reading[C]{pool: p, opts: o}
	var few [DefaultAttempts]*node[C]
	r.filter.tried = few[:0]
	r.filter.maxLag = o.MaxLag
	for range max(o.Attempts, 1) {
		n, role := r.choose()
		if n == nil {
			break
		}
		if len(r.attempts) > 0 {
			p.counts.retries.Add(1)
		}
		a := r.try(ctx, n, role, fn)
		if a.Class == ClassApp {
			return a.Err
		}
		r.misrouted = a.Class == ClassMisrouted && role == RoleReplica
		r.filter.tried = append(r.filter.tried, n)
		r.attempts = append(r.attempts, a.Attempt)
		if p.ended(ctx) != nil {
			break
		}
	}
	return failed("read", r.failure(ctx))
}

// check says why a call cannot begin, and starts the probes if it is the first.
func (p *Pool[C]) check(ctx context.Context, noFn bool) error {
	switch {
	case noFn:
		return invalid("the callback is nil")
	case !p.made():
		return invalid("the pool was not made by New")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !p.start() {
		return ErrClosed
	}
	return nil
}

// A reading is one call of Read.
type reading[C any] struct {
	pool      *Pool[C]
	opts      ReadOptions
	filter    filter[C]
	attempts  []Attempt
	misrouted bool  // what was tried needs the primary
	reason    error // why there is no node (left)
	rejected  bool  // because the budget was spent
}

// choose returns the node to try next, and the role in which it is tried. With
// the primary, one is added to Pool.standIn.
func (r *reading[C]) choose() (*node[C], Role) {
	p := r.pool
	v := p.view.Load()
	r.filter.now = p.now()
	if !r.misrouted {
		if n := pick(v.readers, &r.filter); n != nil {
			return n, RoleReplica
		}
	}
	r.reason = ErrNoReplica
	if len(r.attempts) == 0 && len(v.readers) > 0 {
		r.reason = ErrTooStale
	}
	n := v.primary
	if n == nil || r.opts.NoPrimary || slices.Contains(r.filter.tried, n) {
		return nil, 0
	}
	if len(p.nodes) > 1 {
		if !p.mayStandIn(n) {
			r.rejected = true
			p.counts.overBudget.Add(1)
			return nil, 0
		}
		p.counts.toPrimary.Add(1)
	}
	p.standIn.Add(1)
	return n, RolePrimary
}

// try calls fn at the node that was chosen.
func (r *reading[C]) try(ctx context.Context, n *node[C], role Role, fn func(context.Context, C) error) verdict {
	if role == RolePrimary {
		defer r.pool.standIn.Add(-1) // also when fn panics
	}
	return r.pool.attempt(ctx, n, role, r.opts.AttemptTimeout, fn)
}

// mayStandIn reports whether one more read may go to the primary, and takes it
// out of the budget. Unless all may, reads have at most half of its places,
// so that writes have the rest.
func (p *Pool[C]) mayStandIn(primary *node[C]) bool {
	if !p.budget.all() && int(p.standIn.Load()) >= max(cap(primary.slots)/2, 1) {
		return false
	}
	return p.budget.spend()
}

// failure says why no node served the read.
func (r *reading[C]) failure(ctx context.Context) error {
	e := &AttemptsError{Reason: r.reason, Class: transparency.ErrUnavailable, Attempts: r.attempts, end: r.pool.ended(ctx)}
	if e.Reason == nil {
		e.Reason = ErrNoReplica
	}
	if e.end == ErrClosed { //nolint:errorlint // it is ours
		return ErrClosed
	}
	r.pool.addUntried(e, func(role Role) bool { return role != RolePrimary || len(r.pool.nodes) == 1 })
	switch {
	case r.rejected:
		e.Class = transparency.ErrRejected
	case allDenied(e.Attempts):
		e.Class = transparency.ErrDenied
	}
	return e
}

func allDenied(attempts []Attempt) bool {
	return len(attempts) > 0 && !slices.ContainsFunc(attempts, func(a Attempt) bool { return a.Class != ClassDenied })
}

// addUntried adds the nodes, of the roles asked for, that were not tried
// because they are not in use, and why.
func (p *Pool[C]) addUntried(e *AttemptsError, which func(Role) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.nodes {
		tried := slices.ContainsFunc(e.Attempts, func(a Attempt) bool { return a.Node == n.Name })
		if tried || n.state == StateUp || !which(n.role) {
			continue
		}
		class, err := n.class, n.err
		if err == nil { // it has answered, and is not fit
			class, err = ClassNotReady, errors.New(n.state.String())
		}
		e.Attempts = append(e.Attempts, Attempt{Node: n.Name, Class: class, Err: err})
	}
}

// describe returns what is known of a node. Requires p.mu.
func (p *Pool[C]) describe(n *node[C], now time.Duration) NodeStatus {
	s := NodeStatus{
		Name: n.Name, Role: n.role, State: n.state, Since: n.since, Err: n.err,
		Latency: time.Duration(n.meter.read(now)), InFlight: len(n.slots),
		Calls: n.calls.Load(), Failures: n.failures.Load(),
	}
	if n.role == RolePrimary {
		s.LagKnown = true
	} else if asOf := n.asOf.Load(); asOf != unknown {
		s.Lag, s.LagKnown = now-time.Duration(asOf), true
	}
	return s
}
