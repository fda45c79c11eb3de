package relocation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/testkit"
)

// webSocketURL starts an HTTP server.
func webSocketURL(t *testing.T, handler http.Handler) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return "ws" + strings.TrimPrefix(s.URL, "http") + "/relocation"
}

// webSocketServing starts a server whose transports serve is given.
func webSocketServing(t *testing.T, opts *WebSocketOptions, serve func(ctx context.Context, tr Transport, p Principal) error) string {
	t.Helper()
	hub := NewHub(NewMemoryStore(nil), func(context.Context, *Session, Message) error { return nil }, nil)
	t.Cleanup(func() { _ = hub.Close() })
	handler := hub.WebSocket(opts).(*webSocketServer)
	if serve != nil {
		handler.serve = serve
	}
	return webSocketURL(t, handler)
}

// webSocketPair returns both ends of one.
func webSocketPair(t *testing.T) (client, server Transport) {
	t.Helper()
	ends, over := make(chan Transport, 1), make(chan struct{})
	addr := webSocketServing(t, nil, func(_ context.Context, tr Transport, _ Principal) error {
		ends <- tr
		<-over
		return nil
	})
	t.Cleanup(func() { close(over) }) // before the server is closed
	client, err := new(WebSocketDialer).Dial(t.Context(), addr)
	if err != nil {
		t.Fatalf("Dial error = %v", err)
	}
	t.Cleanup(func() { _ = client.Close(CloseNormal, "") })
	return client, testkit.Receive(t, "the server's end", ends)
}

func wantRead(t *testing.T, tr Transport, want []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit)
	defer cancel()
	if got, err := tr.Read(ctx); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("Read = %d bytes, %v, want %d", len(got), err, len(want))
	}
}

func mustWrite(t *testing.T, tr Transport, p []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit)
	defer cancel()
	if err := tr.Write(ctx, p); err != nil {
		t.Fatalf("Write error = %v", err)
	}
}

// Each call has a context of its own that ends right after it, and none of that
// ends the transport.
func TestWebSocketCarriesMessages(t *testing.T) {
	client, server := webSocketPair(t)
	sizes := []int{0, 1, 125, 126, 4095, 4096, 65535, 65536, DefaultMaxMessage, 3}
	for _, ends := range [][2]Transport{{client, server}, {server, client}} {
		for i, n := range sizes {
			p := bytes.Repeat([]byte{byte(i)}, n)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if err := ends[0].Write(t.Context(), p); err != nil {
					t.Errorf("Write error = %v", err)
				}
			}()
			wantRead(t, ends[1], p)
			<-done
		}
	}
}

func TestWebSocketReadEndsWithItsContext(t *testing.T) {
	client, _ := webSocketPair(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := client.Read(ctx)
		ended <- err
	}()
	if err := testkit.Receive(t, "the end of Read", ended); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Read error = %v, want the context's", err)
	}
	if _, err := client.Read(t.Context()); err == nil {
		t.Errorf("Read after one that failed: want its error")
	}
	if _, err := client.Read(ctx); err == nil {
		t.Errorf("Read with an ended context: want an error")
	}
	if err := client.Write(ctx, []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Write with an ended context: error = %v, want the context's", err)
	}
}

func TestWebSocketCloseSaysWhy(t *testing.T) {
	for _, from := range []string{"client", "server"} {
		t.Run(from, func(t *testing.T) {
			a, b := webSocketPair(t)
			if from == "server" {
				a, b = b, a
			}
			reason := strings.Repeat("é", 100) // cut, and not in a letter
			mustWrite(t, a, []byte("before"))
			_ = a.Close(CloseRestart, reason)
			_ = a.Close(CloseNormal, "again")
			wantRead(t, b, []byte("before"))
			ended := make(chan error, 1)
			go func() {
				_, err := b.Read(t.Context())
				ended <- err
			}()
			err := testkit.Receive(t, "the end of Read", ended)
			peer, ok := errors.AsType[*CloseError](err)
			if !ok || peer.Code != CloseRestart || !strings.HasPrefix(reason, peer.Reason) || len(peer.Reason) < 100 {
				t.Errorf("Read error = %v, want a CloseError with the code and the reason", err)
			}
			if !errors.Is(err, transparency.ErrUnavailable) {
				t.Errorf("Read error = %v, want one wrapping ErrUnavailable", err)
			}
			if _, err := a.Read(t.Context()); !errors.Is(err, errTransportClosed) {
				t.Errorf("Read of the closed end: error = %v", err)
			}
			if err := a.Write(t.Context(), nil); !errors.Is(err, errTransportClosed) {
				t.Errorf("Write of the closed end: error = %v", err)
			}
			w := a.(*webSocket)
			if w.in.stop != nil || w.out.stop != nil {
				t.Errorf("the context of the last call still holds the transport")
			}
		})
	}
}

// Over TLS, where a server that could speak HTTP/2 is asked not to.
func TestWebSocketTLS(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		handler := make(chan Transport, 1)
		hub := NewHub(NewMemoryStore(nil), func(context.Context, *Session, Message) error { return nil }, nil)
		defer hub.Close() //nolint:errcheck // always nil
		serving := hub.WebSocket(nil).(*webSocketServer)
		over := make(chan struct{})
		serving.serve = func(_ context.Context, tr Transport, _ Principal) error {
			handler <- tr
			<-over
			return nil
		}
		s := httptest.NewUnstartedServer(serving)
		s.EnableHTTP2 = http2
		s.StartTLS()
		client, err := (&WebSocketDialer{HTTPClient: s.Client()}).Dial(t.Context(), "wss"+strings.TrimPrefix(s.URL, "https"))
		if err != nil {
			t.Fatalf("Dial error = %v", err)
		}
		server := testkit.Receive(t, "the server's end", handler)
		for _, ends := range [][2]Transport{{client, server}, {server, client}} {
			mustWrite(t, ends[0], []byte("hello"))
			wantRead(t, ends[1], []byte("hello"))
		}
		_ = server.Close(CloseRestart, "moving")
		_, err = client.Read(t.Context())
		if peer, ok := errors.AsType[*CloseError](err); !ok || peer.Code != CloseRestart {
			t.Errorf("Read error = %v, want a CloseError 1012", err)
		}
		_ = client.Close(CloseNormal, "")
		close(over)
		s.Close()
	}
}

// What was written before Close arrives, although the peer wrote more than was
// read: a socket closed with something unread resets the connection.
func TestWebSocketCloseLosesNothing(t *testing.T) {
	client, server := webSocketPair(t)
	flood := make(chan error, 1)
	go func() {
		for {
			if err := client.Write(t.Context(), make([]byte, 1000)); err != nil {
				flood <- err
				return
			}
		}
	}()
	last := bytes.Repeat([]byte("last words "), 50_000)
	wantRead(t, server, make([]byte, 1000))
	mustWrite(t, server, last)
	_ = server.Close(CloseRefused, "enough")
	wantRead(t, client, last)
	_, err := client.Read(t.Context())
	if peer, ok := errors.AsType[*CloseError](err); !ok || peer.Code != CloseRefused {
		t.Errorf("Read error = %v, want a CloseError 1008", err)
	}
	_ = client.Close(CloseNormal, "")
	testkit.Receive(t, "the end of Write", flood)
}

// The peer reads nothing, and answers no close frame.
func TestWebSocketCloseWaitsForNobody(t *testing.T) {
	client, server := webSocketPair(t)
	read, write := make(chan error, 1), make(chan error, 1)
	blocked := make(chan struct{}, 1<<10)
	go func() {
		for {
			if err := server.Write(t.Context(), make([]byte, 1<<20)); err != nil {
				write <- err
				return
			}
			blocked <- struct{}{}
		}
	}()
	go func() {
		_, err := server.Read(t.Context())
		read <- err
	}()
	for full := false; !full; {
		select {
		case <-blocked:
		case <-time.After(100 * time.Millisecond): // it waits for the peer by now, or nearly so
			full = true
		}
	}
	testkit.OnTime(t, 1, 100*time.Millisecond, func(context.Context, int) { _ = server.Close(CloseRetry, "") })
	for what, ended := range map[string]chan error{"Read": read, "Write": write} {
		if err := testkit.Receive(t, "the end of "+what, ended); !errors.Is(err, errTransportClosed) {
			t.Errorf("%s error = %v, want that it was closed", what, err)
		}
	}
	_ = client.Close(CloseNormal, "")
}

func TestWebSocketRefusesText(t *testing.T) {
	served := make(chan error, 1)
	addr := webSocketServing(t, nil, func(ctx context.Context, tr Transport, _ Principal) error {
		_, err := tr.Read(ctx)
		served <- err
		return nil
	})
	conn, _, err := websocket.Dial(t.Context(), addr, nil) //nolint:bodyclose // the library has done so
	if err != nil {
		t.Fatalf("Dial error = %v", err)
	}
	defer conn.CloseNow() //nolint:errcheck // it was closed
	if err := conn.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
		t.Fatalf("Write error = %v", err)
	}
	if err := testkit.Receive(t, "the end of Read", served); !errors.Is(err, ErrProtocol) {
		t.Errorf("Read of a text message: error = %v, want ErrProtocol", err)
	}
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusProtocolError {
		t.Errorf("the client's Read error = %v, want status 1002", err)
	}
}

func TestWebSocketRefusesTooLarge(t *testing.T) {
	client, server := webSocketPair(t)
	limitReads(server, 1000)
	limitReads(client, 5<<20) // above the default
	go func() {               // the second is too large
		_ = client.Write(t.Context(), make([]byte, 1000+readSlack))
		_ = client.Write(t.Context(), make([]byte, 1000+readSlack+1))
	}()
	wantRead(t, server, make([]byte, 1000+readSlack))
	if _, err := server.Read(t.Context()); !errors.Is(err, ErrProtocol) || !errors.Is(err, ErrTooLarge) {
		t.Errorf("Read of too large a message: error = %v, want ErrProtocol and ErrTooLarge", err)
	}
	client, server = webSocketPair(t)
	limitReads(client, 5<<20)
	written := make(chan error, 1)
	go func() { written <- server.Write(t.Context(), make([]byte, 5<<20)) }()
	wantRead(t, client, make([]byte, 5<<20))
	if err := testkit.Receive(t, "the Write", written); err != nil {
		t.Errorf("Write error = %v", err)
	}
}

func TestWebSocketDoesNotCompress(t *testing.T) {
	addr := webSocketServing(t, nil, func(ctx context.Context, tr Transport, _ Principal) error {
		_, err := tr.Read(ctx)
		return err
	})
	conn, resp, err := websocket.Dial(t.Context(), addr, &websocket.DialOptions{CompressionMode: websocket.CompressionContextTakeover}) //nolint:bodyclose // the library has done so
	if err != nil {
		t.Fatalf("Dial error = %v", err)
	}
	defer conn.CloseNow() //nolint:errcheck // it ends whatever it says
	if got := resp.Header.Get("Sec-WebSocket-Extensions"); got != "" {
		t.Errorf("the server agreed to %q, want nothing", got)
	}
	// And the dialer offers none.
	offered := make(chan string, 1)
	addr = webSocketURL(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		offered <- r.Header.Get("Sec-WebSocket-Extensions")
		w.WriteHeader(http.StatusTeapot)
	}))
	_, _ = new(WebSocketDialer).Dial(t.Context(), addr)
	if got := testkit.Receive(t, "the request", offered); got != "" {
		t.Errorf("the client offered %q, want nothing", got)
	}
}

// A client and a Hub, and nothing between them that is not as in production.
func TestWebSocketEndToEnd(t *testing.T) {
	hub := NewHub(NewMemoryStore(nil), func(_ context.Context, s *Session, m Message) error {
		return s.Reply(fmt.Appendf(nil, "%s: %s", s.Principal(), m.Data))
	}, nil)
	defer hub.Close() //nolint:errcheck // always nil
	addr := webSocketURL(t, hub.WebSocket(&WebSocketOptions{
		Authenticate: func(r *http.Request) (Principal, error) {
			if r.Header.Get("Authorization") != "Bearer ada's" {
				return Principal{}, fmt.Errorf("%w: no such token", transparency.ErrDenied)
			}
			return Principal{ID: "ada"}, nil
		},
	}))
	d := &WebSocketDialer{Header: func(context.Context) (http.Header, error) {
		return http.Header{"Authorization": {"Bearer ada's"}}, nil
	}}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit)
	defer cancel()
	conn, err := Dial(ctx, Addresses([]string{addr}), d, nil)
	if err != nil {
		t.Fatalf("Dial error = %v", err)
	}
	for i := range 100 {
		if err := conn.Send(ctx, fmt.Append(nil, i)); err != nil {
			t.Fatalf("Send error = %v", err)
		}
	}
	for i := range 100 {
		m, err := conn.Receive(ctx)
		if want := fmt.Sprint("ada: ", i); err != nil || string(m.Data) != want {
			t.Fatalf("Receive = %q, %v, want %q", m.Data, err, want)
		}
	}
	if err := conn.Close(ctx); err != nil {
		t.Errorf("Close error = %v", err)
	}

	_, err = Dial(ctx, Addresses([]string{addr}), new(WebSocketDialer), nil)
	if !errors.Is(err, transparency.ErrDenied) {
		t.Errorf("Dial without a token: error = %v, want ErrDenied", err)
	}
}
