// After: the session of ../before in a session.SessionStore outside of the
// processes. Process A saves the session of user_42 as JSON, for 3600 s, and
// ends. Process B, which has nothing in common with A but the store, serves the
// user's next request.
//
//	go run ./examples/session/after
//
// runs both, one after the other. With a Redis that lasts (REDIS_URL, REDIS_HOST)
// they can be run apart, also on two machines:
//
//	go run ./examples/session/after save
//	go run ./examples/session/after load
//
// What does this say about stateless logic and stateful stores? The state has
// not gone: it has moved to a place that is made to keep it. The processes are
// left with logic alone, so any of them can serve any request, be stopped, be
// replaced and be multiplied; and the store is now what must not be lost, and
// what can be slow or gone, which is why its calls take a context and return an
// error. That nobody saved (ErrNotFound) and that the store did not answer are
// two errors: only the first means that the user has no session.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/session"
)

func main() { lab.Main(run) }

const user = "user_42"

type state struct {
	Cart  []string `json:"cart"`
	Promo string   `json:"promo"`
}

func run(ctx context.Context, env *lab.Env) error {
	if len(env.Args) > 0 {
		env.Keep() // save and load that were started by hand have to find each other
	}
	client, err := env.Redis(ctx)
	if err != nil {
		return err
	}
	store := session.NewRedisStore(client, &session.RedisOptions{Prefix: env.Prefix() + "session:"})
	switch {
	case len(env.Args) == 0:
		return both(ctx, env)
	case env.Args[0] == "save":
		return save(ctx, env, store)
	case env.Args[0] == "load":
		return load(ctx, env, store)
	}
	return lab.Usage("save, load, or nothing for both")
}

func both(ctx context.Context, env *lab.Env) error {
	// This program again, in three processes, one after the other.
	for _, process := range []string{"load", "save", "load"} {
		if err := env.Processes(ctx, process); err != nil {
			return err
		}
	}
	fmt.Fprintln(env.Out, "The session outlived the process that saved it.")
	return nil
}

func save(ctx context.Context, env *lab.Env, store session.SessionStore) error {
	s := state{Cart: []string{"book", "pen"}, Promo: "WELCOME10"}
	if err := session.SaveJSON(ctx, store, user, s, 3600*time.Second); err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "A: saved the session of %s for an hour\n", user)
	return nil
}

func load(ctx context.Context, env *lab.Env, store session.SessionStore) error {
	s, err := session.LoadJSON[state](ctx, store, user)
	if errors.Is(err, session.ErrNotFound) {
		fmt.Fprintf(env.Out, "B: no session of %s: A never ran, or its hour is over\n", user)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "B: %s has %v in the cart and the promo code %s\n", user, s.Cart, s.Promo)
	return nil
}
