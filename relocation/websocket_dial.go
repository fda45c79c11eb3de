package relocation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"

	"github.com/coder/websocket"

	"github.com/go-transparency/transparency"
)

// A WebSocketDialer dials servers that run [Hub.WebSocket]. Addresses are URLs
// such as wss://host/path. The zero value is ready to use, and it is safe for
// concurrent use.
//
// An answer of 401 or 403 is transparency.ErrDenied, and ends a Conn. Errors
// hold the host of the address, and nothing else of it.
type WebSocketDialer struct {
	// Header returns what is added to the request, such as Authorization. It
	// is called for every dial. Nil adds nothing.
	Header func(ctx context.Context) (http.Header, error)

	// HTTPClient sends the request. Nil means one with
	// [http.DefaultTransport] that follows no redirect, for the header is
	// meant for the server that was named.
	HTTPClient *http.Client
}

var _ Dialer = (*WebSocketDialer)(nil)

var plainClient = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Dial implements [Dialer]. The context bounds the dial, not the transport.
func (d *WebSocketDialer) Dial(ctx context.Context, addr string) (Transport, error) {
	u, err := url.Parse(addr)
	if err != nil || u.Host == "" { // the error may quote a password
		return nil, fmt.Errorf("relocation: dial: %w", invalid("the address is not a URL with a host"))
	}
	t, err := d.dial(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("relocation: dial %q: %w", u.Host, err)
	}
	return t, nil
}

func (d *WebSocketDialer) dial(ctx context.Context, u *url.URL) (Transport, error) {
	switch u.Scheme {
	case "ws", "wss", "http", "https":
	default:
		return nil, invalid("the scheme is %q, not ws or wss", u.Scheme)
	}
	opts := &websocket.DialOptions{HTTPClient: plainClient, CompressionMode: websocket.CompressionDisabled}
	if d != nil && d.HTTPClient != nil {
		opts.HTTPClient = d.HTTPClient
	}
	if d != nil && d.Header != nil {
		header, err := d.Header(ctx)
		if err != nil {
			return nil, dialFailure(ctx, err)
		}
		opts.HTTPHeader = header
	}
	var raw net.Conn
	conn, resp, err := websocket.Dial(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{ //nolint:bodyclose // the library has done so
		GotConn: func(info httptrace.GotConnInfo) { raw = info.Conn },
	}), u.String(), opts)
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			err = statusError(resp.StatusCode)
		}
		return nil, dialFailure(ctx, err)
	}
	return newWebSocket(conn, raw, true), nil
}

// statusError is what a server answered in place of 101.
func statusError(code int) error {
	class := transparency.ErrUnavailable
	if code == http.StatusUnauthorized || code == http.StatusForbidden {
		class = transparency.ErrDenied
	}
	return fmt.Errorf("%w: the server answered %d %s", class, code, http.StatusText(code))
}

// dialFailure gives an error a class, and takes the URL away that those of
// net/http quote.
func dialFailure(ctx context.Context, err error) error {
	if quoting, ok := errors.AsType[*url.Error](err); ok {
		err = quoting.Err
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	for _, class := range []error{transparency.ErrDenied, transparency.ErrInvalid, transparency.ErrUnavailable, transparency.ErrUncertain, transparency.ErrRejected} {
		if errors.Is(err, class) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", transparency.ErrUnavailable, err)
}
