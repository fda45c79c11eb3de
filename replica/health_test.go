package replica_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/replica"
)

type memoryPool = replica.Pool[*replica.MemoryNode]

// inBubble runs fn in fake time with a pool of one primary and n replicas
// that have all been found up.
func inBubble(t *testing.T, replicas int, opts *replica.Options, fn func(t *testing.T, c *replica.MemoryCluster, p *memoryPool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := replica.NewMemoryCluster(&replica.MemoryOptions{Replicas: replicas, Latency: time.Millisecond})
		p := newPool(t, c, c.Nodes(), opts)
		warm(t, p)
		fn(t, c, p)
	})
}

func get(ctx context.Context, n *replica.MemoryNode) (string, error) {
	_, _, err := n.Get(ctx, "key")
	return n.Name(), err
}

// where reads once and returns which node served it.
func where(t *testing.T, p *memoryPool, opts *replica.ReadOptions) (string, error) {
	return replica.Query(t.Context(), p, opts, get)
}

// spread reads n times and returns how many each node served.
func spread(t *testing.T, p *memoryPool, n int) map[string]int {
	t.Helper()
	used := map[string]int{}
	for range n {
		name, err := where(t, p, nil)
		if err != nil {
			t.Fatalf("Read error = %v", err)
		}
		used[name]++
	}
	return used
}

// crowd makes ten reads at once for each node; those at the nodes that bad
// names lose their answers.
func crowd(t *testing.T, p *memoryPool, bad ...string) {
	t.Helper()
	var wg sync.WaitGroup
	for range 10 * p.Stats().Nodes {
		wg.Go(func() {
			_ = p.Read(t.Context(), &replica.ReadOptions{Attempts: -1}, func(ctx context.Context, m *replica.MemoryNode) error {
				_, _, err := m.Get(ctx, "key")
				if err == nil && slices.Contains(bad, m.Name()) {
					return errLost
				}
				return err
			})
		})
	}
	wg.Wait()
}

// errLost is what a memory node's callback gets when an answer is lost.
var errLost = func() error {
	n := replica.NewMemoryCluster(nil).Node("node-1")
	n.SetFault(replica.FaultLost)
	_, _, err := n.Get(context.Background(), "key")
	return err
}()

func lose(context.Context, *replica.MemoryNode) error { return errLost }

func TestRP12NeverSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica.NewMemoryCluster(nil)
		empty := c.Node("node-2")
		empty.SetLink(false)
		empty.Wipe()
		p := newPool(t, c, c.Nodes(), nil)
		warm(t, p)
		for range 50 {
			if name, err := where(t, p, nil); err != nil || name != "node-3" {
				t.Fatalf("Read = %q, %v, want the replica that has the data", name, err)
			}
		}
		if n := stateOf(t, p, "node-2"); n.State != replica.StateNotReady || n.LagKnown || n.Err == nil {
			t.Errorf("the replica without data is %+v, want not ready and its lag unknown", n)
		}
		empty.SetLink(true)
		eventually(t, "it has the data", 5*time.Second, func() bool { return stateOf(t, p, "node-2").State == replica.StateUp })
	})
}

func TestRP20TheLastReplicaIsNotEjected(t *testing.T) {
	inBubble(t, 5, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		for _, name := range []string{"node-3", "node-4", "node-5", "node-6"} {
			c.Node(name).SetFault(replica.FaultDown)
		}
		eventually(t, "four are down", 5*time.Second, func() bool { return p.Stats().Healthy == 2 })
		for range 20 {
			_ = p.Read(t.Context(), &replica.ReadOptions{Attempts: -1}, lose)
		}
		if n := stateOf(t, p, "node-2"); n.State != replica.StateUp || n.Failures < 20 {
			t.Errorf("the last replica is %+v, want up in spite of its failures", n)
		}
	})
}

func TestRP23EjectionsGrowAndAreForgotten(t *testing.T) {
	inBubble(t, 2, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		var last time.Duration
		ejected := func() time.Duration {
			t.Helper()
			crowd(t, p, "node-2")
			start := time.Now()
			if s := stateOf(t, p, "node-2").State; s != replica.StateEjected {
				t.Fatalf("after failures node-2 is %v, want ejected", s)
			}
			eventually(t, "it is back", 2*time.Minute, func() bool { return stateOf(t, p, "node-2").State == replica.StateUp })
			time.Sleep(11 * time.Second) // until its slow start is over
			return time.Since(start) - 11*time.Second
		}
		for i, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
			want *= time.Second
			if last = ejected(); last < want || last > want+2500*time.Millisecond {
				t.Errorf("ejection %d took %v, want %v and at most two probes more", i+1, last, want)
			}
		}
		time.Sleep(10 * time.Minute)
		if got := ejected(); got > 8*time.Second {
			t.Errorf("after ten good minutes an ejection took %v, want 5s again", got)
		}
	})
}

// Two good probes, not one, bring a node back.
func TestFlappingNodeStaysOut(t *testing.T) {
	inBubble(t, 2, &replica.Options{ProbeInterval: time.Second}, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		bad := c.Node("node-2")
		bad.SetFault(replica.FaultDown)
		eventually(t, "it is down", 3*time.Second, func() bool { return stateOf(t, p, "node-2").State == replica.StateDown })
		time.Sleep(10 * time.Second) // its ejection is over
		bad.SetFault(replica.FaultNone)
		eventually(t, "it has answered once", 3*time.Second, func() bool { return stateOf(t, p, "node-2").State != replica.StateDown })
		if s := stateOf(t, p, "node-2").State; s != replica.StateEjected {
			t.Errorf("after one good probe it is %v, want ejected still", s)
		}
		eventually(t, "it is back", 3*time.Second, func() bool { return stateOf(t, p, "node-2").State == replica.StateUp })
	})
}

func TestRP25HalfAreEjectedAtMost(t *testing.T) {
	inBubble(t, 4, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		bad := map[string]bool{"node-2": true, "node-3": true, "node-4": true}
		for range 10 {
			crowd(t, p, "node-2", "node-3", "node-4")
		}
		out := 0
		for _, n := range p.Nodes() {
			if n.State == replica.StateEjected {
				out++
			}
		}
		if out != 2 {
			t.Errorf("%d of 4 replicas are ejected, want 2", out)
		}
		// One more dies: better those that failed lately than the one.
		for _, n := range p.Nodes() {
			if n.State == replica.StateUp && bad[n.Name] {
				c.Node(n.Name).SetFault(replica.FaultDown)
			}
		}
		time.Sleep(1500 * time.Millisecond)
		before := p.Nodes()
		crowd(t, p)
		for i, n := range p.Nodes() {
			used := n.Calls > before[i].Calls
			if want := i > 0 && n.State != replica.StateDown; used != want {
				t.Errorf("node %d, %v, was used: %v, want %v", i, n.State, used, want)
			}
		}
	})
	t.Run("one always", func(t *testing.T) {
		inBubble(t, 1, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
			crowd(t, p, "node-2")
			if s := stateOf(t, p, "node-2").State; s != replica.StateEjected {
				t.Errorf("the only replica is %v after failures, want ejected", s)
			}
		})
	})
}

func TestRP31ErrorsOfAnEarlierLifeAreIgnored(t *testing.T) {
	inBubble(t, 2, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		bad := c.Node("node-2")
		release := make(chan struct{})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_ = p.Read(t.Context(), &replica.ReadOptions{Attempts: -1, AttemptTimeout: -1}, func(_ context.Context, m *replica.MemoryNode) error {
					<-release
					if m == bad {
						return errLost
					}
					return nil
				})
			})
		}
		synctest.Wait()
		bad.SetFault(replica.FaultDown)
		eventually(t, "it is down", 3*time.Second, func() bool { return stateOf(t, p, "node-2").State == replica.StateDown })
		bad.SetFault(replica.FaultNone)
		eventually(t, "it is back", 20*time.Second, func() bool { return stateOf(t, p, "node-2").State == replica.StateUp })
		close(release)
		wg.Wait()
		if n := stateOf(t, p, "node-2"); n.State != replica.StateUp || n.Failures != 0 || n.Calls < 3 {
			t.Errorf("after many errors of old connections it is %+v, want up", n)
		}
	})
}

func TestRP43NotReadyIsLeftAloneForAMoment(t *testing.T) {
	inBubble(t, 2, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		bad := c.Node("node-2")
		bad.SetFault(replica.FaultNotReady)
		spread(t, p, 20) // none fails
		if n := stateOf(t, p, "node-2"); n.State != replica.StateNotReady || n.Err == nil || n.Failures != 0 {
			t.Errorf("the replica that loads is %+v, want not ready, and no failure", n)
		}
		bad.SetFault(replica.FaultNone)
		start := time.Now()
		eventually(t, "it is back", 5*time.Second, func() bool { return stateOf(t, p, "node-2").State == replica.StateUp })
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("it was back after %v, want at most a cool-down and two probes", took)
		}
		if p.Stats().Ejections != 0 {
			t.Errorf("a node that was not ready was ejected")
		}
	})
}

// A failing probe is no news of a node that serves calls meanwhile.
func TestProbeThatFailsUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica.NewMemoryCluster(&replica.MemoryOptions{Replicas: 1})
		var deaf atomic.Bool
		b := &faulty{MemoryCluster: c, probe: func(ctx context.Context, n replica.Node[*replica.MemoryNode]) (replica.Status, error) {
			if n.Name != "node-2" || !deaf.Load() {
				return c.Probe(ctx, n)
			}
			<-ctx.Done()
			return replica.Status{}, ctx.Err()
		}}
		p := newPool(t, b, c.Nodes(), nil)
		warm(t, p)
		deaf.Store(true)
		for range 100 {
			spread(t, p, 1)
			time.Sleep(50 * time.Millisecond)
		}
		if s := stateOf(t, p, "node-2").State; s != replica.StateUp {
			t.Errorf("the node that serves calls is %v", s)
		}
		time.Sleep(5 * time.Second)
		if s := stateOf(t, p, "node-2").State; s != replica.StateDown {
			t.Errorf("the node that serves nothing is %v, want down", s)
		}
	})
}

// A faulty backend passes on to a cluster what it is not told to spoil.
type faulty struct {
	*replica.MemoryCluster
	probe    func(ctx context.Context, n replica.Node[*replica.MemoryNode]) (replica.Status, error)
	classify func(err error) replica.Class
}

func (f *faulty) Probe(ctx context.Context, n replica.Node[*replica.MemoryNode]) (replica.Status, error) {
	if f.probe != nil {
		return f.probe(ctx, n)
	}
	return f.MemoryCluster.Probe(ctx, n)
}

func (f *faulty) Classify(err error, role replica.Role) replica.Class {
	if f.classify != nil {
		return f.classify(err)
	}
	return f.MemoryCluster.Classify(err, role)
}

func TestAmbiguousPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica.NewMemoryCluster(nil)
		b := &faulty{MemoryCluster: c}
		b.probe = func(ctx context.Context, n replica.Node[*replica.MemoryNode]) (replica.Status, error) {
			s, err := c.Probe(ctx, n)
			if n.Name == "node-2" {
				s.Role, s.Epoch = replica.RolePrimary, "of its own"
			}
			return s, err
		}
		p := newPool(t, b, c.Nodes(), nil)
		warm(t, p)
		err := p.Write(t.Context(), nil, func(context.Context, *replica.MemoryNode) error {
			t.Errorf("the write was sent")
			return nil
		})
		wantErr(t, "Write", err, replica.ErrAmbiguousPrimary, transparency.ErrUnavailable)
		if name, err := where(t, p, nil); err != nil || name != "node-3" {
			t.Errorf("Read = %q, %v, want the replica", name, err)
		}
	})
}

// A backend that cannot tell a role is not believed.
func TestProbeWithoutRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica.NewMemoryCluster(nil)
		b := &faulty{MemoryCluster: c, probe: func(context.Context, replica.Node[*replica.MemoryNode]) (replica.Status, error) {
			return replica.Status{}, nil
		}}
		p := newPool(t, b, c.Nodes(), nil)
		_, err := where(t, p, nil)
		wantErr(t, "Read", err, replica.ErrNoReplica)
		err = p.Write(t.Context(), nil, func(context.Context, *replica.MemoryNode) error { return nil })
		wantErr(t, "Write", err, replica.ErrNoPrimary)
		if errors.Is(err, replica.ErrMaybeExecuted) {
			t.Errorf("Write error = %v", err)
		}
	})
}

// Failures that are not in a row eject nobody.
func TestSuccessForgivesFailures(t *testing.T) {
	inBubble(t, 1, nil, func(t *testing.T, _ *replica.MemoryCluster, p *memoryPool) {
		for i := range 40 {
			err := p.Read(t.Context(), &replica.ReadOptions{Attempts: -1}, func(ctx context.Context, m *replica.MemoryNode) error {
				if i%3 != 0 {
					return errLost
				}
				_, err := get(ctx, m)
				return err
			})
			if failed := err != nil; failed != (i%3 != 0) {
				t.Fatalf("Read %d = %v", i, err)
			}
		}
		if n := stateOf(t, p, "node-2"); n.State != replica.StateUp || n.Failures < 20 {
			t.Errorf("the replica is %+v, want up after failures that were not three in a row", n)
		}
	})
}
