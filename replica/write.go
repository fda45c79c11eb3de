package replica

import (
	"context"
	"time"

	"github.com/go-transparency/transparency"
)

// Write implements [ReplicaPool].
func (p *Pool[C]) Write(ctx context.Context, opts *WriteOptions, fn func(ctx context.Context, c C) error) error {
	var o WriteOptions
	if opts != nil {
		o = *opts
	}
	if err := p.check(ctx, fn == nil); err != nil {
		return failed("write", err)
	}
	setDefault(&o.AttemptTimeout, p.opts.AttemptTimeout)
	p.counts.writes.Add(1)
	if v := p.view.Load(); !v.settled() {
		if err := p.await(ctx, (*view[C]).settled); err != nil {
			return failed("write", err)
		}
	}
	w := writing[C]{pool: p, opts: o}
	for w.more() {
		a := p.attempt(ctx, w.node, RolePrimary, o.AttemptTimeout, fn)
		if a.Class == ClassApp && (a.Err == nil || !w.maybe) {
			return a.Err
		}
		if a.Class == ClassApp {
			a.Err = p.show(a.Err)
		}
		w.maybe = w.maybe || a.sent
		w.attempts = append(w.attempts, a.Attempt)
		if !w.again(ctx, a.Class) {
			break
		}
	}
	return failed("write", w.failure(ctx))
}

// settled reports whether a write need not wait for more to be known.
func (v *view[C]) settled() bool { return v.round || v.primary != nil }

// A writing is one call of Write.
type writing[C any] struct {
	pool     *Pool[C]
	opts     WriteOptions
	node     *node[C] // to write to
	attempts []Attempt
	maybe    bool // it may have been executed
	reason   error
}

// more finds the node to write to.
func (w *writing[C]) more() bool {
	v := w.pool.view.Load()
	w.node, w.reason = v.primary, v.reason
	if w.node != nil && len(w.attempts) > 0 {
		w.pool.counts.retries.Add(1)
	}
	return w.node != nil
}

// again reports whether the write may be made once more after a failure, and
// has somewhere to go. A write that was certainly not executed is made once
// more, by a fresh look at the roles; one that may have been, only if twice is
// as good as once.
func (w *writing[C]) again(ctx context.Context, class Class) bool {
	p, old := w.pool, w.node
	tries := 2
	if w.opts.Idempotent {
		tries = max(p.opts.Attempts, tries)
	}
	if len(w.attempts) >= tries || w.maybe && !w.opts.Idempotent ||
		class == ClassCaller || class == ClassApp || class == ClassOverload {
		return false
	}
	// Time beyond a probe's own is not worth waiting for.
	ctx, cancel := context.WithTimeout(ctx, p.opts.ProbeTimeout+100*time.Millisecond)
	defer cancel()
	if p.refresh(ctx, old) != nil {
		return false
	}
	next := p.view.Load().primary
	switch {
	case next == nil:
		return true // more says why not
	case next != old:
		return true
	}
	// It says still, or again, that it is the primary, and answers.
	return class == ClassDown || class == ClassUnknown
}

// failure says why the write failed.
func (w *writing[C]) failure(ctx context.Context) error {
	p := w.pool
	e := &AttemptsError{Reason: w.reason, Class: transparency.ErrUnavailable, Attempts: w.attempts, end: p.ended(ctx)}
	if e.Reason == nil {
		e.Reason = ErrNoPrimary
	}
	if w.node == nil {
		p.addUntried(e, func(role Role) bool { return role != RoleReplica })
	}
	switch {
	case w.maybe:
		e.Reason, e.Class = ErrMaybeExecuted, transparency.ErrUncertain
		p.counts.maybe.Add(1)
	case e.end == ErrClosed: //nolint:errorlint // it is ours
		return ErrClosed
	case allDenied(e.Attempts):
		e.Class = transparency.ErrDenied
	}
	return e
}
