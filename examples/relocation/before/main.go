// Before: counting over a plain WebSocket, without relocation transparency. The
// server is a process of its own. It answers each number, until it is killed;
// then the client connects to another server and counts on.
//
//	go run ./examples/relocation/before
//
// What does the client see when its server goes? An error about the connection,
// which of no number says whether it arrived. Its writes had all succeeded: the
// operating system took them, and whether anybody read them is another matter.
// So the client loses what it does not send again, or doubles what it does. A
// buffer that is sent again after the next connect changes the one for the other,
// as long as no server says how far it came, and the next one does not know what
// the last one did. See ../after.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/go-transparency/transparency/examples/internal/lab"
)

func main() { lab.Main(run) }

const patience = 20 * time.Second

func run(ctx context.Context, env *lab.Env) error {
	switch {
	case len(env.Args) == 0:
		ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the servers did not answer within %v: check how busy this machine is", patience))
		defer cancel()
		err := count(ctx, env)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	case len(env.Args) == 1 && env.Args[0] == "serve": // started by count
		return serve(ctx, env)
	}
	return errors.New("unknown arguments: check that there are none")
}

// count is the client.
func count(ctx context.Context, env *lab.Env) error {
	first, conn, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer first.Close()
	defer conn.CloseNow() //nolint:errcheck // nothing is left to do
	for n := 1; n <= 10; n++ {
		if err := write(ctx, conn, n, n <= 5); err != nil {
			return err
		}
	}
	fmt.Fprintln(env.Out, "client: wrote 1 to 10 without an error; 1 to 5 were answered so far")
	first.Kill()
	fmt.Fprintln(env.Out, "        (now the server's process is killed)")
	_, _, err = conn.Read(ctx)
	if err == nil {
		return errors.New("somebody answers at the killed server: check what runs there")
	}
	fmt.Fprintf(env.Out, "client: reads an error that names no number; close status %d, which is none\n", websocket.CloseStatus(err))

	second, conn, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer second.Close()
	defer conn.CloseNow() //nolint:errcheck // nothing is left to do
	if err := write(ctx, conn, 11, true); err != nil {
		return err
	}
	fmt.Fprintln(env.Out, "client: connected to another server and counted on; 11 was answered")

	second.Close()
	arrived := slices.Concat(first.Printed(), second.Printed())
	fmt.Fprintln(env.Out, "The servers got", strings.Join(arrived, " "))
	fmt.Fprintf(env.Out, "%d of 11 successful writes never arrived, and nobody was told which.\n", 11-len(arrived))
	return nil
}

// connect starts a server and connects to it.
func connect(ctx context.Context, env *lab.Env) (*lab.Process, *websocket.Conn, error) {
	server, err := env.Start(ctx, "serve")
	if err != nil {
		return nil, nil, err
	}
	conn, _, err := websocket.Dial(ctx, server.Said, nil) //nolint:bodyclose // the connection has it
	if err != nil {
		server.Close()
	}
	return server, conn, err
}

// write sends a number and, if that is wanted, reads the answer.
func write(ctx context.Context, conn *websocket.Conn, n int, answer bool) error {
	err := conn.Write(ctx, websocket.MessageText, []byte(strconv.Itoa(n)))
	if err == nil && answer {
		_, _, err = conn.Read(ctx)
	}
	return err
}
