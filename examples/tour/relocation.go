package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/coder/websocket"
	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/relocation"
)

const (
	burst = 5           // how many numbers a client sends at a time
	fatal = 4*burst + 1 // the number whose server is killed before it can say that it was handled
)

var relocationRow = row{
	name: "relocation",
	done: "the server of a live connection was drained, and the next one killed",

	without: func(ctx context.Context, env *lab.Env) (string, error) {
		written, answered := 0, 0
		for _, end := range []struct {
			server func(*lab.Process)
			status websocket.StatusCode
		}{{(*lab.Process).Close, websocket.StatusGoingAway}, {(*lab.Process).Kill, -1}} {
			server, err := env.Start(ctx, "relocation serve-plain")
			if err != nil {
				return "", err
			}
			defer server.Close()
			status, err := countPlain(ctx, server, &written, end.server)
			if err != nil {
				return "", err
			}
			if status != end.status {
				return "", fmt.Errorf("the connection ended with status %d", status)
			}
			answered += len(server.Printed())
		}
		if lost := written - answered; lost != 2*burst || written != 4*burst {
			return "", fmt.Errorf("%d of %d numbers were lost", lost, written)
		}
		return fmt.Sprintf("two broken connections; %d of %d successful writes were lost", written-answered, written), nil
	},
	with: func(ctx context.Context, env *lab.Env) (string, error) {
		client, err := env.Redis(ctx)
		if err != nil {
			return "", err
		}
		var addrs []string
		servers := map[string]*lab.Process{}
		for range 3 {
			server, err := env.Start(ctx, "relocation serve")
			if err != nil {
				return "", err
			}
			defer server.Close()
			addrs = append(addrs, server.Said)
			servers[server.Said] = server
		}
		ctx, cancel := context.WithTimeoutCause(ctx, 2*soon, errors.New("the client did not get on"))
		defer cancel()
		conn, err := relocation.Dial(ctx, relocation.Addresses(addrs), &relocation.WebSocketDialer{},
			&relocation.DialOptions{MinBackoff: 20 * time.Millisecond})
		if err != nil {
			return "", err
		}
		defer conn.Close(ctx) //nolint:errcheck // what counts was checked by then
		sent, err := countOn(ctx, env, client, conn, servers)
		if err != nil {
			return "", err
		}
		if stats := conn.Stats(); stats.Moves != 1 || stats.Losses != 1 {
			return "", fmt.Errorf("%d servers were left as planned, and %d lost", stats.Moves, stats.Losses)
		}
		return fmt.Sprintf("no error; all %d numbers handled once, and in order", sent), checkRows(ctx, env, client, sent)
	},
	parts: map[string]func(context.Context, *lab.Env) error{
		"serve-plain": servePlain(burst, websocket.StatusGoingAway),
		"serve":       withClient(hubServer{atomic: true, oneKey: true, drains: true}.serve),
	},
}

// countPlain counts over a plain WebSocket until the server has ended, and
// returns how the connection did.
func countPlain(ctx context.Context, server *lab.Process, written *int, end func(*lab.Process)) (websocket.StatusCode, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, server.Said, nil) //nolint:bodyclose // the connection has it
	if err != nil {
		return 0, err
	}
	defer conn.CloseNow() //nolint:errcheck // nothing is left to do
	for n := range 2 * burst {
		if err := conn.Write(ctx, websocket.MessageText, strconv.AppendInt(nil, int64(n), 10)); err != nil {
			return 0, err
		}
		*written++
		if n >= burst {
			continue // the server is busy
		}
		if _, _, err := conn.Read(ctx); err != nil {
			return 0, err
		}
	}
	go end(server)
	for err == nil {
		_, _, err = conn.Read(ctx)
	}
	return websocket.CloseStatus(err), ctx.Err()
}

// countOn sends a burst of numbers whenever the state of conn changes, while one
// server is drained and the next one killed, and returns how many.
func countOn(ctx context.Context, env *lab.Env, client *redis.Client, conn *relocation.Conn, servers map[string]*lab.Process) (sent int, err error) {
	send := func() error {
		for range burst {
			sent++
			if err := conn.Send(ctx, strconv.AppendInt(nil, int64(sent), 10)); err != nil {
				return err
			}
		}
		return nil
	}
	changes := conn.Changes(ctx)
	if err := send(); err != nil {
		return sent, err
	}
	go servers[conn.Addr()].Close() // which drains
	want := []relocation.State{relocation.Migrating, relocation.Reconnecting, relocation.Connected, relocation.Reconnecting, relocation.Connected}
	var saw []relocation.State
	for change := range changes {
		saw = append(saw, change.To)
		if err := send(); err != nil {
			return sent, err
		}
		switch {
		case len(saw) > len(want) || !slices.Equal(saw, want[:len(saw)]):
			return sent, fmt.Errorf("the states were %v", saw)
		case len(saw) == len(want):
			return sent, conn.Flush(ctx)
		case change.To == relocation.Connected:
			if err := send(); err != nil {
				return sent, err
			}
			if err := awaitRows(ctx, env, client, fatal); err != nil {
				return sent, err
			}
			servers[conn.Addr()].Kill()
		}
	}
	return sent, context.Cause(ctx)
}
