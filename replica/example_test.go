package replica_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/replica"
)

// Reads are spread, writes go to the primary, and neither names a node.
func ExampleNew() {
	ctx := context.Background()
	cluster := replica.NewMemoryCluster(nil) // one primary and two replicas
	pool, err := replica.New(cluster, cluster.Nodes(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	err = pool.Write(ctx, nil, func(ctx context.Context, n *replica.MemoryNode) error {
		fmt.Println("written at", n.Name())
		return n.Set(ctx, "user:7", "ada")
	})
	if err != nil {
		fmt.Println(err)
	}
	name, err := replica.Query(ctx, pool, nil, func(ctx context.Context, n *replica.MemoryNode) (string, error) {
		name, _, err := n.Get(ctx, "user:7")
		return name, err
	})
	fmt.Println(name, err)
	// Output:
	// written at node-1
	// ada <nil>
}

// Redis servers tell their roles themselves. This one is alone, so that it
// serves the reads too.
func ExampleNewRedisBackend() {
	ctx := context.Background()
	client, done := redistest.Example() // a client of your own
	defer done()

	nodes := []replica.Node[*redis.Client]{{Name: "a", Role: replica.RolePrimary, Client: client}}
	backend := replica.NewRedisBackend(&replica.RedisOptions{
		StaticRoles: true, // for an embedded server, which has no roles to tell
	})
	pool, err := replica.New(backend, nodes, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	err = pool.Write(ctx, nil, func(ctx context.Context, c *redis.Client) error {
		return c.Set(ctx, "user:7", "ada", time.Minute).Err()
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(replica.Query(ctx, pool, nil, func(ctx context.Context, c *redis.Client) (string, error) {
		return c.Get(ctx, "user:7").Result()
	}))
	// Output: ada <nil>
}

// A replica that does not answer costs no read.
func ExamplePool_Read() {
	ctx := context.Background()
	cluster := replica.NewMemoryCluster(nil)
	cluster.Node("node-2").SetFault(replica.FaultDown)
	pool, _ := replica.New(cluster, cluster.Nodes(), nil)
	defer pool.Close()

	for range 3 {
		err := pool.Read(ctx, nil, func(ctx context.Context, n *replica.MemoryNode) error {
			fmt.Println("read at", n.Name())
			_, _, err := n.Get(ctx, "user:7")
			return err
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// read at node-3
	// read at node-3
	// read at node-3
}

// A write whose answer was lost is not made again, and says so. Here it has
// been executed.
func ExamplePool_Write() {
	ctx := context.Background()
	cluster := replica.NewMemoryCluster(nil)
	pool, _ := replica.New(cluster, cluster.Nodes(), nil)
	defer pool.Close()

	cluster.Node("node-1").SetFault(replica.FaultLost)
	err := pool.Write(ctx, nil, func(ctx context.Context, n *replica.MemoryNode) error {
		return n.Set(ctx, "balance", "900")
	})
	fmt.Println(errors.Is(err, replica.ErrMaybeExecuted))
	fmt.Println(cluster.Node("node-1").Executed())
	// Output:
	// true
	// 1
}

// Writes follow a failover.
func ExampleMemoryCluster_Promote() {
	ctx := context.Background()
	cluster := replica.NewMemoryCluster(nil)
	pool, _ := replica.New(cluster, cluster.Nodes(), nil)
	defer pool.Close()

	write := func() {
		err := pool.Write(ctx, nil, func(ctx context.Context, n *replica.MemoryNode) error {
			fmt.Println("sent to", n.Name())
			return n.Set(ctx, "key", "value")
		})
		fmt.Println(err)
	}
	write()
	cluster.Promote("node-2") // node-1 is a replica now, and refuses
	write()
	write()
	// Output:
	// sent to node-1
	// <nil>
	// sent to node-1
	// sent to node-2
	// <nil>
	// sent to node-2
	// <nil>
}

// Without a primary, writes fail at once and reads are served.
func ExamplePool_Nodes() {
	ctx := context.Background()
	cluster := replica.NewMemoryCluster(nil)
	cluster.Node("node-1").SetFault(replica.FaultDown)
	pool, _ := replica.New(cluster, cluster.Nodes(), nil)
	defer pool.Close()

	err := pool.Write(ctx, nil, func(ctx context.Context, n *replica.MemoryNode) error {
		return n.Set(ctx, "key", "value")
	})
	fmt.Println(errors.Is(err, replica.ErrNoPrimary))
	for _, n := range pool.Nodes() {
		fmt.Println(n.Name, n.State)
	}
	fmt.Println(pool.Stats().Healthy, "healthy")
	// Output:
	// true
	// node-1 down
	// node-2 up
	// node-3 up
	// 2 healthy
}
