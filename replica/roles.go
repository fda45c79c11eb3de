package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A view is what calls choose from. It is never changed, only replaced.
type view[C any] struct {
	readers []*node[C] // replicas in use
	primary *node[C]
	reason  error // why there is no primary
	round   bool  // every node has been asked
}

// recompute takes what is known of the nodes into a new view, and tells of
// what has changed. Requires p.mu.
func (p *Pool[C]) recompute(now time.Duration) {
	v := &view[C]{round: true}
	v.primary, v.reason = p.elect()
	p.measure(v.primary, now)
	replicas, suspects := 0, []*node[C](nil)
	for _, n := range p.nodes {
		if n.ended == 0 {
			v.round = false
		}
		p.judge(n, now)
		if n.role == RolePrimary {
			continue
		}
		replicas++
		switch n.state {
		case StateUp:
			v.readers = append(v.readers, n)
		case StateEjected:
			if p.unfit(n, now) == nil {
				suspects = append(suspects, n)
			}
		}
	}
	// With less than half of the replicas left, those that failed lately and
	// answer now are better than the load of all on the few.
	if 2*len(v.readers) < replicas {
		v.readers = append(v.readers, suspects...)
	}
	p.view.Store(v)
	p.tell()
}

// judge brings the state of a node up to date. Requires p.mu.
func (p *Pool[C]) judge(n *node[C], now time.Duration) {
	unfit := p.unfit(n, now)
	switch {
	case n.ended == 0 || n.role == RoleUnknown && !n.dead && !n.unready:
		n.enter(StateUnknown)
	case n.dead:
		n.enter(StateDown)
	case unfit != nil:
		n.err, n.class = unfit, ClassNotReady
		n.enter(StateNotReady)
	case n.ejected:
		n.enter(StateEjected)
	default:
		n.err = nil
		n.enter(StateUp)
	}
}

// unfit returns why a node that answers cannot serve in its role, or nil.
// Requires p.mu.
func (p *Pool[C]) unfit(n *node[C], now time.Duration) error {
	if n.unready || now < n.coolUntil {
		return n.err
	}
	apart, limit := n.status.LinkDown, p.opts.MaxLinkDown
	switch {
	case n.role != RoleReplica:
		return nil
	case apart < 0:
		return errNoData
	case limit >= 0 && apart > limit:
		return fmt.Errorf("without its primary for more than %v", limit)
	case limit >= 0 && n.strayed != unknown && now-time.Duration(n.strayed) > limit:
		return fmt.Errorf("in another history than the primary for more than %v", limit)
	}
	return nil
}

var errNoData = errors.New("a replica that never had its primary's data")

// enter requires p.mu of the pool.
func (n *node[C]) enter(s State) {
	switch was := n.state; {
	case s == was:
	case s == StateUp:
		n.out = make(chan struct{})
	case was == StateUp:
		close(n.out)
	}
	n.state = s
}

// A lineage remembers which histories were left behind, the last few of them.
type lineage struct{ ended []string }

func (l *lineage) end(epoch string) {
	if epoch == "" || slices.Contains(l.ended, epoch) {
		return
	}
	if len(l.ended) == 32 {
		l.ended = l.ended[1:]
	}
	l.ended = append(l.ended, epoch)
}

// elect returns the primary, or why there is none. Of two that claim to be,
// it is the one whose history branched from the other's; a primary that was
// cut off while another was promoted goes on claiming. Requires p.mu.
func (p *Pool[C]) elect() (*node[C], error) {
	var claimants []*node[C]
	for _, n := range p.nodes {
		if n.role == RolePrimary && n.ended != 0 && !n.dead && !n.unready {
			claimants = append(claimants, n)
			p.history.end(n.status.Previous)
		}
	}
	if len(claimants) > 1 {
		claimants = slices.DeleteFunc(claimants, func(n *node[C]) bool {
			return n.status.Epoch != "" && slices.Contains(p.history.ended, n.status.Epoch)
		})
		if len(claimants) != 1 {
			return nil, ErrAmbiguousPrimary
		}
	}
	if len(claimants) == 0 {
		return nil, ErrNoPrimary
	}
	return claimants[0], nil
}

// await waits for probes to end until cond accepts the view. cond is called
// with p.mu.
func (p *Pool[C]) await(ctx context.Context, cond func(*view[C]) bool) error {
	for {
		p.mu.Lock()
		changed, ok := p.changed, cond(p.view.Load())
		p.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.ctx.Done():
			return ErrClosed
		}
	}
}

// refresh asks every node what it is and returns when a primary other than
// old is known, or all have answered or run out of time.
func (p *Pool[C]) refresh(ctx context.Context, old *node[C]) error {
	p.mu.Lock()
	want := make([]uint64, len(p.nodes)) // the first probe of each that begins from now on
	for i, n := range p.nodes {
		want[i] = n.begun + 1
	}
	p.mu.Unlock()
	for _, n := range p.nodes {
		n.poke()
	}
	return p.await(ctx, func(v *view[C]) bool {
		all := true
		for i, n := range p.nodes {
			fresh := n.ended >= want[i]
			if fresh && n == v.primary && n != old {
				return true
			}
			all = all && fresh
		}
		return all
	})
}
