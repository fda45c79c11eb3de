package relocation

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// DefaultSpread is the time over which clients leave a Hub that drains.
	DefaultSpread = 10 * time.Second
	// DefaultDeadline is when those are dropped that are still there.
	DefaultDeadline = 30 * time.Second
)

// DrainOptions configures [Hub.Drain]. Nil is fine.
type DrainOptions struct {
	// Targets are the addresses of instances to go to, in the form that the
	// clients' Dialer takes, each at most 256 bytes. Without any, clients ask
	// for addresses as they do after a loss.
	Targets []string

	// ReadyDelay is how long to wait after Ready has become false, so that
	// load balancers see it before the clients come back. Zero means not at
	// all.
	ReadyDelay time.Duration

	// Spread is the time over which the clients leave, each at a moment of its
	// own. Zero means [DefaultSpread]; negative means that all leave at once.
	Spread time.Duration

	// Deadline is when the clients that are still there are dropped, counted
	// from when they were asked to go. Zero means [DefaultDeadline]. The
	// deadline of Drain's ctx counts if it is earlier.
	Deadline time.Duration
}

// draining is what clients are told while a Hub drains.
type draining struct {
	targets []string
	spread  time.Duration
	until   time.Time
}

// locations returns some targets, in another order each time.
func (d *draining) locations() []string {
	targets := slices.Clone(d.targets)
	rand.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	return targets[:min(len(targets), maxLocations)]
}

// Drain moves all clients elsewhere. In this order: Ready becomes false, and
// who opens a transport from now on is told where to go instead; after
// ReadyDelay each client is asked to leave within Spread; each that leaves has
// its messages handled and committed, and its session released; who is still
// there at Deadline is dropped, which ends no session.
//
// Drain returns nil when no session is attached any more. When ctx ends
// before, those that are left are dropped, and the error is that of ctx. The
// Hub stays as it is then: it only remains to close it. [ErrClosed] says that
// this has been done meanwhile.
func (h *Hub) Drain(ctx context.Context, opts *DrainOptions) error {
	if err := h.unusable(); err != nil {
		return hubError("drain", err)
	}
	var o DrainOptions
	if opts != nil {
		o = *opts
	}
	for _, t := range o.Targets {
		if len(t) > maxText || t == "" {
			return hubError("drain", invalid("a target has %d bytes, not from 1 to %d", len(t), maxText))
		}
	}
	if !h.begin() {
		return hubError("drain", ErrClosed)
	}
	defer h.tasks.Done()
	err := h.moveAll(ctx, o)
	if err == nil && h.ctx.Err() != nil {
		err = ErrClosed
	}
	if err != nil {
		return hubError("drain", err)
	}
	return nil
}

func (h *Hub) moveAll(ctx context.Context, o DrainOptions) error {
	if o.Spread == 0 {
		o.Spread = DefaultSpread
	}
	if o.Deadline <= 0 {
		o.Deadline = DefaultDeadline
	}
	if o.Deadline > maxOption {
		o.Deadline = maxOption
	}
	d := &draining{targets: slices.Clone(o.Targets)}
	h.mu.Lock()
	h.drain = d
	h.mu.Unlock()
	if o.ReadyDelay > 0 && !h.sleep(ctx, o.ReadyDelay) {
		h.dropAll()
		return ctx.Err()
	}
	// Who drops clients only when ctx ends has no time left to tell them.
	until := time.Now().Add(o.Deadline)
	if end, ok := ctx.Deadline(); ok {
		until = earlier(until, end.Add(-min(time.Until(end)/10, time.Second)))
	}
	asked := &draining{targets: d.targets, until: until}
	asked.spread = min(max(o.Spread, 0), time.Until(until)*3/4)
	h.mu.Lock()
	sessions := h.list()
	h.mu.Unlock()
	for _, s := range sessions {
		s.goAway(asked)
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	due := timer.C
	for {
		gone := h.empty()
		if gone == nil {
			return nil
		}
		select {
		case <-gone:
			return nil
		case <-due:
			h.dropAll()
			due = nil
		case <-ctx.Done():
			h.dropAll()
			return ctx.Err()
		case <-h.ctx.Done():
			return nil
		}
	}
}

// empty returns what is closed when there is no session, or nil when there is
// none.
func (h *Hub) empty() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) == 0 {
		return nil
	}
	if h.gone == nil {
		h.gone = make(chan struct{})
	}
	return h.gone
}

// dropAll tells the sessions that time is up.
func (h *Hub) dropAll() {
	h.mu.Lock()
	sessions := h.list()
	h.mu.Unlock()
	for _, s := range sessions {
		s.mu.Lock()
		s.leave(sessionEnd{cause: errDrained, last: s.finalGoAway, code: CloseRestart, grace: true})
		s.mu.Unlock()
	}
}

// sleep reports whether d has passed, and neither ctx nor the Hub ended before.
func (h *Hub) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-h.ctx.Done():
	}
	return false
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
