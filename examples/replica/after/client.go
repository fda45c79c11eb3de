package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/replica"
)

// use is the client: one write, and five reads at the same time.
func use(ctx context.Context, env *lab.Env, pool *replica.Pool[*redis.Client]) error {
	err := pool.Write(ctx, nil, func(ctx context.Context, c *redis.Client) error {
		return c.Set(ctx, env.Prefix()+"user_42", "Ada", time.Minute).Err()
	})
	if err != nil {
		return advise(err)
	}
	for unknown(pool.Nodes()) { // the first call waits for the primary's answer alone
		if err := lab.Think(ctx, time.Millisecond); err != nil {
			return err
		}
	}

	const n = 5
	var values [n]string
	var errs [n]error
	var done, begun sync.WaitGroup
	begun.Add(n)
	for i := range n {
		done.Go(func() {
			arrive := sync.OnceFunc(begun.Done)
			defer arrive()
			// Each is under way until all are, so that load spreads them, and not luck.
			values[i], errs[i] = read(ctx, env, pool, func() { arrive(); begun.Wait() })
		})
	}
	done.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return advise(err)
	}
	fmt.Fprintf(env.Out, "One write, five reads at once: %s.\n", strings.Join(values[:], ", "))
	report(env, pool)
	return nil
}

func read(ctx context.Context, env *lab.Env, pool *replica.Pool[*redis.Client], meanwhile func()) (string, error) {
	return replica.Query(ctx, pool, nil, func(ctx context.Context, c *redis.Client) (string, error) {
		meanwhile()
		return c.Get(ctx, env.Prefix()+"user_42").Result()
	})
}

func unknown(nodes []replica.NodeStatus) bool {
	return slices.ContainsFunc(nodes, func(n replica.NodeStatus) bool { return n.State == replica.StateUnknown })
}

func report(env *lab.Env, pool *replica.Pool[*redis.Client]) {
	var shares []string
	for _, n := range pool.Nodes() {
		fmt.Fprintf(env.Out, "  %s: %v, %v\n", n.Name, n.Role, n.State)
		if n.Role == replica.RoleReplica && n.Calls > 0 {
			shares = append(shares, fmt.Sprint(n.Calls))
		}
	}
	slices.Sort(shares)
	stats := pool.Stats()
	fmt.Fprintf(env.Out, "%d of %d nodes are healthy. The replicas' shares of the reads: %s.\n",
		stats.Healthy, stats.Nodes, strings.Join(shares, " and "))
}

func advise(err error) error {
	switch {
	case errors.Is(err, redis.Nil):
		return fmt.Errorf("%w: a replica has not heard of the write yet: check its lag", err)
	case errors.Is(err, transparency.ErrInvalid):
		return fmt.Errorf("%w: check the list of addresses", err)
	case errors.Is(err, transparency.ErrDenied):
		return fmt.Errorf("%w: check REDIS_USERNAME and REDIS_PASSWORD", err)
	case errors.Is(err, transparency.ErrUnavailable):
		return fmt.Errorf("%w: check the addresses, and that the servers run", err)
	}
	return err
}
