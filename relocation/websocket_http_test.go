package relocation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/testkit"
)

// The status that a server answers with decides on what a client concludes.
func TestWebSocketAnswers(t *testing.T) {
	hub := NewHub(NewMemoryStore(nil), func(context.Context, *Session, Message) error { return nil }, nil)
	defer hub.Close() //nolint:errcheck // always nil
	answer := func(err error) http.Handler {
		return hub.WebSocket(&WebSocketOptions{Authenticate: func(*http.Request) (Principal, error) { return Principal{}, err }})
	}
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
		})
	}
	for _, tt := range []struct {
		name    string
		handler http.Handler
		want    error
		text    string
	}{
		{"denied by the hook", answer(fmt.Errorf("%w: the secret", transparency.ErrDenied)), transparency.ErrDenied, "403"},
		{"trouble in the hook", answer(errors.New("the secret")), transparency.ErrUnavailable, "503"},
		{"401", status(401), transparency.ErrDenied, "401"},
		{"404", status(404), transparency.ErrUnavailable, "404"},
		{"502", status(502), transparency.ErrUnavailable, "502"},
		{"not followed", status(302), transparency.ErrUnavailable, "302"},
		{"an origin that is no pattern", hub.WebSocket(&WebSocketOptions{Origins: []string{"[a"}}), transparency.ErrUnavailable, "500"},
		{"a nil Hub", (*Hub)(nil).WebSocket(nil), transparency.ErrUnavailable, "500"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr := webSocketURL(t, tt.handler)
			_, err := new(WebSocketDialer).Dial(t.Context(), addr)
			if !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.text) {
				t.Errorf("Dial error = %v, want %q with %s", err, tt.want, tt.text)
			}
			resp, err := plainClient.Get("http" + strings.TrimPrefix(addr, "ws"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close() //nolint:errcheck // it was read
			var body bytes.Buffer
			if _, _ = body.ReadFrom(resp.Body); strings.Contains(body.String(), "secret") {
				t.Errorf("the answer is %q, want no reason", body.String())
			}
		})
	}
}

func TestWebSocketOrigins(t *testing.T) {
	addr := webSocketServing(t, &WebSocketOptions{Origins: []string{"*.friend.example", "https://other.example"}},
		func(context.Context, Transport, Principal) error { return nil })
	u, err := url.Parse(addr)
	if err != nil {
		t.Fatal(err)
	}
	for origin, ok := range map[string]bool{
		"":                            true, // no browser
		"http://" + u.Host:            true,
		"https://a.friend.example":    true,
		"https://A.Friend.Example":    true,
		"https://other.example":       true,
		"http://other.example":        false,
		"https://friend.example":      false,
		"https://evil.example":        false,
		"null":                        false,
		"https://friend.example.evil": false,
	} {
		header := http.Header{}
		if origin != "" {
			header.Set("Origin", origin)
		}
		d := WebSocketDialer{Header: func(context.Context) (http.Header, error) { return header, nil }}
		tr, err := d.Dial(t.Context(), addr)
		if ok && err != nil || !ok && !errors.Is(err, transparency.ErrDenied) {
			t.Errorf("Dial from %q error = %v, want it accepted: %v", origin, err, ok)
		}
		if err == nil {
			_ = tr.Close(CloseNormal, "")
		}
	}
}

// What a request cannot be upgraded from is answered, whatever it is.
func TestWebSocketOtherRequests(t *testing.T) {
	var log bytes.Buffer
	hub := NewHub(NewMemoryStore(nil), func(context.Context, *Session, Message) error { return nil },
		&HubOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	defer hub.Close() //nolint:errcheck // always nil
	handler := hub.WebSocket(nil)

	w := httptest.NewRecorder() // which cannot be taken over
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusNotImplemented {
		t.Errorf("without a connection: status %d, want 501", w.Code)
	}
	s := httptest.NewServer(wrapped{handler})
	defer s.Close()
	resp, err := http.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("GET: status %d, want 426", resp.StatusCode)
	}
	tr, err := new(WebSocketDialer).Dial(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http"))
	if err != nil {
		t.Fatalf("Dial through a middleware: error = %v", err)
	}
	_ = tr.Close(CloseNormal, "")
}

// wrapped is a middleware that wraps the ResponseWriter.
type wrapped struct{ http.Handler }

func (h wrapped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.Handler.ServeHTTP(wrappedWriter{w}, r)
}

type wrappedWriter struct{ w http.ResponseWriter }

func (w wrappedWriter) Header() http.Header         { return w.w.Header() }
func (w wrappedWriter) Write(p []byte) (int, error) { return w.w.Write(p) }
func (w wrappedWriter) WriteHeader(code int)        { w.w.WriteHeader(code) }
func (w wrappedWriter) Unwrap() http.ResponseWriter { return w.w }

func TestWebSocketDialFails(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	host := strings.TrimPrefix(closed.URL, "http://")
	closed.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // and nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it was only listened to
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var none *WebSocketDialer
	for _, tt := range []struct {
		name string
		ctx  context.Context
		d    *WebSocketDialer
		addr string
		want error
	}{
		{"no URL", t.Context(), none, "ws://secret\x7f@host", transparency.ErrInvalid},
		{"no host", t.Context(), none, "secret", transparency.ErrInvalid},
		{"scheme", t.Context(), none, "ftp://secret@host/secret?secret", transparency.ErrInvalid},
		{"nobody listens", t.Context(), none, "ws://secret:secret@" + host + "/secret?secret", transparency.ErrUnavailable},
		{"ended", ended, none, "ws://secret:secret@" + host + "/secret?secret", context.Canceled},
		{"nobody answers", short, none, "ws://" + l.Addr().String(), context.DeadlineExceeded},
		{"nobody answered", short, none, "ws://" + l.Addr().String(), transparency.ErrUnavailable},
		{"header", t.Context(), &WebSocketDialer{Header: func(context.Context) (http.Header, error) {
			return nil, errors.New("no token")
		}}, "ws://" + host, transparency.ErrUnavailable},
		{"header denied", t.Context(), &WebSocketDialer{Header: func(context.Context) (http.Header, error) {
			return nil, transparency.ErrDenied
		}}, "ws://" + host, transparency.ErrDenied},
	} {
		tr, err := tt.d.Dial(tt.ctx, tt.addr)
		if tr != nil || !errors.Is(err, tt.want) {
			t.Errorf("%s: Dial = %v, %v, want %q", tt.name, tr, err, tt.want)
		}
		if strings.Contains(fmt.Sprintf("%v %+v", err, err), "secret") {
			t.Errorf("%s: the error %q has more than the host", tt.name, err)
		}
	}
}

// An HTTP client that shows nothing of its connection.
func TestWebSocketOverAnotherTransport(t *testing.T) {
	addr := webSocketServing(t, nil, func(ctx context.Context, tr Transport, _ Principal) error {
		for {
			p, err := tr.Read(ctx)
			if err != nil {
				return err
			}
			if err := tr.Write(ctx, p); err != nil {
				return err
			}
		}
	})
	d := &WebSocketDialer{HTTPClient: &http.Client{Transport: untraced{}}}
	tr, err := d.Dial(t.Context(), addr)
	if err != nil {
		t.Fatalf("Dial error = %v", err)
	}
	if tr.(*webSocket).raw != nil {
		t.Fatal("the connection is known")
	}
	mustWrite(t, tr, []byte("hello"))
	wantRead(t, tr, []byte("hello"))
	ended := make(chan error, 1)
	go func() {
		_, err := tr.Read(t.Context())
		ended <- err
	}()
	_ = tr.Close(CloseNormal, "")
	if err := testkit.Receive(t, "the end of Read", ended); !errors.Is(err, transparency.ErrUnavailable) {
		t.Errorf("Read error = %v, want ErrUnavailable", err)
	}
}

type untraced struct{}

func (untraced) RoundTrip(r *http.Request) (*http.Response, error) {
	return http.DefaultTransport.RoundTrip(r.Clone(context.Background()))
}
