package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/session"
)

type cart struct {
	Items []string `json:"items"`
	Promo string   `json:"promo"`
}

func (c cart) String() string { return fmt.Sprintf("%d items, promo %s", len(c.Items), c.Promo) }

var sampleCart = cart{Items: []string{"book", "pen"}, Promo: "WELCOME10"}

// nothing is what a process prints that has no session of the user.
const nothing = "no session"

var migrationRow = row{
	name: "migration",
	done: "the process that saved the session ended; another one got the next request",

	without: func(ctx context.Context, env *lab.Env) (string, error) {
		saw, err := saveAndLoad(ctx, env, "migration save-in-map", "migration load-from-map")
		if err == nil && saw != nothing {
			err = fmt.Errorf("the other process knew: %s", saw)
		}
		return saw + ": the cart was gone", err
	},
	with: func(ctx context.Context, env *lab.Env) (string, error) {
		saw, err := saveAndLoad(ctx, env, "migration save", "migration load")
		if err == nil && saw != sampleCart.String() {
			err = fmt.Errorf("the other process knew: %s", saw)
		}
		return "the same session: " + saw, err
	},
	parts: map[string]func(context.Context, *lab.Env) error{
		"save-in-map": func(_ context.Context, env *lab.Env) error {
			sessions["user_42"] = sampleCart
			fmt.Fprintln(env.Out, sessions["user_42"])
			return nil
		},
		"load-from-map": func(_ context.Context, env *lab.Env) error {
			if c, found := sessions["user_42"]; found {
				fmt.Fprintln(env.Out, c)
			} else {
				fmt.Fprintln(env.Out, nothing)
			}
			return nil
		},
		"save": withStore(func(ctx context.Context, env *lab.Env, store session.SessionStore) error {
			fmt.Fprintln(env.Out, sampleCart)
			return session.SaveJSON(ctx, store, "user_42", sampleCart, time.Minute)
		}),
		"load": withStore(func(ctx context.Context, env *lab.Env, store session.SessionStore) error {
			c, err := session.LoadJSON[cart](ctx, store, "user_42")
			if errors.Is(err, session.ErrNotFound) {
				fmt.Fprintln(env.Out, nothing)
				return nil
			}
			if err == nil {
				fmt.Fprintln(env.Out, c)
			}
			return err
		}),
	},
}

// sessions is the map of a process.
var sessions = map[string]cart{}

func withStore(f func(context.Context, *lab.Env, session.SessionStore) error) func(context.Context, *lab.Env) error {
	return func(ctx context.Context, env *lab.Env) error {
		client, err := env.Redis(ctx)
		if err != nil {
			return err
		}
		return f(ctx, env, session.NewRedisStore(client, &session.RedisOptions{Prefix: env.Prefix() + "session:"}))
	}
}

// saveAndLoad runs two processes, one after the other, and returns what the
// second one knew.
func saveAndLoad(ctx context.Context, env *lab.Env, save, load string) (string, error) {
	saved, err := env.Output(ctx, save)
	if err != nil {
		return "", err
	}
	if saved != sampleCart.String() {
		return "", fmt.Errorf("the first process saved: %s", saved)
	}
	return env.Output(ctx, load)
}
