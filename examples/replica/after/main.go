// After: the reads of ../before through a replica.ReplicaPool. Who calls says
// whether it is a read or a write, and not where it goes: reads are spread over
// the replicas that are up, a write goes to the primary.
//
//	go run ./examples/replica/after
//
// lets the Redis of the run play a primary and three replicas, one of them dead,
// and then kills the others. With servers of your own, which are asked for their
// roles:
//
//	go run ./examples/replica/after localhost:6379,localhost:6380,localhost:6381
//
// Is this read-your-writes? No: a write has reached the primary when it returns,
// and a replica some time later (here at once, for behind the addresses is one
// server). What would make it so: reading from the primary what was just
// written, or asking for a replica that has come as far as the write. A bound on
// the lag (ReadOptions.MaxLag) bounds how old a read can be, which is less.
//
// Why is a recursive fallback dangerous? ../before says why. Here a read tries a
// bounded number of different nodes, in a loop. The primary is one of them, once,
// and only as long as no more than a part of all reads falls on it.
//
// What stays visible, on purpose: a write that fails is not made again behind
// the caller's back, and the error says whether it can have happened.
package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/replica"
)

func main() { lab.Main(run) }

func run(ctx context.Context, env *lab.Env) error {
	switch len(env.Args) {
	case 0:
		return show(ctx, env)
	case 1:
		return showServers(ctx, env, env.Args[0])
	}
	return lab.Usage("host:port,host:port,… or nothing")
}

func show(ctx context.Context, env *lab.Env) error {
	primary, err := env.Redis(ctx)
	if err != nil {
		return err
	}
	// One Redis plays them all, each replica behind an address of its own. It
	// cannot tell which one it is, so the roles are given.
	nodes := []replica.Node[*redis.Client]{{Name: "primary", Role: replica.RolePrimary, Client: primary}}
	var replicas []*lab.Node
	for _, name := range []string{"replica-1", "replica-2", "replica-3"} {
		node, err := env.StartNode(ctx)
		if err != nil {
			return err
		}
		defer node.Close()
		replicas = append(replicas, node)
		nodes = append(nodes, replica.Node[*redis.Client]{Name: name, Role: replica.RoleReplica, Client: node.Client})
	}
	replicas[1].Kill()
	pool, err := replica.New(replica.NewRedisBackend(&replica.RedisOptions{StaticRoles: true}), nodes, nil)
	if err != nil {
		return advise(err)
	}
	defer pool.Close() //nolint:errcheck // it is always nil
	if err := use(ctx, env, pool); err != nil {
		return err
	}

	replicas[0].Kill()
	replicas[2].Kill()
	value, err := read(ctx, env, pool, func() {})
	if err != nil {
		return advise(err)
	}
	fmt.Fprintf(env.Out, "All replicas are dead now. A read: %s; reads at the primary: %d.\n", value, pool.Stats().ToPrimary)
	return nil
}

// showServers is for servers that are real, and say what they are.
func showServers(ctx context.Context, env *lab.Env, list string) error {
	var nodes []replica.Node[*redis.Client]
	for addr := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		client, err := env.ClientAt(addr)
		if err != nil {
			return err
		}
		defer client.Close() //nolint:errcheck // nothing is left to do
		nodes = append(nodes, replica.Node[*redis.Client]{Name: addr, Client: client})
	}
	pool, err := replica.New(replica.NewRedisBackend(nil), nodes, nil)
	if err != nil {
		return advise(err)
	}
	defer pool.Close() //nolint:errcheck // it is always nil
	err = use(ctx, env, pool)
	_ = pool.Write(context.WithoutCancel(ctx), nil, func(ctx context.Context, c *redis.Client) error {
		return c.Del(ctx, env.Prefix()+"user_42").Err()
	})
	return err
}
