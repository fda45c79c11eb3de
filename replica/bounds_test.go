package replica_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/replica"
)

type countingBackend struct {
	*replica.MemoryCluster
	probes atomic.Int64
}

func (b *countingBackend) Probe(ctx context.Context, n replica.Node[*replica.MemoryNode]) (replica.Status, error) {
	b.probes.Add(1)
	return b.MemoryCluster.Probe(ctx, n)
}

// The longest of all times is long, and not negative somewhere.
func TestLongestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = math.MaxInt64
		for range 10 { // the interval varies
			b := &countingBackend{MemoryCluster: replica.NewMemoryCluster(nil)}
			p := newPool(t, replica.Backend[*replica.MemoryNode](b), b.Nodes(), &replica.Options{
				ProbeInterval: most, ProbeTimeout: most, AttemptTimeout: most, MaxLinkDown: most,
				MaxConcurrent: most, Attempts: most,
			})
			warm(t, p)
			time.Sleep(time.Hour)
			if n := b.probes.Load(); n != 3 {
				t.Fatalf("%d probes in an hour, want the first of each", n)
			}
			b.Promote("node-2")
			write := func(ctx context.Context, m *replica.MemoryNode) error { return m.Set(ctx, "key", "1") }
			if err := p.Write(t.Context(), nil, write); err != nil {
				t.Errorf("Write after a failover = %v", err)
			}
			if err := p.Read(t.Context(), &replica.ReadOptions{MaxLag: most, Attempts: most, AttemptTimeout: most},
				func(context.Context, *replica.MemoryNode) error { return nil }); err != nil {
				t.Errorf("Read = %v", err)
			}
			_ = p.Close()
		}
	})
}

// A callback that has done one thing of two knows better than its last error.
func TestRP34HalfDone(t *testing.T) {
	inBubble(t, 1, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		calls := 0
		err := p.Write(t.Context(), nil, func(ctx context.Context, m *replica.MemoryNode) error {
			calls++
			if err := m.Set(ctx, "a", "1"); err != nil {
				return err
			}
			m.SetFault(replica.FaultDown)
			if err := m.Set(ctx, "b", "1"); err != nil {
				return fmt.Errorf("%w: %w", transparency.ErrUncertain, err)
			}
			return nil
		})
		wantErr(t, "Write that is half done", err, replica.ErrMaybeExecuted)
		if errors.Is(err, transparency.ErrUnavailable) || calls != 1 {
			t.Errorf("Write = %v after %d calls, want it not made again", err, calls)
		}
	})
}

// Servers that hang, with clients that ignore deadlines, leave probes behind,
// and keep none from the others.
func TestRedisHungNodesHinderNoProbe(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := replica.NewRedisBackend(nil)
	for i := range 5 {
		client := redis.NewClient(&redis.Options{Addr: silent.Addr().String(), MaxRetries: -1, ReadTimeout: time.Second})
		t.Cleanup(func() { _ = client.Close() })
		n := replica.Node[*redis.Client]{Name: fmt.Sprint("hung-", i), Client: client}
		for range 6 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			if _, err := b.Probe(ctx, n); err == nil {
				t.Error("Probe of a server that hangs = nil")
			}
			cancel()
		}
	}
	well := replica.Node[*redis.Client]{Name: "well", Client: redistest.StartServer(t).Client(t)}
	if _, err := b.Probe(t.Context(), well); err != nil {
		t.Errorf("Probe of a server that is well = %v", err)
	}
	_ = silent.Close()
}
