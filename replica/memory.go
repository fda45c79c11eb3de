package replica

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-transparency/transparency"
)

// MemoryOptions configures a [MemoryCluster]. Nil is fine.
type MemoryOptions struct {
	// Replicas is how many replicas there are at first, beside one primary.
	// Zero means 2; negative means none.
	Replicas int

	// Latency is how long every operation takes, and Lag how long a write
	// takes to every replica. Zero means none; each node's can be changed.
	Latency, Lag time.Duration
}

// A MemoryCluster is a simulated database of one primary and its replicas: it
// lags, fails and fails over as told, and waits on nothing but channels and
// timers, so that it runs in a [testing/synctest] bubble. It implements
// [Backend] and is safe for concurrent use.
type MemoryCluster struct {
	mu        sync.Mutex // guards what follows, and the nodes
	nodes     []*MemoryNode
	histories int
}

var _ Backend[*MemoryNode] = (*MemoryCluster)(nil)

// A history is what one primary wrote after what it had when it was promoted.
type history struct {
	id, previous string
	base         uint64 // offset of the first entry
	log          []entry
}

type entry struct {
	key, value string
	at         time.Time
}

// maxLog bounds what a history remembers; who is further behind copies all.
const maxLog = 1 << 12

// NewMemoryCluster returns a cluster whose nodes are called "node-1", the
// primary, "node-2" and so on.
func NewMemoryCluster(opts *MemoryOptions) *MemoryCluster {
	var o MemoryOptions
	if opts != nil {
		o = *opts
	}
	setDefault(&o.Replicas, 2)
	c := &MemoryCluster{}
	first := c.newHistory("", 1)
	for i := range 1 + max(o.Replicas, 0) {
		n := &MemoryNode{
			cluster: c, name: "node-" + strconv.Itoa(i+1), role: RoleReplica,
			latency: o.Latency, lag: o.Lag,
			data: map[string]string{}, history: first, applied: first.base,
		}
		if i == 0 {
			n.role = RolePrimary
		}
		c.nodes = append(c.nodes, n)
	}
	return c
}

// newHistory requires c.mu, or that c is not shared yet.
func (c *MemoryCluster) newHistory(previous string, base uint64) *history {
	c.histories++
	return &history{id: "history-" + strconv.Itoa(c.histories), previous: previous, base: base}
}

// Nodes returns the nodes as [New] takes them, in order.
func (c *MemoryCluster) Nodes() []Node[*MemoryNode] {
	if c == nil {
		return nil
	}
	list := make([]Node[*MemoryNode], len(c.nodes))
	for i, n := range c.nodes {
		list[i] = Node[*MemoryNode]{Name: n.name, Client: n}
	}
	return list
}

// Node returns the node of that name, or nil.
func (c *MemoryCluster) Node(name string) *MemoryNode {
	if c == nil {
		return nil
	}
	for _, n := range c.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// Promote makes the node of that name the primary, with what it has: what has
// not reached it is lost. The nodes that answer follow it and copy what it
// has; one that does not answer stays what it was, an old primary too, until
// its [MemoryNode.Rejoin]. It does nothing when there is no such node.
func (c *MemoryCluster) Promote(name string) {
	n := c.Node(name)
	if n == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n.catchUp(time.Now())
	n.role, n.never = RolePrimary, false
	n.history = c.newHistory(n.history.id, n.applied)
	for _, other := range c.nodes {
		if other != n && !other.silent() {
			other.follow(n)
		}
	}
}

// current returns the primary of the latest history. Requires c.mu.
func (c *MemoryCluster) current() *MemoryNode {
	latest := "history-" + strconv.Itoa(c.histories)
	for _, n := range c.nodes {
		if n.role == RolePrimary && n.history.id == latest {
			return n
		}
	}
	return nil
}

// Probe implements [Backend].
func (c *MemoryCluster) Probe(ctx context.Context, n Node[*MemoryNode]) (Status, error) {
	m := n.Client
	s, err := do(ctx, m, func(now time.Time) (Status, error) {
		m.catchUp(now)
		s := Status{Role: m.role, Epoch: m.history.id, Previous: m.history.previous, Offset: m.applied}
		if m.role == RoleReplica {
			s.LinkDown = m.linkDown(now)
		}
		return s, nil
	})
	var fault *memoryError
	if errors.As(err, &fault) && fault.done {
		err = nil // only answers to calls are lost
	}
	return s, err
}

// Classify implements [Backend]. An error that matches ErrUncertain of the root
// package is ClassUnknown, whatever else it holds.
func (c *MemoryCluster) Classify(err error, _ Role) Class {
	var fault *memoryError
	switch {
	case errors.Is(err, transparency.ErrUncertain):
		return ClassUnknown
	case errors.As(err, &fault):
		return fault.class
	case isContext(err):
		return ClassUnknown
	}
	return ClassApp
}

// A memoryError is what a node in trouble says.
type memoryError struct {
	class Class
	text  string
	done  bool // it was executed nevertheless
}

func (e *memoryError) Error() string { return e.text }

// String says how many nodes there are.
func (c *MemoryCluster) String() string {
	return fmt.Sprintf("replica.MemoryCluster(%d nodes)", len(c.Nodes()))
}

// Format writes String, whatever the verb.
func (c *MemoryCluster) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, c.String()) }
