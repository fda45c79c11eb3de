package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"github.com/go-transparency/transparency/examples/internal/lab"
)

// serve is a server, until it is told to end.
func serve(ctx context.Context, env *lab.Env) error {
	server, err := lab.StartServer(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow() //nolint:errcheck // nothing is left to do
		for answered := 1; ; answered++ {
			_, number, err := conn.Read(ctx)
			if err != nil {
				return
			}
			fmt.Fprintln(env.Out, string(number)) // the work
			if err := conn.Write(ctx, websocket.MessageText, number); err != nil {
				return
			}
			if answered == 5 {
				<-ctx.Done() // busy with something else
			}
		}
	}))
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Fprintln(env.Out, "ws"+strings.TrimPrefix(server.URL, "http"))
	<-ctx.Done()
	return nil
}
