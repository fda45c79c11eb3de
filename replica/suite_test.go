package replica_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/replica"
	"github.com/go-transparency/transparency/replica/replicatest"
)

func openMemory(*testing.T) replicatest.Cluster[*replica.MemoryNode] {
	c := replica.NewMemoryCluster(nil)
	return replicatest.Cluster[*replica.MemoryNode]{
		Backend: c, Nodes: c.Nodes(), Replicated: true,
		Get: func(ctx context.Context, n *replica.MemoryNode, key string) (string, bool, error) {
			return n.Get(ctx, key)
		},
		Set: func(ctx context.Context, n *replica.MemoryNode, key, value string) error {
			return n.Set(ctx, key, value)
		},
		Down:    func(name string) { c.Node(name).SetFault(replica.FaultDown) },
		Hang:    func(name string) { c.Node(name).SetFault(replica.FaultHang) },
		Heal:    func(name string) { c.Node(name).SetFault(replica.FaultNone) },
		Promote: c.Promote,
	}
}

func TestMemory(t *testing.T) { replicatest.RunFakeTime(t, openMemory) }

func TestMemoryRealTime(t *testing.T) {
	t.Parallel()
	replicatest.Run(t, openMemory)
}

func TestRedis(t *testing.T) {
	t.Parallel()
	replicatest.Run(t, openRedis)
}

func TestRedisStatic(t *testing.T) {
	servers := []*redistest.Server{redistest.StartMini(t), redistest.StartMini(t), redistest.StartMini(t)}
	replicatest.Run(t, func(t *testing.T) replicatest.Cluster[*redis.Client] {
		return openStatic(func(i int) *redis.Client { return servers[i].Client(t) })
	})
}

func TestRedisStaticFakeTime(t *testing.T) {
	replicatest.RunFakeTime(t, func(t *testing.T) replicatest.Cluster[*redis.Client] {
		return openStatic(func(int) *redis.Client { return redistest.BubbleClient(t) })
	})
}
