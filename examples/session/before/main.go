// Before: a session kept in a map of the process, without migration
// transparency. Process A logs user_42 in and keeps the cart; then the user's
// next request is served by process B, because A was restarted, replaced, or
// because a load balancer chose so. B finds nothing.
//
//	go run ./examples/session/before
//
// Why would a global variable fail even on one machine? Because each process has
// its own memory: a variable is global to a process, not to a computer. A and B
// below are the same program on the same machine, started a moment apart, and
// share nothing. ../after keeps the session where both can reach it.
package main

import (
	"context"
	"fmt"

	"github.com/go-transparency/transparency/examples/internal/lab"
)

func main() { lab.Main(run) }

type session struct {
	Cart  []string
	Promo string
}

// sessions is what this process knows, and ends with it.
var sessions = map[string]session{}

func run(ctx context.Context, env *lab.Env) error {
	switch {
	case len(env.Args) == 0:
		// This program again, in one process and then in another.
		if err := env.Processes(ctx, "save"); err != nil {
			return err
		}
		if err := env.Processes(ctx, "load"); err != nil {
			return err
		}
		fmt.Fprintln(env.Out, "The session ended with the process that kept it.")
		return nil
	case env.Args[0] == "save":
		save(env)
		return nil
	case env.Args[0] == "load":
		load(env)
		return nil
	}
	return lab.Usage("save, load, or nothing for both")
}

func save(env *lab.Env) {
	sessions["user_42"] = session{Cart: []string{"book", "pen"}, Promo: "WELCOME10"}
	fmt.Fprintf(env.Out, "A: saved the session of user_42; this process knows %d\n", len(sessions))
}

func load(env *lab.Env) {
	s, found := sessions["user_42"]
	if !found {
		fmt.Fprintf(env.Out, "B: no session of user_42; this process knows %d\n", len(sessions))
		return
	}
	fmt.Fprintf(env.Out, "B: user_42 has %v in the cart and the promo code %s\n", s.Cart, s.Promo)
}
