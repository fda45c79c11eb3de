// Package replicatest checks that a [replica.Backend] does what its interface
// promises, and that a [replica.Pool] over it does what package replica
// promises:
//
//	func TestBackend(t *testing.T) {
//		replicatest.Run(t, func(t *testing.T) replicatest.Cluster[*Client] {
//			…
//		})
//	}
//
// Every check opens a cluster of its own.
package replicatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/replica"
)

// A Cluster is a database under test, of one primary and at least two
// replicas, and what can be done to it. Checks that need a function that is
// nil are skipped.
type Cluster[C any] struct {
	Backend replica.Backend[C]
	Nodes   []replica.Node[C] // the first is the primary

	// Get and Set read and write as a callback would.
	Get func(ctx context.Context, c C, key string) (value string, ok bool, err error)
	Set func(ctx context.Context, c C, key, value string) error

	// Replicated says that what is written at the primary comes to the
	// replicas, that nodes tell their roles by themselves, and that replicas
	// refuse writes.
	Replicated bool

	Down    func(name string) // stops the node: it refuses connections
	Hang    func(name string) // stops it from answering
	Heal    func(name string) // undoes Down and Hang; a replica follows its primary again
	Promote func(name string) // makes it the primary, followed by the nodes that answer
}

// Open opens a cluster in which nothing has been written.
type Open[C any] func(t *testing.T) Cluster[C]

// Run runs the checks in real time. Waits poll, and what takes long is left to
// [RunFakeTime].
func Run[C any](t *testing.T, open Open[C]) {
	for _, c := range checks[C]() {
		if c.fakeTime {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			cluster := open(t)
			if c.able != nil && !c.able(cluster) {
				t.Skip("this cluster cannot do that")
			}
			c.fn(&run[C]{reporter: t, Cluster: cluster})
		})
	}
}

// RunFakeTime runs the checks, each in a bubble of [synctest.Test] in which
// open is called too: the cluster must take its time from there.
func RunFakeTime[C any](t *testing.T, open Open[C]) {
	for _, c := range checks[C]() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := open(t)
				if c.able != nil && !c.able(cluster) {
					t.Skip("this cluster cannot do that")
				}
				c.fn(&run[C]{reporter: t, Cluster: cluster, fake: true})
			})
		})
	}
}

// A check is one promise. Its number is that of the scenario it stands for.
type check[C any] struct {
	name     string
	fakeTime bool // takes too long on a real clock
	able     func(Cluster[C]) bool
	fn       func(r *run[C])
}

func checks[C any]() []check[C] {
	return slices.Concat(backendChecks[C](), readChecks[C](), writeChecks[C](), lifeChecks[C]())
}

// A reporter is what the checks need of a [testing.T]; the suite's own tests
// put a recorder in its place.
type reporter interface {
	Context() context.Context
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

type run[C any] struct {
	reporter
	Cluster[C]
	fake bool
}

const probeEvery = 50 * time.Millisecond

// attempt is a time limit for calls of which one is to run into it, and the
// next is not, however busy the machine.
func (r *run[C]) attempt() time.Duration {
	if r.fake {
		return 50 * time.Millisecond
	}
	return time.Second
}

// wantAtOnce checks that something took no time. In real time that depends on
// the machine.
func (r *run[C]) wantAtOnce(what string, took time.Duration) {
	r.Helper()
	if r.fake && took != 0 {
		r.Errorf("%s took %v, want it refused at once", what, took)
	}
}

// pool returns a pool over the cluster that is closed at cleanup.
func (r *run[C]) pool(opts *replica.Options) *replica.Pool[C] {
	r.Helper()
	var o replica.Options
	if opts != nil {
		o = *opts
	}
	if o.ProbeInterval == 0 {
		o.ProbeInterval = probeEvery
	}
	if o.ProbeTimeout == 0 && !r.fake {
		o.ProbeTimeout = testkit.Limit / 2 // a busy machine is no node in trouble
	}
	p, err := replica.New(r.Backend, r.Nodes, &o)
	if err != nil {
		r.Fatalf("New error = %v", err)
	}
	r.Cleanup(func() { _ = p.Close() })
	return p
}

// warm waits until every node has been found up.
func (r *run[C]) warm(p *replica.Pool[C]) {
	r.Helper()
	_ = p.Read(r.Context(), nil, func(context.Context, C) error { return nil })
	r.eventually("every node is up", testkit.Limit, func() bool {
		return p.Stats().Healthy == len(r.Nodes)
	})
}

// name returns which node c is the client of.
func (r *run[C]) name(c C) string {
	for _, n := range r.Nodes {
		if any(n.Client) == any(c) {
			return n.Name
		}
	}
	return "?"
}

func (r *run[C]) primary() string { return r.Nodes[0].Name }

func (r *run[C]) replicas() []string {
	var names []string
	for _, n := range r.Nodes[1:] {
		names = append(names, n.Name)
	}
	return names
}

// where reads once and returns which node served it.
func (r *run[C]) where(p replica.ReplicaPool[C], opts *replica.ReadOptions) (string, error) {
	return replica.Query(r.Context(), p, opts, func(ctx context.Context, c C) (string, error) {
		_, _, err := r.Get(ctx, c, "key")
		return r.name(c), err
	})
}

// write writes once and returns which nodes fn was called at.
func (r *run[C]) write(p replica.ReplicaPool[C], opts *replica.WriteOptions, value string) ([]string, error) {
	at := make(chan string, 100)
	err := p.Write(r.Context(), opts, func(ctx context.Context, c C) error {
		at <- r.name(c)
		return r.Set(ctx, c, "key", value)
	})
	var names []string
	for len(at) > 0 {
		names = append(names, <-at)
	}
	return names, err
}

// state returns what p thinks of a node.
func (r *run[C]) state(p *replica.Pool[C], name string) replica.NodeStatus {
	for _, n := range p.Nodes() {
		if n.Name == name {
			return n
		}
	}
	r.Fatalf("the pool does not know %q", name)
	return replica.NodeStatus{}
}

func (r *run[C]) wantErr(op string, err error, want ...error) {
	r.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			r.Errorf("%s error = %v, want one wrapping %q", op, err, w)
		}
	}
}

// eventually waits until cond holds, and fails the check if it does not
// within d.
func (r *run[C]) eventually(what string, d time.Duration, cond func() bool) {
	r.Helper()
	testkit.Eventually(r, what, d, cond)
}

func attemptsOf(err error) []replica.Attempt {
	var e *replica.AttemptsError
	if !errors.As(err, &e) {
		return nil
	}
	return e.Attempts
}

// counts is how often each node was used.
type counts map[string]int

func (c counts) String() string { return fmt.Sprint(map[string]int(c)) }
