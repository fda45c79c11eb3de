package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/relocation"
)

// count is the client. It sends five numbers whenever the state changes.
func count(ctx context.Context, env *lab.Env, client *redis.Client, addrs []string, servers map[string]*lab.Process) error {
	conn, err := relocation.Dial(ctx, relocation.Addresses(addrs), &relocation.WebSocketDialer{}, nil)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // all that counts was checked by then
	sent := 0
	send := func(state relocation.State) error {
		for range 5 {
			sent++
			if err := conn.Send(ctx, []byte(strconv.Itoa(sent))); err != nil {
				return err
			}
		}
		fmt.Fprintf(env.Out, "%-12v  sent %d to %d\n", state, sent-4, sent)
		return nil
	}

	changes := conn.Changes(ctx)
	if err := send(conn.State()); err != nil {
		return err
	}
	fmt.Fprintln(env.Out, "The server is told to end, and drains.")
	go servers[conn.Addr()].Close()
	for change := range changes {
		if err := send(change.To); err != nil {
			return err
		}
		switch {
		case change.To != relocation.Connected:
		case sent == 20:
			if err := kill(ctx, env, client, conn, servers, send); err != nil {
				return err
			}
		default:
			return check(ctx, env, client, conn, sent)
		}
	}
	return context.Cause(ctx)
}

// kill kills the server in the middle of a message: its row is there, and the
// acknowledgement is not.
func kill(ctx context.Context, env *lab.Env, client *redis.Client, conn *relocation.Conn, servers map[string]*lab.Process, send func(relocation.State) error) error {
	if err := conn.Flush(ctx); err != nil {
		return err
	}
	if err := send(conn.State()); err != nil {
		return err
	}
	for {
		n, err := client.LLen(ctx, rows(env)).Uint64()
		if err != nil {
			return env.Advise("read the rows", err)
		}
		if n > conn.Stats().Acked {
			break
		}
		if err := lab.Think(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	fmt.Fprintf(env.Out, "The next server has noted %s and is killed before it says so; %d are acknowledged.\n", fatal, conn.Stats().Acked)
	servers[conn.Addr()].Kill()
	return nil
}

// check checks that each number has one row, and that they are in order.
func check(ctx context.Context, env *lab.Env, client *redis.Client, conn *relocation.Conn, sent int) error {
	if err := conn.Flush(ctx); err != nil {
		return err
	}
	var noted, want []int
	if err := client.LRange(ctx, rows(env), 0, -1).ScanSlice(&noted); err != nil {
		return env.Advise("read the rows", err)
	}
	for n := range sent {
		want = append(want, n+1)
	}
	if !slices.Equal(noted, want) {
		return fmt.Errorf("the rows in Redis are %v, and should be 1 to %d: check whether something else writes there", noted, sent)
	}
	fmt.Fprintf(env.Out, "The rows in Redis are 1 to %d: none lost, none doubled, in order.\n", sent)
	return nil
}

// advise says what to check.
func advise(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, transparency.ErrDenied):
		return fmt.Errorf("%w: check the permissions of REDIS_USERNAME", err)
	case errors.Is(err, transparency.ErrUnavailable), errors.Is(err, relocation.ErrSessionLost):
		return fmt.Errorf("%w: check that Redis runs, and what it allows", err)
	}
	return err
}
