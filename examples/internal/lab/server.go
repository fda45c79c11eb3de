package lab

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// A Server is an HTTP server on this machine's loopback address.
type Server struct {
	URL string // without a path

	server *http.Server
}

// StartServer starts a server of h on a port that is free. Close ends it.
func StartServer(ctx context.Context, h http.Handler) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot start an HTTP server on 127.0.0.1: %w", err)
	}
	s := &Server{URL: "http://" + l.Addr().String(), server: &http.Server{Handler: h, ReadHeaderTimeout: 3 * time.Second}}
	go func() { _ = s.server.Serve(l) }() // until Close
	return s, nil
}

// Close ends the server and the requests it is at.
func (s *Server) Close() { _ = s.server.Close() }

// Says answers every request with a text.
func Says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
}
