package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/replica"
)

// replicaComparisons are of one read. A Pool calls back on a goroutine of its
// own and under a time limit, so that a node which hangs holds nobody; the
// peers of replica/read have nothing of that, that of replica/call has it and
// no more. No ratio has a target; the round trip is what the pool promises.
var replicaComparisons = []comparison{
	{name: "replica/read", versus: "GET with the bare client", redis: true,
		ours: readPool, peer: readClient, target: target{trips: 1}},
	{name: "replica/call", versus: "a goroutine under WithTimeout",
		ours: callPool, peer: callGoroutine},
}

// readPool has a primary and two replicas, with a client each: all the same
// server, which is told apart by nothing but the roles they are given.
func readPool(ctx context.Context, r *rig) (s *side, err error) {
	const key = "bench"
	clients := []*redis.Client{newClient(r), newClient(r)}
	closeClients := func() error { return errors.Join(clients[0].Close(), clients[1].Close()) }
	pool, err := replica.New(
		replica.NewRedisBackend(&replica.RedisOptions{StaticRoles: true}),
		[]replica.Node[*redis.Client]{
			{Name: "a", Role: replica.RolePrimary, Client: r.client},
			{Name: "b", Role: replica.RoleReplica, Client: clients[0]},
			{Name: "c", Role: replica.RoleReplica, Client: clients[1]},
		},
		&replica.Options{
			MaxConcurrent: 3 * r.client.Options().PoolSize,
			ProbeInterval: time.Hour, // or a probe could be counted as a read's command
		})
	if err != nil {
		return nil, errors.Join(err, closeClients())
	}
	closeAll := func() error { return errors.Join(pool.Close(), closeClients()) }
	var written value
	reads := uint64(0)
	read := func(ctx context.Context) (string, error) {
		reads++
		return replica.Query(ctx, pool, nil, func(ctx context.Context, c *redis.Client) (string, error) {
			return c.Get(ctx, key).Result()
		})
	}
	write := func(ctx context.Context) error {
		written++
		return pool.Write(ctx, nil, func(ctx context.Context, c *redis.Client) error {
			return c.Set(ctx, key, written.String(), 0).Err()
		})
	}
	if err := errors.Join(write(ctx), allUp(ctx, pool)); err != nil {
		return nil, errors.Join(err, closeAll())
	}
	return &side{
		op: func(ctx context.Context) error {
			got, err := read(ctx)
			if err != nil {
				return err
			}
			return written.check(got)
		},
		verify: func(ctx context.Context) error {
			if err := write(ctx); err != nil {
				return err
			}
			for range 100 { // the replicas share them
				got, err := read(ctx)
				if err == nil {
					err = written.check(got)
				}
				if err != nil {
					return err
				}
			}
			return onlyReplicas(pool, reads)
		},
		close: closeAll,
	}, nil
}

// newClient returns one more client with the options of the rig's.
func newClient(r *rig) *redis.Client {
	opts := *r.client.Options()
	return redis.NewClient(&opts)
}

// allUp waits until every node is in use.
func allUp[C any](ctx context.Context, pool *replica.Pool[C]) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		if stats := pool.Stats(); stats.Healthy == stats.Nodes {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("not all nodes are up: %w", err)
		}
	}
}

// onlyReplicas proves that so many reads were served at once, by both replicas
// and by nobody else.
func onlyReplicas[C any](pool *replica.Pool[C], reads uint64) error {
	stats, served := pool.Stats(), uint64(0)
	for _, n := range pool.Nodes() {
		if n.Role == replica.RolePrimary {
			continue
		}
		if n.Calls == 0 {
			return fmt.Errorf("node %s was never read from", n.Name)
		}
		served += n.Calls
	}
	if stats.Reads != reads || served != reads || stats.Retries != 0 || stats.Left != 0 {
		return fmt.Errorf("%d reads, %d of them at replicas; the pool says %+v", reads, served, stats)
	}
	return nil
}

func readClient(ctx context.Context, r *rig) (*side, error) {
	const key = "peer"
	var written value
	write := func(ctx context.Context) error {
		written++
		return r.client.Set(ctx, key, written.String(), 0).Err()
	}
	if err := write(ctx); err != nil {
		return nil, err
	}
	op := func(ctx context.Context) error {
		got, err := r.client.Get(ctx, key).Result()
		if err != nil {
			return err
		}
		return written.check(got)
	}
	return &side{op: op, verify: func(ctx context.Context) error {
		if err := write(ctx); err != nil {
			return err
		}
		return op(ctx)
	}}, nil
}

// A value tells which write it is of.
type value int

func (v value) String() string { return "value " + strconv.Itoa(int(v)) }

func (v value) check(got string) error {
	if n, ok := strings.CutPrefix(got, "value "); ok {
		if i, err := strconv.Atoi(n); err == nil && value(i) == v {
			return nil
		}
	}
	return fmt.Errorf("read %q after write %d", got, v)
}

// callPool is what a read costs beside what is read: all that happens around a
// callback that does nothing.
func callPool(ctx context.Context, _ *rig) (*side, error) {
	cluster := replica.NewMemoryCluster(nil)
	pool, err := replica.New(cluster, cluster.Nodes(), nil)
	if err != nil {
		return nil, err
	}
	reads := uint64(0)
	nothing := func(context.Context, *replica.MemoryNode) error { return nil }
	op := func(ctx context.Context) error {
		reads++
		return pool.Read(ctx, nil, nothing)
	}
	if err := errors.Join(op(ctx), allUp(ctx, pool)); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return &side{
		op: op,
		verify: func(ctx context.Context) error {
			for range 100 {
				if err := op(ctx); err != nil {
					return err
				}
			}
			return onlyReplicas(pool, reads)
		},
		close: pool.Close,
	}, nil
}

// callGoroutine is the least that returns when the time is over, whatever the
// callback does.
func callGoroutine(context.Context, *rig) (*side, error) {
	call := func(ctx context.Context, fn func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, replica.DefaultAttemptTimeout)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- fn(ctx) }()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	nothing := func(context.Context) error { return nil }
	return &side{
		op: func(ctx context.Context) error { return call(ctx, nothing) },
		verify: func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			heal := make(chan struct{})
			defer close(heal)
			err := call(ctx, func(context.Context) error {
				cancel()
				<-heal
				return nil
			})
			return refused("call that hangs", err, context.Canceled)
		},
	}, nil
}
