// After: the client of ../before on a relocation.Conn. Three servers, each a
// process of its own, share a Redis. The client counts; its server is told to
// end and drains, so that the client moves; the next one is killed in the middle
// of its work; and the client counts on, at the third. All that it does is send:
// the states are for us to see, and to know when to kill what.
//
//	go run ./examples/relocation/after
//
// How does this differ from migration? There the session was at rest between two
// requests, and it was enough that the next process could read it (see
// ../../session). Here the connection is in use while it moves, and with it what
// is under way: written and not read, read and not handled, handled and not yet
// said so. Why is it harder? Because on all that two sides have to agree of which
// one has just come, and because the one that knew may be dead.
//
// Is the buffer exactly once? Not by itself. A buffer that is sent again doubles
// what was handled when its acknowledgement got lost; one that is emptied when
// it was written loses what nobody read. Here messages are numbered, stay in
// the buffer until they are handled, and the next server knows from Redis how
// far the last one came. What a server had begun when it died would come again,
// marked: that it has no second effect is up to the handler, which commits the
// number together with the effect. See server.go. And if the client's process
// dies, its buffer does.
//
// Why explicit states and not a flag? Because there are three answers to "can I
// write to the server?": yes; yes, but it is to be left; no, not until there is
// another. A flag does not tell the last two apart, and so a second loss during
// a move starts a second move. And who watches sees in which order it went.
//
// Which real system needs it? A mobile phone in a moving car, whose call goes on
// from cell to cell; a chat or a game whose servers are replaced while people
// are connected.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency/examples/internal/lab"
)

func main() { lab.Main(run) }

const patience = 20 * time.Second

func run(ctx context.Context, env *lab.Env) error {
	instance := len(env.Args) == 1 && env.Args[0] == "serve" // started below
	if len(env.Args) > 0 && !instance {
		return errors.New("unknown arguments: check that there are none")
	}
	client, err := env.Redis(ctx)
	if err != nil {
		return err
	}
	if instance {
		return serve(ctx, env, client)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no server went on within %v: check Redis", patience))
	defer cancel()

	var addrs []string
	servers := map[string]*lab.Process{}
	for range 3 {
		server, err := env.Start(ctx, "serve")
		if err != nil {
			return err
		}
		defer server.Close()
		addrs = append(addrs, server.Said)
		servers[server.Said] = server
	}
	return advise(ctx, count(ctx, env, client, addrs, servers))
}
