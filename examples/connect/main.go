// Connect tests the connection to Redis, step by step: PING, then SET with an
// expiry of 60 seconds, then GET. When a step fails it says which one, why, and
// what to check.
//
//	go run ./examples/connect
//
// Which Redis that is, and who asks, comes from the environment or from .env
// (see .gitignore: it is never committed), so that no credential is in the code:
// REDIS_URL, or REDIS_HOST, REDIS_PORT, REDIS_USERNAME, REDIS_PASSWORD and
// REDIS_TLS. With none of them set an embedded Redis starts.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/go-transparency/transparency/examples/internal/lab"
)

func main() { lab.Main(run) }

func run(ctx context.Context, env *lab.Env) error {
	client, err := env.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()

	// Reached, and let in: host, port, TLS, user and password are right.
	if err := client.Ping(ctx).Err(); err != nil {
		return env.Advise("PING", err)
	}
	fmt.Fprintln(env.Out, "PING: ok")

	// Allowed to write. The expiry removes the key even if this process dies; Del
	// removes it now, also when Ctrl-C has ended ctx by then.
	key := "lab:connect:" + rand.Text()
	defer func() { _ = client.Del(context.WithoutCancel(ctx), key).Err() }()
	if err := client.Set(ctx, key, "hello", 60*time.Second).Err(); err != nil {
		return env.Advise("SET a key for 60 s", err)
	}
	fmt.Fprintln(env.Out, "SET, to expire in 60 s: ok")

	// Allowed to read, and what was written is what is there.
	value, err := client.Get(ctx, key).Result()
	if err != nil {
		return env.Advise("GET the key that was just set", err)
	}
	if value != "hello" {
		return fmt.Errorf("GET returned another value than was SET: check who else writes to %s", env.Where())
	}
	fmt.Fprintln(env.Out, "GET: ok, the same value")
	fmt.Fprintln(env.Out, "Connected.")
	return nil
}
