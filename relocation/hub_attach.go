package relocation

import (
	"context"
	"errors"
	"slices"
	"time"
)

// handoffPoll is how often an opening looks whether the owner has yielded. A
// Released usually comes before.
const handoffPoll = 100 * time.Millisecond

// attach makes this hub the owner of a session, and says when it sent the
// request that did. Another owner is given HandoffGrace to finish, or what
// remains of its lease, and then the session is taken from it.
func (h *Hub) attach(ctx context.Context, id string, claim Claim) (Snapshot, time.Time, error) {
	if err := h.yieldHere(ctx, id, claim); err != nil {
		return Snapshot{}, time.Time{}, err
	}
	wake := make(chan struct{}, 1)
	h.await(id, wake)
	defer h.awaitNoMore(id, wake)
	var deadline time.Time
	for {
		start := time.Now()
		snapshot, err := retryStore(ctx, func(ctx context.Context) (Snapshot, error) {
			start = time.Now()
			return h.store.Attach(ctx, id, claim)
		})
		var owned *OwnedError
		if !errors.As(err, &owned) || claim.Force {
			return snapshot, start, err
		}
		now := time.Now()
		if deadline.IsZero() {
			deadline = now.Add(min(max(h.opts.HandoffGrace, 0), owned.Remaining))
		}
		wait := min(deadline.Sub(now), handoffPoll)
		if wait <= 0 {
			claim.Force = true
			continue
		}
		if !sleepOr(ctx, wait, wake) {
			return Snapshot{}, start, ctx.Err()
		}
	}
}

// yieldHere lets a session of this hub finish, as attach does with another
// hub's. The store would not ask it: the owner is the same. So what the store
// checks before it asks is checked here.
func (h *Hub) yieldHere(ctx context.Context, id string, claim Claim) error {
	old := h.session(id)
	if old == nil {
		return nil
	}
	if err := old.yieldTo(claim); err != nil {
		return err
	}
	if h.opts.HandoffGrace > 0 && !sleepOr(ctx, h.opts.HandoffGrace, old.done) {
		return ctx.Err()
	}
	return nil
}

// sleepOr waits for d, or until there is something in c, and reports whether
// ctx still lasts.
func sleepOr[T any](ctx context.Context, d time.Duration, c <-chan T) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c:
	case <-ctx.Done():
		return false
	}
	return true
}

// await has wake filled when the session was released.
func (h *Hub) await(id string, wake chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting[id] = append(h.waiting[id], wake)
}

func (h *Hub) awaitNoMore(id string, wake chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := slices.DeleteFunc(h.waiting[id], func(w chan struct{}) bool { return w == wake })
	if h.waiting[id] = rest; len(rest) == 0 {
		delete(h.waiting, id)
	}
}

// hear takes what the store sends to this hub. It does not block.
func (h *Hub) hear(e Event) {
	switch e.Kind {
	case Released:
		h.mu.Lock()
		for _, wake := range h.waiting[e.Session] {
			wakeUp(wake)
		}
		h.mu.Unlock()
	case Appended:
		h.mu.Lock()
		s, q := h.sessions[e.Session], h.senders[e.Session]
		if q != nil && e.Out > 0 {
			// Most likely its own. It looks when it has an answer.
			q.heard = max(q.heard, e.Out)
			s = nil
		}
		h.mu.Unlock()
		if s != nil {
			s.appended(e.Out)
		}
	case Yield:
		if s := h.session(e.Session); s != nil {
			s.yield(e.From, e.Generation)
		}
	case Missed:
		h.lookAgain()
	}
}
