package replica

import (
	"context"
	"fmt"
	"maps"
	"time"
)

// A Fault is what is wrong with a [MemoryNode].
type Fault uint8

// The faults.
const (
	FaultNone     Fault = iota
	FaultDown           // refuses connections
	FaultHang           // does not answer; does what it was sent when it is healed
	FaultLost           // does what it is sent, and loses the answer
	FaultNotReady       // says that it is loading
	FaultOverload       // says that it has no room
)

// String returns the name of the fault in lower case.
func (f Fault) String() string {
	return name(int(f), "none", "down", "hang", "lost", "not ready", "overload")
}

// A MemoryNode is one node of a [MemoryCluster], and what callbacks get as
// its client: a map of strings.
type MemoryNode struct {
	cluster *MemoryCluster
	name    string

	// Guarded by the cluster's mu.
	role     Role
	data     map[string]string
	history  *history
	applied  uint64 // offset
	latency  time.Duration
	lag      time.Duration
	fault    Fault
	faultAt  time.Time
	healed   chan struct{} // closed when the fault changes
	pending  []func(time.Time)
	cut      bool
	cutAt    time.Time
	never    bool // lost its data and has not got it again
	executed int
}

// Get returns the value of key, and whether there is one, as far as the node
// knows.
func (n *MemoryNode) Get(ctx context.Context, key string) (value string, ok bool, err error) {
	err = n.do(ctx, func(n *MemoryNode, now time.Time) error {
		n.catchUp(now)
		value, ok = n.data[key]
		return nil
	})
	if err != nil {
		return "", false, err
	}
	return value, ok, nil
}

// Set sets key to value. A replica refuses.
func (n *MemoryNode) Set(ctx context.Context, key, value string) error {
	return n.do(ctx, func(n *MemoryNode, now time.Time) error {
		if n.role != RolePrimary {
			return &memoryError{class: ClassMisrouted, text: "this node is a replica"}
		}
		h := n.history
		if len(h.log) == maxLog {
			drop := maxLog / 2
			h.base += uint64(drop)
			h.log = append([]entry(nil), h.log[drop:]...)
		}
		n.data[key] = value
		n.applied++
		n.executed++
		h.log = append(h.log, entry{key, value, now})
		return nil
	})
}

// Executed returns how many writes the node has executed.
func (n *MemoryNode) Executed() int {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return n.executed
}

// Name returns the node's name.
func (n *MemoryNode) Name() string { return n.name }

// SetFault says what is wrong with the node from now on.
func (n *MemoryNode) SetFault(f Fault) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.fault, n.faultAt = f, time.Now()
	close(n.healed)
	n.healed = make(chan struct{})
	if f == FaultHang {
		return
	}
	for _, fn := range n.pending {
		fn(n.faultAt)
	}
	n.pending = nil
}

// SetLatency says how long every operation takes from now on.
func (n *MemoryNode) SetLatency(d time.Duration) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.latency = d
}

// SetLag says how long writes take to the node from now on.
func (n *MemoryNode) SetLag(d time.Duration) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.lag = d
}

// SetLink joins the node to its primary or cuts it off: it gets no more writes
// and answers with what it has.
func (n *MemoryNode) SetLink(up bool) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.catchUp(time.Now())
	n.cut, n.cutAt = !up, time.Now()
}

// Wipe takes the data away from a replica, as a restart without a disk does.
// It copies all from its primary as soon as it is linked, and until then it
// answers as if nothing had ever been written.
func (n *MemoryNode) Wipe() {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if n.role == RoleReplica {
		n.data, n.applied, n.never = map[string]string{}, 0, true
	}
}

// Rejoin makes the node a replica of the current primary, which it copies.
// What it had alone is lost.
func (n *MemoryNode) Rejoin() {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if p := n.cluster.current(); p != nil && p != n {
		n.follow(p)
	}
}

// String names the node.
func (n *MemoryNode) String() string { return "replica.MemoryNode(" + n.name + ")" }

// Format writes String, whatever the verb.
func (n *MemoryNode) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, n.String()) }

// do runs one operation after the node's latency, unless its fault is in the
// way. op is called with the cluster's lock.
func (n *MemoryNode) do(ctx context.Context, op func(*MemoryNode, time.Time) error) error {
	c := n.cluster
	c.mu.Lock()
	latency := n.latency
	c.mu.Unlock()
	if err := pause(ctx, latency); err != nil {
		return err
	}
	for {
		c.mu.Lock()
		fault, healed := n.fault, n.healed
		if fault != FaultHang {
			err := n.answer(fault, op)
			c.mu.Unlock()
			return err
		}
		c.mu.Unlock()
		select {
		case <-healed:
		case <-ctx.Done():
			c.mu.Lock()
			defer c.mu.Unlock()
			if n.fault == FaultHang { // it has been sent, and lies there
				n.pending = append(n.pending, func(now time.Time) { _ = op(n, now) })
			}
			return ctx.Err()
		}
	}
}

// answer requires the cluster's mu.
func (n *MemoryNode) answer(fault Fault, op func(*MemoryNode, time.Time) error) error {
	switch fault {
	case FaultDown:
		return &memoryError{class: ClassDown, text: "connection refused"}
	case FaultNotReady:
		return &memoryError{class: ClassNotReady, text: "loading"}
	case FaultOverload:
		return &memoryError{class: ClassOverload, text: "too many connections"}
	}
	err := op(n, time.Now())
	if fault == FaultLost && err == nil {
		return &memoryError{class: ClassUnknown, text: "connection reset", done: true}
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// silent reports whether the node gets and sends no replication.
func (n *MemoryNode) silent() bool { return n.fault == FaultDown || n.fault == FaultHang }

// primary returns whom the node follows, or nil. Requires the cluster's mu.
func (n *MemoryNode) primary() *MemoryNode {
	for _, p := range n.cluster.nodes {
		if p.role == RolePrimary && p.history == n.history {
			return p
		}
	}
	return nil
}

// follow requires the cluster's mu.
func (n *MemoryNode) follow(p *MemoryNode) {
	n.role, n.history, n.never = RoleReplica, p.history, false
	n.data, n.applied = maps.Clone(p.data), p.applied
}

// catchUp applies what has come from the primary by now. Requires the
// cluster's mu.
func (n *MemoryNode) catchUp(now time.Time) {
	p := n.primary()
	if n.role != RoleReplica || p == nil || n.linkDown(now) > 0 || n.cut {
		return
	}
	h := n.history
	if n.never || n.applied < h.base {
		n.follow(p)
		return
	}
	for _, e := range h.log[n.applied-h.base:] {
		if now.Sub(e.at) < n.lag {
			return
		}
		n.data[e.key] = e.value
		n.applied++
	}
}

// linkDown is as [Status.LinkDown]. Requires the cluster's mu.
func (n *MemoryNode) linkDown(now time.Time) time.Duration {
	p := n.primary()
	down := time.Duration(0)
	if n.cut {
		down = max(now.Sub(n.cutAt), 1)
	}
	if p != nil && p.silent() {
		down = max(down, now.Sub(p.faultAt), 1)
	}
	if n.never && down > 0 {
		return -1
	}
	return down
}
