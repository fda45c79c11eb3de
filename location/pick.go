package location

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
)

// A choice is what a service offers at one time. It does not change, but its
// nodes count.
type choice struct {
	nodes []*node // of the first priority; none if there is an error
	alias []slot
	stale bool
	err   error
}

// A node is an instance, with what its calls tell. It stays the same from one
// choice to the next for as long as the instance does.
type node struct {
	endpoint Endpoint
	addr     string
	weight   int64

	active atomic.Int64 // calls under way
	fails  atomic.Int64 // in a row
	sits   atomic.Int64 // how often it is still passed over
}

// A slot of Walker's table of aliases stands for its own node with a
// probability of keep/1<<32, and else for another (Vose, "A Linear Algorithm
// for Generating Random Numbers with a Given Distribution", IEEE TSE 1991).
type slot struct {
	keep  uint64
	other int
}

func newChoice(last *choice, s Snapshot, err error) *choice {
	first := s.firstTier()
	if err == nil && len(first) == 0 {
		err = ErrNoInstances
	}
	if err != nil {
		return &choice{err: err}
	}
	known := make(map[string]*node)
	if last != nil {
		for _, n := range last.nodes {
			known[n.endpoint.ID] = n
		}
	}
	c := &choice{stale: s.stale, nodes: make([]*node, len(first))}
	weights := make([]uint64, len(first))
	for i, e := range first {
		n := known[e.ID]
		if n == nil || !n.endpoint.equal(e) {
			n = &node{endpoint: e.clone(), addr: e.Addr(), weight: int64(e.weight())}
		}
		c.nodes[i], weights[i] = n, uint64(e.weight())
	}
	c.alias = aliases(weights)
	return c
}

// aliases builds the table in whole numbers: every slot holds total, and there
// are n of weights[i] for node i.
func aliases(weights []uint64) []slot {
	n := uint64(len(weights))
	var total uint64
	left := make([]uint64, n)
	for i, w := range weights {
		total += w
		left[i] = w * n
	}
	table := make([]slot, n)
	var small, large []int
	for i, l := range left {
		if l < total {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		table[s] = slot{left[s] << 32 / total, l}
		if left[l] -= total - left[s]; left[l] < total {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, i := range append(small, large...) {
		table[i] = slot{1 << 32, i}
	}
	return table
}

// draw returns the index of a node, by weight.
func (c *choice) draw() int {
	r := rand.Uint64()
	i := int(r >> 32 * uint64(len(c.alias)) >> 32)
	if s := &c.alias[i]; r&(1<<32-1) >= s.keep {
		return s.other
	}
	return i
}

// pick requires a node.
func (c *choice) pick() Picked {
	i := c.draw()
	n := c.nodes[i]
	if len(c.nodes) > 1 {
		j := c.draw()
		if j == i { // another one, any
			j = (i + 1 + rand.IntN(len(c.nodes)-1)) % len(c.nodes)
		}
		n = better(n, c.nodes[j])
	}
	n.active.Add(1)
	return Picked{node: n, stale: c.stale}
}

// better returns a, unless b has fewer calls under way for its weight or a
// sits out.
func better(a, b *node) *node {
	sitsA, sitsB := a.sits.Load() > 0, b.sits.Load() > 0
	switch {
	case sitsA && !sitsB:
		a.sits.Add(-1)
		return b
	case sitsB && !sitsA:
		b.sits.Add(-1)
		return a
	case b.active.Load()*a.weight < a.active.Load()*b.weight:
		return b
	}
	return a
}

// Picked is an instance that a call goes to.
type Picked struct {
	node  *node
	stale bool
}

// Endpoint returns where the instance is reached, of the zero Picked the zero
// Endpoint.
func (p Picked) Endpoint() Endpoint {
	if p.node == nil {
		return Endpoint{}
	}
	return p.node.endpoint.clone()
}

// Addr returns the instance's host:port, of the zero Picked nothing.
func (p Picked) Addr() string {
	if p.node == nil {
		return ""
	}
	return p.node.addr
}

// Stale reports whether the instance is the last that was known, because the
// source does not answer.
func (p Picked) Stale() bool { return p.stale }

// Done says that the call is over and what came of it. An error makes the
// instance sit out for a while, except [context.Canceled], which is the
// caller's own doing and says nothing. It must be called once.
func (p Picked) Done(err error) {
	n := p.node
	if n == nil {
		return
	}
	n.active.Add(-1)
	switch {
	case err == nil:
		if n.fails.Load() != 0 { // so that it is not written each time
			n.fails.Store(0)
			n.sits.Store(0)
		}
	case !errors.Is(err, context.Canceled):
		n.sits.Store(8 << min(n.fails.Add(1)-1, 7))
	}
}
