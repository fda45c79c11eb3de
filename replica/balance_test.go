package replica_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/replica"
)

// load reads from clients goroutines at once, n times each, and returns how
// many each node served.
func load(t *testing.T, p *memoryPool, clients, n int) map[string]int {
	t.Helper()
	before := p.Nodes()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range n {
				if _, err := where(t, p, nil); err != nil {
					t.Errorf("Read error = %v", err)
				}
			}
		})
	}
	wg.Wait()
	used := map[string]int{}
	for i, n := range p.Nodes() {
		used[n.Name] = int(n.Calls - before[i].Calls)
	}
	return used
}

func TestRP56Balance(t *testing.T) {
	for _, replicas := range []int{2, 3, 6} { // all compared, and two drawn
		inBubble(t, replicas, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
			const clients, each = 8, 250
			used := load(t, p, clients, each)
			if used["node-1"] != 0 {
				t.Errorf("the primary served %d reads", used["node-1"])
			}
			want := float64(clients*each) / float64(replicas)
			chi := 0.0
			for name, n := range used {
				if name != "node-1" {
					chi += (float64(n) - want) * (float64(n) - want) / want
				}
			}
			// The least loaded is preferred, so shares are more even than
			// chance would make them; 20.5 is the 99.9th percentile of that
			// for six.
			if chi > 20.5 {
				t.Errorf("%d replicas served %v, chi-square %.1f, want even shares", replicas, used, chi)
			}

			c.Node("node-2").SetLatency(10 * time.Millisecond)
			load(t, p, clients, 20)
			used = load(t, p, clients, each)
			if share := float64(used["node-2"]) / want; share > 0.4 {
				t.Errorf("a node ten times slower got %.2f of an even share: %v", share, used)
			}

			c.Node("node-2").SetLatency(time.Millisecond)
			for range 30 { // half a minute of some traffic
				time.Sleep(time.Second)
				load(t, p, clients, 2)
			}
			used = load(t, p, clients, each)
			if share := float64(used["node-2"]) / want; share < 0.7 {
				t.Errorf("a node that has recovered got %.2f of an even share: %v", share, used)
			}
		})
	}
}

// A caller alone spreads its reads too.
func TestOneCallerSpreads(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, _ *replica.MemoryCluster, p *memoryPool) {
		used := load(t, p, 1, 900)
		for name, n := range used {
			if name != "node-1" && (n < 230 || n > 370) {
				t.Errorf("900 reads by one caller went to %v, want about 300 each", used)
			}
		}
	})
}

func TestSlowStart(t *testing.T) {
	inBubble(t, 2, nil, func(t *testing.T, _ *replica.MemoryCluster, p *memoryPool) {
		crowd(t, p, "node-2")
		eventually(t, "it is back", 20*time.Second, func() bool { return stateOf(t, p, "node-2").State == replica.StateUp })
		var shares []int
		for range 3 {
			shares = append(shares, load(t, p, 1, 400)["node-2"])
			time.Sleep(5 * time.Second)
		}
		if shares[0] > 80 || shares[1] < shares[0]+20 || shares[2] < 140 {
			t.Errorf("of 400 reads each 5s a node that came back got %v, want a rising share", shares)
		}
	})
}

func TestRP32FullNodeGetsLess(t *testing.T) {
	inBubble(t, 2, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		c.Node("node-2").SetFault(replica.FaultOverload)
		before := p.Stats()
		spread(t, p, 500)
		after := p.Stats()
		if retries := after.Retries - before.Retries; retries > 25 {
			t.Errorf("500 reads met the full node %d times, want it avoided", retries)
		}
		if n := stateOf(t, p, "node-2"); n.State != replica.StateUp || n.Failures != 0 {
			t.Errorf("the full node is %+v, want up and without failures", n)
		}
		c.Node("node-2").SetFault(replica.FaultNone)
		eventually(t, "it is used again", time.Minute, func() bool { return spread(t, p, 1)["node-2"] == 1 })
	})
}

// Reads that go to the primary for want of a replica leave room for writes.
func TestPrimaryKeepsRoomForWrites(t *testing.T) {
	inBubble(t, 1, &replica.Options{MaxConcurrent: 16}, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		c.Node("node-2").SetFault(replica.FaultDown)
		eventually(t, "the replica is down", 5*time.Second, func() bool { return p.Stats().Healthy == 1 })
		release := make(chan struct{})
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(func() {
				_ = p.Read(t.Context(), &replica.ReadOptions{AttemptTimeout: -1}, func(context.Context, *replica.MemoryNode) error {
					<-release
					return nil
				})
			})
		}
		time.Sleep(time.Millisecond)
		if n := stateOf(t, p, "node-1").InFlight; n != 4 {
			t.Errorf("%d reads are at the primary, want half of its 8 places", n)
		}
		if s := p.Stats(); s.ToPrimary != 4 || s.OverBudget != 8 {
			t.Errorf("Stats = %+v, want 4 reads at the primary and 8 refused", s)
		}
		close(release)
		wg.Wait()
	})
}

func TestPrimaryShare(t *testing.T) {
	for _, tt := range []struct {
		share    float64
		min, max int
	}{{-1, 0, 0}, {0.5, 100, 110}, {1, 200, 200}} {
		inBubble(t, 1, &replica.Options{PrimaryShare: tt.share}, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
			c.Node("node-2").SetFault(replica.FaultDown)
			eventually(t, "the replica is down", 5*time.Second, func() bool { return p.Stats().Healthy == 1 })
			served := 0
			for range 200 {
				if _, err := where(t, p, nil); err == nil {
					served++
				} else {
					wantErr(t, "Read", err, replica.ErrNoReplica, transparency.ErrRejected)
				}
			}
			if served < tt.min || served > tt.max {
				t.Errorf("with PrimaryShare %v, %d of 200 reads were served, want %d to %d", tt.share, served, tt.min, tt.max)
			}
		})
	}
}

// A pool of one node reads there without a budget.
func TestOneNode(t *testing.T) {
	inBubble(t, -1, nil, func(t *testing.T, _ *replica.MemoryCluster, p *memoryPool) {
		if used := spread(t, p, 100); used["node-1"] != 100 {
			t.Errorf("reads went to %v", used)
		}
	})
}

// Of equally quick nodes the one with less to do is taken.
func TestLoadIsEven(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, _ *replica.MemoryCluster, p *memoryPool) {
		release := make(chan struct{})
		var wg sync.WaitGroup
		for range 24 {
			wg.Go(func() {
				_ = p.Read(t.Context(), nil, func(context.Context, *replica.MemoryNode) error { <-release; return nil })
			})
			synctest.Wait()
		}
		for _, n := range p.Nodes()[1:] {
			if n.InFlight != 8 {
				t.Errorf("%d of 24 callbacks are at %s, want 8", n.InFlight, n.Name)
			}
		}
		close(release)
		wg.Wait()
	})
}

// Callers that do not wait for a slow node teach the pool to avoid it, although
// they eject nobody and probes find it well.
func TestRP28SlowNodeIsAvoided(t *testing.T) {
	inBubble(t, 2, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		c.Node("node-2").SetLatency(100 * time.Millisecond)
		late := 0
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if _, err := replica.Query(ctx, p, nil, get); err != nil {
				wantErr(t, "Read", err, context.DeadlineExceeded)
				late++
			}
			cancel()
		}
		if n := stateOf(t, p, "node-2"); late == 0 || late > 10 || n.State != replica.StateUp || n.Failures != 0 {
			t.Errorf("%d of 200 reads met the slow node, which is %+v", late, n)
		}
	})
}
