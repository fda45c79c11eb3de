package replica_test

import (
	"context"
	"testing"

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
