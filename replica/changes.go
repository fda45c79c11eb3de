package replica

import (
	"context"
	"iter"
	"time"
)

// A Change is a change of a node's role or state.
type Change struct {
	Node            string
	OldRole, Role   Role
	OldState, State State
	At              time.Time
	Err             error // why the node is not up; nil if it is
}

// Changes returns the changes of nodes after this call, in order and none left
// out, as they come. It ends with ctx, or with the pool. The loop may do
// anything with the pool, and be slow: nobody waits for it.
func (p *Pool[C]) Changes(ctx context.Context) iter.Seq[Change] {
	if !p.made() {
		return func(func(Change) bool) {}
	}
	p.mu.Lock()
	start := p.last
	p.mu.Unlock()
	return func(yield func(Change) bool) {
		for l := start; ; {
			select {
			case <-l.done:
			case <-ctx.Done():
				return
			case <-p.ctx.Done():
				return
			}
			if l = l.next; ctx.Err() != nil || !yield(l.Change) {
				return
			}
		}
	}
}

// A link is one change in the chain of all. What no reader holds is forgotten.
type link struct {
	Change
	done chan struct{} // closed when there is a next
	next *link
}

// tell adds to the chain what has changed since it was last called. Requires
// p.mu, which is to be left by unlock.
func (p *Pool[C]) tell() {
	for _, n := range p.nodes {
		if n.role == n.told.role && n.state == n.told.state {
			continue
		}
		n.since = time.Now()
		next := &link{Change{
			Node: n.Name, OldRole: n.told.role, Role: n.role,
			OldState: n.told.state, State: n.state, At: n.since, Err: n.err,
		}, make(chan struct{}), nil}
		n.told.role, n.told.state = n.role, n.state
		p.last.next = next
		close(p.last.done)
		p.last = next
		p.unlogged = append(p.unlogged, next.Change)
	}
}

// unlock leaves p.mu and logs the changes that were made under it.
func (p *Pool[C]) unlock() {
	changes := p.unlogged
	p.unlogged = nil
	p.mu.Unlock()
	for _, c := range changes {
		log := p.opts.Logger.Info
		if c.State != StateUp {
			log = p.opts.Logger.Warn
		}
		log("a node of the pool changed", "node", c.Node, "role", c.Role.String(),
			"from", c.OldState.String(), "to", c.State.String(), "error", c.Err)
	}
}
