package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/relocation"
)

// listen serves h, says where, and returns when ctx has ended.
func listen(ctx context.Context, env *lab.Env, h http.Handler) (*lab.Server, error) {
	server, err := lab.StartServer(ctx, h)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(env.Out, "ws"+strings.TrimPrefix(server.URL, "http"))
	<-ctx.Done()
	return server, nil
}

// servePlain is a server that prints and answers so many numbers, and then is
// busy with something else. Asked to end, it says so with status.
func servePlain(numbers int, status websocket.StatusCode) func(context.Context, *lab.Env) error {
	return func(ctx context.Context, env *lab.Env) error {
		left := make(chan struct{})
		server, err := listen(ctx, env, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(left) // there is one client
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			// An end of ctx in the middle of a call would break the connection.
			whole := context.WithoutCancel(ctx)
			for range numbers {
				_, number, err := conn.Read(whole)
				if err != nil {
					break
				}
				fmt.Fprintln(env.Out, string(number))
				if err := conn.Write(whole, websocket.MessageText, number); err != nil {
					break
				}
			}
			<-ctx.Done()
			_ = conn.Close(status, "")
		}))
		if err != nil {
			return err
		}
		defer server.Close()
		select {
		case <-left:
		case <-time.After(time.Second): // nobody came
		}
		return nil
	}
}

// A hubServer is a server of the row; each field is something that it has to do.
type hubServer struct{ atomic, oneKey, drains bool }

func (h hubServer) serve(ctx context.Context, env *lab.Env, client *redis.Client) error {
	opts := &relocation.HubOptions{HandoffGrace: 100 * time.Millisecond}
	if h.oneKey {
		key, err := env.Secret(ctx)
		if err != nil {
			return err
		}
		opts.Keys = [][]byte{key}
	}
	note := func(ctx context.Context, _ *relocation.Session, m relocation.Message) error {
		return client.RPush(ctx, rowsKey(env), m.Data).Err()
	}
	if h.atomic {
		position := relocation.NewRedisPosition(client, &relocation.RedisPositionOptions{Prefix: env.Prefix() + "position:", Tag: "count", TTL: time.Minute})
		opts.Mode, opts.Position = relocation.Atomic, position.Position
		note = func(ctx context.Context, s *relocation.Session, m relocation.Message) error {
			const script = `redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('EXPIRE', KEYS[1], 60)`
			_, err := position.Run(ctx, s, m.Seq, script, []string{rowsKey(env)}, []any{m.Data})
			return err
		}
	}
	handle := func(ctx context.Context, s *relocation.Session, m relocation.Message) error {
		err := note(ctx, s, m)
		if err == nil && string(m.Data) == strconv.Itoa(fatal) && !m.Redelivered {
			<-ctx.Done() // it is killed here
			return ctx.Err()
		}
		return err
	}
	store := relocation.NewRedisStore(client, &relocation.RedisOptions{Prefix: env.Prefix() + "relocation:"})
	hub := relocation.NewHub(store, handle, opts)
	defer hub.Close() //nolint:errcheck // it is always nil
	server, err := listen(ctx, env, hub.WebSocket(nil))
	if err != nil {
		return err
	}
	defer server.Close()
	if !h.drains {
		return nil
	}
	return hub.Drain(context.WithoutCancel(ctx), &relocation.DrainOptions{Spread: -1, Deadline: 2 * time.Second})
}

// rowsKey is where the servers note each number.
func rowsKey(env *lab.Env) string { return env.Prefix() + "{count}:rows" }

// awaitRows waits until there are n rows.
func awaitRows(ctx context.Context, env *lab.Env, client *redis.Client, n int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, soon, fmt.Errorf("there never were %d rows", n))
	defer cancel()
	for {
		rows, err := client.LLen(ctx, rowsKey(env)).Result()
		if err == nil && rows >= n {
			return nil
		}
		if lab.Think(ctx, time.Millisecond) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// checkRows checks that the rows are the numbers from 1 to n.
func checkRows(ctx context.Context, env *lab.Env, client *redis.Client, n int) error {
	var rows, want []int
	if err := client.LRange(ctx, rowsKey(env), 0, -1).ScanSlice(&rows); err != nil {
		return env.Advise("read the rows", err)
	}
	for i := range n {
		want = append(want, i+1)
	}
	if !slices.Equal(rows, want) {
		return fmt.Errorf("the rows are %v, and %d numbers were sent", rows, n)
	}
	return nil
}
