package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/replica"
)

var replicationRow = replication((*lab.Node).Kill, &replica.Options{ProbeInterval: 100 * time.Millisecond})

// replication is the row with a way to kill a replica, and a pool's options.
func replication(kill func(*lab.Node), opts *replica.Options) row {
	const reads = 6 // two at each replica, if they take turns
	return row{
		name: "replication",
		done: "one of three replicas died",

		without: onReplicas(func(ctx context.Context, c *copies) (string, error) {
			if err := c.primary.Set(ctx, c.key, "Ada", time.Minute).Err(); err != nil {
				return "", err
			}
			turn := func() (failed int) {
				for n := range reads {
					if value, err := c.replicas[n%len(c.replicas)].Client.Get(ctx, c.key).Result(); err != nil || value != "Ada" {
						failed++
					}
				}
				return failed
			}
			if failed := turn(); failed != 0 {
				return "", fmt.Errorf("before the death %d of %d reads failed", failed, reads)
			}
			kill(c.replicas[1])
			if failed := turn(); failed != reads/3 {
				return "", fmt.Errorf("after the death %d of %d reads failed", failed, reads)
			}
			return "an error for every third read", nil
		}),
		with: onReplicas(func(ctx context.Context, c *copies) (string, error) {
			pool, err := replica.New(replica.NewRedisBackend(&replica.RedisOptions{StaticRoles: true}), c.nodes(), opts)
			if err != nil {
				return "", err
			}
			defer pool.Close() //nolint:errcheck // it is always nil
			err = pool.Write(ctx, nil, func(ctx context.Context, client *redis.Client) error {
				return client.Set(ctx, c.key, "Ada", time.Minute).Err()
			})
			if err != nil {
				return "", err
			}
			read := func(when string) error {
				for range reads {
					value, err := replica.Query(ctx, pool, nil, func(ctx context.Context, client *redis.Client) (string, error) {
						return client.Get(ctx, c.key).Result()
					})
					if err != nil || value != "Ada" {
						return errors.Join(fmt.Errorf("%s a read gave %q", when, value), err)
					}
				}
				return nil
			}
			if err := awaitHealthy(ctx, pool, 4); err != nil {
				return "", err
			}
			if err := read("before the death"); err != nil {
				return "", err
			}
			kill(c.replicas[1])
			if err := read("after the death"); err != nil {
				return "", err
			}
			if err := awaitHealthy(ctx, pool, 3); err != nil {
				return "", err
			}
			if calls := pool.Nodes()[0].Calls; calls != 1 {
				return "", fmt.Errorf("the primary got %d calls, and there was one write", calls)
			}
			// And when there is no replica left, the primary stands in.
			kill(c.replicas[0])
			kill(c.replicas[2])
			if err := read("after the death of all"); err != nil {
				return "", err
			}
			if stats := pool.Stats(); stats.ToPrimary != reads {
				return "", fmt.Errorf("%d of %d reads went to the primary", stats.ToPrimary, reads)
			}
			return "all reads answered; 3 of 4 nodes healthy; with no replica left, the primary", nil
		}),
	}
}

// awaitHealthy waits until n nodes are healthy.
func awaitHealthy(ctx context.Context, pool *replica.Pool[*redis.Client], n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, soon, fmt.Errorf("there never were %d healthy nodes", n))
	defer cancel()
	for pool.Stats().Healthy != n {
		if lab.Think(ctx, 5*time.Millisecond) != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// copies are a primary and three replicas, all played by the Redis of the run.
type copies struct {
	key      string
	primary  *redis.Client
	replicas []*lab.Node
}

func (c *copies) nodes() []replica.Node[*redis.Client] {
	nodes := []replica.Node[*redis.Client]{{Name: "primary", Role: replica.RolePrimary, Client: c.primary}}
	for i, n := range c.replicas {
		nodes = append(nodes, replica.Node[*redis.Client]{Name: fmt.Sprint("replica-", i+1), Role: replica.RoleReplica, Client: n.Client})
	}
	return nodes
}

func onReplicas(f func(context.Context, *copies) (string, error)) func(context.Context, *lab.Env) (string, error) {
	return func(ctx context.Context, env *lab.Env) (string, error) {
		c := &copies{key: env.Prefix() + "user_42"}
		var err error
		if c.primary, err = env.Redis(ctx); err != nil {
			return "", err
		}
		for range 3 {
			n, err := env.StartNode(ctx)
			if err != nil {
				return "", err
			}
			defer n.Close()
			c.replicas = append(c.replicas, n)
		}
		return f(ctx, c)
	}
}
