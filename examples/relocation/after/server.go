package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/relocation"
)

// fatal is the number at which a server is killed: when it has noted it, and not
// yet said so.
const fatal = "21"

// note is the effect of a number: a row in a list.
const note = `redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('EXPIRE', KEYS[1], 60)`

func rows(env *lab.Env) string { return env.Prefix() + "{count}:rows" }

// serve is a server, until it is told to end.
func serve(ctx context.Context, env *lab.Env, client *redis.Client) error {
	key, err := env.Secret(ctx)
	if err != nil {
		return err
	}
	// In one step: the row, and the number of the message that it came of. The
	// next server asks for that number when the client comes to it.
	position := relocation.NewRedisPosition(client, &relocation.RedisPositionOptions{
		Prefix: env.Prefix() + "position:", Tag: "count", TTL: time.Minute,
	})
	handle := func(ctx context.Context, s *relocation.Session, m relocation.Message) error {
		_, err := position.Run(ctx, s, m.Seq, note, []string{rows(env)}, []any{m.Data})
		if err == nil && string(m.Data) == fatal {
			<-ctx.Done()
			return ctx.Err()
		}
		return err
	}
	store := relocation.NewRedisStore(client, &relocation.RedisOptions{Prefix: env.Prefix() + "relocation:"})
	hub := relocation.NewHub(store, handle, &relocation.HubOptions{
		Keys: [][]byte{key}, Mode: relocation.Atomic, Position: position.Position,
	})
	defer hub.Close() //nolint:errcheck // it is always nil
	server, err := lab.StartServer(ctx, hub.WebSocket(nil))
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Fprintln(env.Out, "ws"+strings.TrimPrefix(server.URL, "http"))

	<-ctx.Done()
	return hub.Drain(context.WithoutCancel(ctx), &relocation.DrainOptions{Spread: -1, Deadline: 2 * time.Second})
}
