package replica

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Pool spreads reads over replicas and keeps writes on the primary. It
// implements [ReplicaPool].
type Pool[C any] struct {
	backend Backend[C]
	redact  func(error) error
	opts    Options
	nodes   []*node[C] // in the order given
	base    time.Time  // instants are counted from here
	budget  budget
	standIn atomic.Int64            // reads at the primary
	view    atomic.Pointer[view[C]] // what calls choose from

	phase  atomic.Int32    // idle, probing or closed
	ctx    context.Context // of the probes; ended by Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	counts counts

	mu       sync.Mutex    // guards what follows, and the fields of nodes that say so
	changed  chan struct{} // closed and replaced whenever a probe has ended
	history  lineage
	samples  []sample
	last     *link // change
	unlogged []Change
}

var _ ReplicaPool[any] = (*Pool[any])(nil)

type counts struct {
	reads, writes, retries, toPrimary, overBudget, ejections, maybe atomic.Uint64
	left                                                            atomic.Int64
}

// New returns a pool of nodes that backend can talk to. It does no I/O and
// starts nothing: the first call starts the probes and waits until one node
// that can serve it has answered. A node that is down is no reason to fail. An
// empty list, two nodes with one name or one client, a nil client, a list in
// which every node is given as a replica, and options that make no sense are,
// with [github.com/go-transparency/transparency.ErrInvalid]. That two clients
// are of one server is not seen here: if it is the primary, writes get
// [ErrAmbiguousPrimary].
func New[C any](backend Backend[C], nodes []Node[C], opts *Options) (*Pool[C], error) {
	o, err := opts.withDefaults()
	if err == nil && isNil(backend) {
		err = invalid("the backend is nil")
	}
	if err == nil {
		err = checkNodes(nodes)
	}
	if err != nil {
		return nil, failed("new", err)
	}
	p := &Pool[C]{backend: backend, redact: func(err error) error { return err }, opts: o, base: time.Now(), changed: make(chan struct{}), last: &link{done: make(chan struct{})}}
	if r, ok := backend.(interface{ Redact(err error) error }); ok {
		p.redact = r.Redact
	}
	p.ctx, p.cancel = context.WithCancel(context.Background()) //nolint:gosec // Close calls it
	p.budget.init(o.PrimaryShare)
	share := max(o.MaxConcurrent/len(nodes), 1)
	for _, n := range nodes {
		p.nodes = append(p.nodes, newNode(n, share, p.base))
	}
	p.view.Store(&view[C]{reason: ErrNoPrimary})
	return p, nil
}

// made reports whether New made p. What it did not make has no nodes.
func (p *Pool[C]) made() bool { return p != nil && len(p.nodes) > 0 }

func checkNodes[C any](nodes []Node[C]) error {
	if len(nodes) == 0 {
		return invalid("the list of nodes is empty")
	}
	for i, n := range nodes {
		switch {
		case n.Name == "":
			return invalid("node %d has no name", i)
		case n.Role > RoleReplica:
			return invalid("node %q has role %d", n.Name, n.Role)
		case isNil(n.Client):
			return invalid("the client of node %q is nil", n.Name)
		}
		for _, other := range nodes[:i] {
			switch {
			case other.Name == n.Name:
				return invalid("two nodes have the name %q", n.Name)
			case samePointer(other.Client, n.Client):
				return invalid("nodes %q and %q have one client", other.Name, n.Name)
			}
		}
	}
	if !slices.ContainsFunc(nodes, func(n Node[C]) bool { return n.Role != RoleReplica }) {
		return invalid("no node can be the primary")
	}
	return nil
}

func isNil(x any) bool {
	v := reflect.ValueOf(x)
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Func, reflect.Chan:
		return v.IsNil()
	}
	return false
}

func samePointer(a, b any) bool {
	return reflect.ValueOf(a).Kind() == reflect.Pointer && reflect.TypeOf(a) == reflect.TypeOf(b) && a == b
}

// The phases of a pool.
const (
	idle int32 = iota
	probing
	closed
)

// start starts the probes, once, and reports whether the pool is open.
func (p *Pool[C]) start() bool {
	if p.phase.Load() == probing {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase.CompareAndSwap(idle, probing) {
		for _, n := range p.nodes {
			p.tasks.Go(func() { p.watch(n) })
		}
	}
	return p.phase.Load() == probing
}

// Close ends the pool: calls get [ErrClosed], also those under way, with
// [ErrMaybeExecuted] where that is so, and the probes end. It returns when all
// that the pool started has ended, except callbacks that run on although their
// contexts have ended; Stats counts those. The clients stay open. Closing again
// waits likewise. The error is always nil.
func (p *Pool[C]) Close() error {
	if !p.made() {
		return nil
	}
	p.mu.Lock()
	p.phase.Store(closed)
	p.mu.Unlock()
	p.cancel()
	p.tasks.Wait()
	return nil
}

// Nodes returns what is known of each node, in the order given to [New].
func (p *Pool[C]) Nodes() []NodeStatus {
	if !p.made() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	all := make([]NodeStatus, len(p.nodes))
	for i, n := range p.nodes {
		all[i] = p.describe(n, now)
	}
	return all
}

// Stats returns the counts of this moment.
func (p *Pool[C]) Stats() Stats {
	if !p.made() {
		return Stats{}
	}
	c := &p.counts
	s := Stats{
		Nodes: len(p.nodes), Left: int(c.left.Load()),
		Reads: c.reads.Load(), Writes: c.writes.Load(), Retries: c.retries.Load(),
		ToPrimary: c.toPrimary.Load(), OverBudget: c.overBudget.Load(),
		Ejections: c.ejections.Load(), MaybeExecuted: c.maybe.Load(),
	}
	for _, n := range p.Nodes() {
		s.Running += n.InFlight
		if n.State == StateUp {
			s.Healthy++
		}
	}
	return s
}

// ended returns why a call that is under way is to end, or nil.
func (p *Pool[C]) ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.ctx.Err() != nil {
		return ErrClosed
	}
	return nil
}

// String names the nodes and leaves their clients out, which can hold passwords.
func (p *Pool[C]) String() string {
	if !p.made() {
		return "replica.Pool[]"
	}
	names := make([]string, len(p.nodes))
	for i, n := range p.nodes {
		names[i] = n.Name
	}
	return fmt.Sprintf("replica.Pool%q", names)
}

// Format writes String, whatever the verb.
func (p *Pool[C]) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.String()) }

// now returns the time since the pool was made, by the monotonic clock.
func (p *Pool[C]) now() time.Duration { return time.Since(p.base) }
