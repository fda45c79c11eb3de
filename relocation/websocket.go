package relocation

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"path"

	"github.com/coder/websocket"

	"github.com/go-transparency/transparency"
)

// WebSocketOptions are options of [Hub.WebSocket]. Nil is fine.
type WebSocketOptions struct {
	// Authenticate returns who the client is, before its connection is
	// accepted. An error that wraps ErrDenied of the root package is answered
	// with 403, which ends the client's Conn; any other with 503, after which
	// it tries again. Nil accepts everybody, as the principal without a name:
	// HubOptions.Authenticate can tell more by the credentials in the opening.
	Authenticate func(r *http.Request) (Principal, error)

	// Origins are the origins besides the server's own from which a browser
	// may connect, each a pattern of package path for the host, or for
	// scheme://host. Others are answered with 403. Requests without an Origin
	// header are not from browsers, and pass.
	Origins []string
}

// WebSocket returns a handler that serves a client over a WebSocket: binary
// messages, without compression, each holding frames of the protocol. A
// [WebSocketDialer] is the other side.
//
// It returns when the transport has ended, as [Hub.Serve] does. A deadline of
// the request's context does not count: a connection lasts. The Server's
// Shutdown does not know of it either; call [Hub.Drain] or [Hub.Close].
func (h *Hub) WebSocket(opts *WebSocketOptions) http.Handler {
	s := &webSocketServer{hub: h, serve: h.Serve, err: h.unusable()}
	if opts != nil {
		s.opts = *opts
		s.opts.Origins = append([]string(nil), opts.Origins...)
	}
	for _, pattern := range s.opts.Origins {
		if _, err := path.Match(pattern, ""); err != nil && s.err == nil {
			s.err = invalid("the origin %q is not a pattern", pattern)
		}
	}
	return s
}

type webSocketServer struct {
	hub   *Hub
	serve func(context.Context, Transport, Principal) error
	opts  WebSocketOptions
	err   error // why it can never work
}

// ServeHTTP implements [http.Handler].
func (s *webSocketServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.err != nil {
		if s.hub.unusable() == nil {
			s.hub.opts.Logger.Error("relocation: no WebSocket is accepted", "error", s.err)
		}
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	p, err := s.authenticate(r)
	if err != nil {
		s.refuse(w, err)
		return
	}
	hijacker, ok := hijackerOf(w)
	if !ok {
		http.Error(w, "no WebSocket over this protocol", http.StatusNotImplemented)
		return
	}
	upgrade := &upgrading{ResponseWriter: w, hijacker: hijacker}
	conn, err := websocket.Accept(upgrade, r, &websocket.AcceptOptions{
		OriginPatterns: s.opts.Origins, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		s.hub.opts.Logger.Debug("relocation: a WebSocket was not accepted", "error", err)
		return
	}
	t := newWebSocket(conn, upgrade.conn, false)
	defer t.Close(CloseRetry, "") //nolint:errcheck // always nil
	if err := s.serve(context.WithoutCancel(r.Context()), t, p); err != nil {
		s.hub.opts.Logger.Debug("relocation: a WebSocket has ended", "error", err)
	}
}

func (s *webSocketServer) authenticate(r *http.Request) (Principal, error) {
	if s.opts.Authenticate == nil {
		return Principal{}, nil
	}
	return s.opts.Authenticate(r)
}

// refuse answers a request whose client is not known. The reason is for the
// log alone.
func (s *webSocketServer) refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	if errors.Is(err, transparency.ErrDenied) {
		status = http.StatusForbidden
	}
	s.hub.opts.Logger.Info("relocation: a WebSocket was refused", "status", status, "error", err)
	http.Error(w, http.StatusText(status), status)
}

// hijackerOf finds the way to the connection, as [http.ResponseController]
// does, before anything is written.
func hijackerOf(w http.ResponseWriter) (http.Hijacker, bool) {
	for {
		switch t := w.(type) {
		case http.Hijacker:
			return t, true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return nil, false
		}
	}
}

// upgrading keeps the connection that is taken from the HTTP server.
type upgrading struct {
	http.ResponseWriter
	hijacker http.Hijacker
	conn     net.Conn
}

// Hijack implements [http.Hijacker].
func (u *upgrading) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := u.hijacker.Hijack()
	u.conn = conn
	return conn, rw, err
}
