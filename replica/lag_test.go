package replica_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/replica"
)

func TestRP13LinkDownIsTolerated(t *testing.T) {
	inBubble(t, 2, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		c.Node("node-1").SetFault(replica.FaultDown)
		start := time.Now()
		for time.Since(start) < 55*time.Second {
			if name, err := where(t, p, nil); err != nil || name == "node-1" {
				t.Fatalf("Read %v after the primary died = %q, %v, want a replica", time.Since(start), name, err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		_, err := where(t, p, nil)
		wantErr(t, "Read without a primary for 65s", err, replica.ErrNoReplica)
		c.Node("node-1").SetFault(replica.FaultNone)
		eventually(t, "reads go on", 5*time.Second, func() bool { name, err := where(t, p, nil); return err == nil && name != "node-1" })
	})
	t.Run("for ever", func(t *testing.T) {
		inBubble(t, 2, &replica.Options{MaxLinkDown: -1}, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
			c.Node("node-1").SetFault(replica.FaultDown)
			time.Sleep(time.Hour)
			if name, err := where(t, p, nil); err != nil || name == "node-1" {
				t.Errorf("Read = %q, %v, want a replica", name, err)
			}
		})
	})
}

// A replica that follows the loser of a failover serves what may never have
// happened.
func TestStrayedReplicaIsLeftOut(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		for _, name := range []string{"node-1", "node-2"} { // cut off together
			c.Node(name).SetFault(replica.FaultHang)
		}
		c.Promote("node-3")
		for _, name := range []string{"node-1", "node-2"} {
			c.Node(name).SetFault(replica.FaultNone)
		}
		time.Sleep(70 * time.Second)
		if n := stateOf(t, p, "node-2"); n.State != replica.StateNotReady {
			t.Errorf("the replica of the old primary is %v, want not ready", n.State)
		}
		used := spread(t, p, 50)
		if used["node-4"] != 50 {
			t.Errorf("reads went to %v, want all to the replica of the new primary", used)
		}
		// The old primary claims on. The newer history wins.
		if err := p.Write(t.Context(), nil, func(ctx context.Context, m *replica.MemoryNode) error {
			if m.Name() != "node-3" {
				t.Errorf("Write went to %s", m.Name())
			}
			return m.Set(ctx, "key", "1")
		}); err != nil {
			t.Errorf("Write = %v", err)
		}
	})
}

func TestRP17BeyondMaxLag(t *testing.T) {
	inBubble(t, 2, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		write := func() {
			if err := p.Write(t.Context(), nil, func(ctx context.Context, m *replica.MemoryNode) error {
				return m.Set(ctx, "key", "1")
			}); err != nil {
				t.Fatalf("Write = %v", err)
			}
		}
		opts := replica.ReadOptions{MaxLag: 5 * time.Second}
		// Idle for long, nobody lags.
		time.Sleep(time.Hour)
		if name, err := where(t, p, &opts); err != nil || name == "node-1" {
			t.Errorf("Read of an idle cluster = %q, %v, want a replica", name, err)
		}
		c.Node("node-2").SetLag(time.Minute)
		for range 30 {
			write()
			time.Sleep(time.Second)
			opts.NoPrimary = true
			if n := stateOf(t, p, "node-2"); n.Lag > 5*time.Second {
				if name, err := where(t, p, &opts); err != nil || name != "node-3" {
					t.Fatalf("Read within 5s = %q, %v, want the replica that keeps up", name, err)
				}
			}
		}
		if n := stateOf(t, p, "node-2"); !n.LagKnown || n.Lag < 25*time.Second || n.Lag > 35*time.Second {
			t.Errorf("Lag = %v, %v after 30s, want about 30s", n.Lag, n.LagKnown)
		}
		c.Node("node-3").SetLag(time.Minute)
		for range 10 {
			write()
			time.Sleep(time.Second)
		}
		_, err := where(t, p, &opts)
		wantErr(t, "Read with NoPrimary", err, replica.ErrTooStale, transparency.ErrUnavailable)
		opts.NoPrimary = false
		if name, err := where(t, p, &opts); err != nil || name != "node-1" {
			t.Errorf("Read = %q, %v, want the primary to stand in", name, err)
		}
		if name, err := where(t, p, nil); err != nil || name == "node-1" {
			t.Errorf("Read of any age = %q, %v, want a replica", name, err)
		}
	})
}

// A replica that has less than it had is not taken for one that keeps up.
func TestLagOfADatasetThatShrank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica.NewMemoryCluster(nil)
		var shrunk atomic.Bool
		b := &faulty{MemoryCluster: c, probe: func(ctx context.Context, n replica.Node[*replica.MemoryNode]) (replica.Status, error) {
			s, err := c.Probe(ctx, n)
			s.Offset += 1000
			if n.Name == "node-2" && shrunk.Load() {
				s.Offset = 1
			}
			return s, err
		}}
		p := newPool(t, b, c.Nodes(), nil)
		warm(t, p)
		time.Sleep(5 * time.Second)
		if n := stateOf(t, p, "node-2"); !n.LagKnown || n.Lag > 3*time.Second {
			t.Errorf("a replica that keeps up is %+v", n)
		}
		shrunk.Store(true)
		time.Sleep(2 * time.Second)
		if n := stateOf(t, p, "node-2"); n.LagKnown {
			t.Errorf("a replica that lost its data is %+v, want its lag unknown", n)
		}
	})
}

// The first read waits until lag can be known, if it asks for it.
func TestFirstReadWithMaxLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica.NewMemoryCluster(nil)
		c.Node("node-1").SetLatency(50 * time.Millisecond)
		p := newPool(t, c, c.Nodes(), nil)
		name, err := where(t, p, &replica.ReadOptions{MaxLag: 5 * time.Second, NoPrimary: true})
		if err != nil || name == "node-1" {
			t.Errorf("first Read = %q, %v, want a replica", name, err)
		}
	})
}
