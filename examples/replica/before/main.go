// Before: reading from replicas without replication transparency. The client has
// a list of three replicas and takes them in turn. One of them is dead, so every
// third read fails, and nobody but the client can do anything about it.
//
//	go run ./examples/replica/before
//
// Why is a recursive fallback dangerous? The repair that suggests itself is that
// read, when it fails, takes the failed replica out and calls read again. That
// ends as long as something is left that answers. When the primary does not
// answer either, or the replica comes back into the list, it calls itself until
// the stack is full; and until then each caller sends the load of all its tries
// to whatever still stands, which falls next. ../after tries a bounded number of
// different nodes in a loop, and bounds what may fall on the primary.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/examples/internal/lab"
)

func main() { lab.Main(run) }

// pool is a list of clients.
type pool struct {
	primary  *redis.Client
	replicas []*redis.Client
	next     int
}

// read asks the next replica, whether it is there or not.
func (p *pool) read(ctx context.Context, key string) (name string, value string, err error) {
	i := p.next
	p.next = (p.next + 1) % len(p.replicas)
	value, err = p.replicas[i].Get(ctx, key).Result()
	return fmt.Sprintf("replica-%d", i+1), value, err
}

func run(ctx context.Context, env *lab.Env) error {
	// One Redis plays them all, each behind an address of its own.
	var p pool
	var err error
	if p.primary, err = env.Redis(ctx); err != nil {
		return err
	}
	for i := range 3 {
		node, err := env.StartNode(ctx)
		if err != nil {
			return err
		}
		defer node.Close()
		if i == 1 {
			node.Kill()
		}
		p.replicas = append(p.replicas, node.Client)
	}

	key := env.Prefix() + "user_42"
	if err := p.primary.Set(ctx, key, "Ada", time.Minute).Err(); err != nil {
		return env.Advise("write to the primary", err)
	}
	fmt.Fprintln(env.Out, "One write to the primary. Five reads from three replicas, one of which is dead.")
	failed := 0
	for n := range 5 {
		name, value, err := p.read(ctx, key)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed++
			value = "it does not answer"
		}
		fmt.Fprintf(env.Out, "read %d from %s: %s\n", n+1, name, value)
	}
	fmt.Fprintf(env.Out, "%d of 5 reads failed, though two replicas and the primary have the value.\n", failed)
	return nil
}
