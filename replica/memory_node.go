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
	pending  []func(time.Time)
	cut      bool
	cutAt    time.Time
	never    bool // lost its data and has not got it again
	executed int
}

// made reports whether n is a node of a cluster.
func (n *MemoryNode) made() bool { return n != nil && n.cluster != nil }

// Get returns the value of key, and whether there is one, as far as the node
// knows.
func (n *MemoryNode) Get(ctx context.Context, key string) (value string, ok bool, err error) {
	type found struct {
		value string
		ok    bool
	}
	f, err := do(ctx, n, func(now time.Time) (found, error) {
		n.catchUp(now)
		value, ok := n.data[key]
		return found{value, ok}, nil
	})
	if err != nil {
		return "", false, err
	}
	return f.value, f.ok, nil
}

// Set sets key to value. A replica refuses.
func (n *MemoryNode) Set(ctx context.Context, key, value string) error {
	_, err := do(ctx, n, func(now time.Time) (struct{}, error) {
		if n.role != RolePrimary {
			return struct{}{}, &memoryError{class: ClassMisrouted, text: "this node is a replica"}
		}
		h := n.history
		if len(h.log) == maxLog {
			h.base += maxLog / 2
			h.log = append([]entry(nil), h.log[maxLog/2:]...)
		}
		n.data[key] = value
		n.applied++
		n.executed++
		h.log = append(h.log, entry{key, value, now})
		return struct{}{}, nil
	})
	return err
}

// Executed returns how many writes the node has executed.
func (n *MemoryNode) Executed() int {
	if !n.made() {
		return 0
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return n.executed
}

// Name returns the node's name.
func (n *MemoryNode) Name() string {
	if !n.made() {
		return ""
	}
	return n.name
}

// SetFault says what is wrong with the node from now on.
func (n *MemoryNode) SetFault(f Fault) {
	if !n.made() {
		return
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.fault, n.faultAt = f, time.Now()
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
	if !n.made() {
		return
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.latency = d
}

// SetLag says how long writes take to the node from now on.
func (n *MemoryNode) SetLag(d time.Duration) {
	if !n.made() {
		return
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.lag = d
}

// SetLink joins the node to its primary or cuts it off: it gets no more writes
// and answers with what it has.
func (n *MemoryNode) SetLink(up bool) {
	if !n.made() {
		return
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.catchUp(time.Now())
	n.cut, n.cutAt = !up, time.Now()
}

// Wipe takes the data away from a replica, as a restart without a disk does.
// It copies all from its primary as soon as it is linked, and until then it
// answers as if nothing had ever been written.
func (n *MemoryNode) Wipe() {
	if !n.made() {
		return
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if n.role == RoleReplica {
		n.data, n.applied, n.never = map[string]string{}, 0, true
	}
}

// Rejoin makes the node a replica of the current primary, which it copies.
// What it had alone is lost.
func (n *MemoryNode) Rejoin() {
	if !n.made() {
		return
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if p := n.cluster.current(); p != nil && p != n {
		n.follow(p)
	}
}

// String names the node.
func (n *MemoryNode) String() string { return "replica.MemoryNode(" + n.Name() + ")" }

// Format writes String, whatever the verb.
func (n *MemoryNode) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, n.String()) }

// do runs one operation after the node's latency, unless its fault is in the
// way. op is called with the cluster's lock. What a node that hangs was sent
// is done when it is healed, whether anybody waits for it or not.
func do[T any](ctx context.Context, n *MemoryNode, op func(now time.Time) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var zero T
	if !n.made() {
		return zero, invalid("a MemoryNode that is none of a cluster's")
	}
	c := n.cluster
	c.mu.Lock()
	latency := n.latency
	c.mu.Unlock()
	if err := pause(ctx, latency); err != nil {
		return zero, err
	}
	done := make(chan result, 1)
	answer := func(now time.Time) {
		value, err := zero, n.refusal()
		if err == nil {
			value, err = op(now)
		}
		if err == nil && n.fault == FaultLost {
			err = &memoryError{class: ClassUnknown, text: "connection reset", done: true}
		}
		done <- result{value, err}
	}
	c.mu.Lock()
	if n.fault == FaultHang {
		n.pending = append(n.pending, answer)
	} else {
		answer(time.Now())
	}
	c.mu.Unlock()
	select {
	case r := <-done:
		return r.value, r.err
	default:
	}
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return zero, ctx.Err()
	}
}

// refusal is why the node does nothing, or nil. Requires the cluster's mu.
func (n *MemoryNode) refusal() error {
	switch n.fault {
	case FaultDown:
		return &memoryError{class: ClassDown, text: "connection refused"}
	case FaultNotReady:
		return &memoryError{class: ClassNotReady, text: "loading"}
	case FaultOverload:
		return &memoryError{class: ClassOverload, text: "too many connections"}
	}
	return nil
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
