package failure_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// tries returns the policies of a host with that many attempts, without pauses.
func tries(n int) *failure.Standard {
	s := failure.NewStandard("test")
	s.Retry = failure.NewRetry(&failure.RetryOptions{Attempts: n, Base: -1, Budget: plenty()})
	return s
}

// serve starts a server, and returns its URL and a client that goes to it
// through a Transport with these policies.
func serve(t *testing.T, h http.HandlerFunc, s *failure.Standard) (string, *http.Client, *bodies) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	counted := &bodies{base: base}
	return server.URL, &http.Client{Transport: failure.NewTransport(counted, &failure.TransportOptions{
		Policies: func(string) *failure.Standard { return s },
	})}, counted
}

// bodies counts the attempts, the responses of its base that are open, and what
// was read.
type bodies struct {
	base         http.RoundTripper
	attempts     atomic.Int64
	opened, open atomic.Int64
	read         atomic.Int64
}

func (b *bodies) RoundTrip(req *http.Request) (*http.Response, error) {
	b.attempts.Add(1)
	resp, err := b.base.RoundTrip(req)
	if err == nil && resp.Body != http.NoBody {
		b.opened.Add(1)
		b.open.Add(1)
		resp.Body = &countedBody{ReadCloser: resp.Body, b: b}
	}
	return resp, err
}

type countedBody struct {
	io.ReadCloser
	b    *bodies
	once sync.Once
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.b.read.Add(int64(n))
	return n, err
}

func (c *countedBody) Close() error {
	c.once.Do(func() { c.b.open.Add(-1) })
	return c.ReadCloser.Close()
}

// reset ends a connection as a crash does.
func reset(t *testing.T, w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// send makes a request and returns how it ended, with what was answered.
func send(t *testing.T, client *http.Client, req *http.Request) (int, string, error) {
	t.Helper()
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// FA-15, FA-16: what is sent again after a connection was reset under it, and
// with what.
func TestTransportReplay(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		header string
		body   io.Reader
		want   int
	}{
		"GET":                  {"GET", "", nil, 3},
		"HEAD":                 {"HEAD", "", nil, 3},
		"PUT":                  {"PUT", "", strings.NewReader("body"), 3},
		"DELETE":               {"DELETE", "", nil, 3},
		"POST":                 {"POST", "", strings.NewReader("body"), 1},
		"POST without a body":  {"POST", "", nil, 1},
		"PATCH":                {"PATCH", "", strings.NewReader("body"), 1},
		"POST with a key":      {"POST", "Idempotency-Key", strings.NewReader("body"), 3},
		"POST with an X key":   {"POST", "X-Idempotency-Key", strings.NewReader("body"), 3},
		"PUT of a stream":      {"PUT", "", io.MultiReader(strings.NewReader("body")), 1},
		"key and stream":       {"POST", "Idempotency-Key", io.MultiReader(strings.NewReader("body")), 1},
		"GET of a long stream": {"GET", "", io.LimitReader(zeros{}, 1<<20), 1},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			url, client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				n := calls.Add(1)
				got, err := io.ReadAll(r.Body)
				if len(got) > 0 && string(got) != "body" && len(got) != 1<<20 || err != nil || c.body != nil && len(got) == 0 {
					t.Errorf("request %d has the body %.20q, %v", n, got, err)
				}
				if c.header != "" && r.Header.Get(c.header) != "k1" {
					t.Errorf("request %d has the key %q", n, r.Header.Get(c.header))
				}
				if n < 3 {
					reset(t, w)
				}
			}, tries(5))
			req := request(t, c.method, url, c.body)
			if c.header != "" {
				req.Header.Set(c.header, "k1")
			}
			_, _, err := send(t, client, req)
			if got := int(calls.Load()); got != c.want {
				t.Errorf("%d attempts, want %d (error %v)", got, c.want, err)
			}
			safe := c.method == "GET" || c.method == "HEAD"
			switch {
			case c.want == 3 && err != nil:
				t.Errorf("error = %v after a third attempt that succeeded", err)
			case c.want == 1 && safe && !errors.Is(err, transparency.ErrUnavailable):
				t.Errorf("error = %v, want ErrUnavailable", err)
			case c.want == 1 && !safe && (!errors.Is(err, transparency.ErrUncertain) || transparency.Retryable(err)):
				t.Errorf("error = %v, want ErrUncertain", err)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A request that the host never got can be sent again whatever it does.
func TestTransportDialFails(t *testing.T) {
	var dials int
	base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		dials++
		return nil, &net.OpError{Op: "dial", Err: errBoom}
	}}
	client := &http.Client{Transport: failure.NewTransport(base, &failure.TransportOptions{Policies: func(string) *failure.Standard { return tries(3) }})}
	for body, want := range map[io.Reader]int{strings.NewReader("body"): 3, io.MultiReader(strings.NewReader("body")): 1} {
		dials = 0
		_, _, err := send(t, client, request(t, "POST", "http://payments.test", body))
		if dials != want || !transparency.Retryable(err) {
			t.Errorf("%d dials, error %v, want %d, and ErrUnavailable", dials, err, want)
		}
	}
}

// FA-17: responses that another supersedes are drained, so that one connection
// serves all, and closed.
func TestTransportSupersedes(t *testing.T) {
	var mu sync.Mutex
	var from []string
	url, client, bodies := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if from = append(from, r.RemoteAddr); len(from) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write(bytes.Repeat([]byte("sorry "), 5000))
			return
		}
		_, _ = w.Write([]byte("ada"))
	}, tries(3))
	status, text, err := send(t, client, request(t, "GET", url, nil))
	if status != 200 || text != "ada" || err != nil {
		t.Errorf("GET = %d %q, %v, want ada", status, text, err)
	}
	if len(from) != 3 || from[0] != from[1] || from[1] != from[2] {
		t.Errorf("requests came from %v, want three on one connection", from)
	}
	if opened, open := bodies.opened.Load(), bodies.open.Load(); opened != 3 || open != 0 {
		t.Errorf("%d bodies, %d of them still open", opened, open)
	}
}

// FA-17: neither the length of a body nor its slowness holds the next attempt up.
func TestTransportDrainsLittle(t *testing.T) {
	for name, reply := range map[string]func(w http.ResponseWriter, r *http.Request){
		"a gigabyte": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(1<<30))
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.Copy(w, io.LimitReader(zeros{}, 1<<30))
		},
		"no end": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.Copy(w, zeros{})
		},
		"a trickle": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("s"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			url, client, bodies := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) < 3 {
					reply(w, r)
				}
			}, tries(3))
			status, _, err := send(t, client, request(t, "GET", url, nil))
			if status != 200 || err != nil || bodies.open.Load() != 0 {
				t.Errorf("GET = %d, %v, %d bodies open, want 200", status, err, bodies.open.Load())
			}
			if got := bodies.read.Load(); got > 2*(64<<10) || name == "a gigabyte" && got > 0 {
				t.Errorf("%d bytes read of bodies that nobody wants", got)
			}
		})
	}
}

// FA-29: a status is counted, and returned as a response: the last one, with
// its body.
func TestTransportStatus(t *testing.T) {
	for status, want := range map[int]struct{ attempts, failed int }{
		200: {1, 0}, 404: {1, 0}, 408: {3, 0}, 429: {3, 0}, 500: {3, 3}, 501: {1, 1}, 502: {3, 3}, 503: {3, 3}, 504: {3, 3}, 505: {1, 1},
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			s := tries(3)
			var calls atomic.Int64
			url, client, bodies := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				_, _ = w.Write([]byte(strconv.FormatInt(calls.Add(1), 10)))
			}, s)
			got, text, err := send(t, client, request(t, "GET", url, nil))
			if got != status || text != strconv.Itoa(want.attempts) || err != nil {
				t.Errorf("GET = %d %q, %v, want the response of attempt %d", got, text, err, want.attempts)
			}
			counts := s.Breaker.(*failure.LocalBreaker).Stats()
			if int(counts.Failed) != want.failed || int(counts.Succeeded) != want.attempts-want.failed {
				t.Errorf("the breaker has counted %+v, want %d failures", counts, want.failed)
			}
			if bodies.open.Load() != 0 {
				t.Errorf("%d bodies open", bodies.open.Load())
			}
			if got, _, err := send(t, client, request(t, "POST", url, strings.NewReader("x"))); got != status || err != nil {
				t.Errorf("POST = %d, %v", got, err)
			}
			if calls.Load() != int64(want.attempts)+1 {
				t.Errorf("POST made %d attempts", calls.Load()-int64(want.attempts))
			}
		})
	}
}

// A breaker that opens under the attempts leaves the last response.
func TestTransportOpensUnderAttempts(t *testing.T) {
	s := tries(5)
	s.Breaker = failure.NewLocalBreaker(&failure.BreakerOptions{Failures: 2})
	var calls atomic.Int64
	url, client, bodies := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("sorry"))
	}, s)
	status, text, err := send(t, client, request(t, "GET", url, nil))
	if status != http.StatusBadGateway || text != "sorry" || err != nil || calls.Load() != 2 {
		t.Errorf("GET = %d %q, %v after %d attempts, want the response of the second", status, text, err, calls.Load())
	}
	if bodies.open.Load() != 0 {
		t.Errorf("%d bodies open", bodies.open.Load())
	}
}

// closing is a body that tells whether it was closed.
type closing struct {
	io.Reader
	closed atomic.Int64
}

func (c *closing) Close() error { c.closed.Add(1); return nil }

// FA-29: a request that is refused is closed, and not changed.
func TestTransportRefuses(t *testing.T) {
	open := tries(3)
	open.Breaker.(*failure.LocalBreaker).ForceOpen()
	full := tries(3)
	full.Bulkhead = failure.NewBulkhead(&failure.BulkheadOptions{Places: 1, Queue: -1})
	release, err := full.Bulkhead.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for want, s := range map[error]*failure.Standard{failure.ErrOpen: open, failure.ErrFull: full} {
		rt := failure.NewTransport(roundTrip(func(*http.Request) (*http.Response, error) {
			t.Error("the request was sent")
			return nil, errBoom
		}), &failure.TransportOptions{Policies: func(string) *failure.Standard { return s }})
		body := &closing{Reader: strings.NewReader("x")}
		req := request(t, "PUT", "http://user:secret@payments.test/a?token=secret", body)
		before := *req
		resp, err := rt.RoundTrip(req) //nolint:bodyclose // there is none
		if resp != nil || !errors.Is(err, want) || !errors.Is(err, transparency.ErrRejected) {
			t.Errorf("RoundTrip = %v, %v, want %v", resp, err, want)
		}
		if body.closed.Load() == 0 {
			t.Errorf("%v: the body is open", want)
		}
		if req.Body != before.Body || req.URL != before.URL || req.Context() != before.Context() {
			t.Errorf("%v: the request was changed", want)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
