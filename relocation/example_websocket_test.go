package relocation_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/relocation"
)

// A server shouts back what it hears from clients that it knows.
func ExampleHub_WebSocket() {
	shout := func(_ context.Context, s *relocation.Session, m relocation.Message) error {
		return s.Reply(bytes.ToUpper(m.Data))
	}
	hub := relocation.NewHub(relocation.NewMemoryStore(nil), shout, nil)
	defer hub.Close()
	server := httptest.NewServer(hub.WebSocket(&relocation.WebSocketOptions{
		Authenticate: func(r *http.Request) (relocation.Principal, error) {
			if r.Header.Get("Authorization") != "Bearer of-ada" {
				return relocation.Principal{}, transparency.ErrDenied
			}
			return relocation.Principal{ID: "ada"}, nil
		},
	}))
	defer server.Close()

	ctx := context.Background()
	dialer := &relocation.WebSocketDialer{Header: func(context.Context) (http.Header, error) {
		return http.Header{"Authorization": {"Bearer of-ada"}}, nil
	}}
	addr := "ws" + strings.TrimPrefix(server.URL, "http")
	conn, err := relocation.Dial(ctx, relocation.Addresses([]string{addr}), dialer, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close(ctx)
	if err := conn.Send(ctx, []byte("hello")); err != nil {
		fmt.Println(err)
	}
	m, err := conn.Receive(ctx)
	fmt.Println(string(m.Data), err)
	// Output: HELLO <nil>
}
