package failure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
	"github.com/go-transparency/transparency/internal/testkit"
)

// answer is the response of a base that needs no network.
func answer(req *http.Request, status int, header http.Header) *http.Response {
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader("ada")), ContentLength: 3, Request: req}
}

// FA-24: the winner can be read as long as it takes, while the loser is
// cancelled and what it brings late is closed.
func TestTransportHedge(t *testing.T) {
	s := tries(1)
	s.Hedge = failure.NewHedge(&failure.HedgeOptions{Delay: time.Millisecond, Budget: plenty()})
	var calls, posts atomic.Int64
	cancelled := make(chan struct{})
	read := make(chan struct{})
	url, client, bodies := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			posts.Add(1)
			return
		}
		if calls.Add(1) == 1 {
			<-r.Context().Done()
			close(cancelled)
			return
		}
		_, _ = w.Write([]byte("one "))
		_ = http.NewResponseController(w).Flush()
		<-read
		_, _ = w.Write([]byte("two"))
	}, s)
	resp, err := client.Do(request(t, "GET", url, nil))
	if err != nil {
		t.Fatal(err)
	}
	<-cancelled // the loser is, for the winner is here
	close(read)
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(text) != "one two" || err != nil {
		t.Errorf("the winner's body = %q, %v, want all of it", text, err)
	}
	if open := bodies.open.Load(); open != 0 {
		t.Errorf("%d bodies open", open)
	}
	if _, _, err := send(t, client, request(t, "POST", url, nil)); err != nil || posts.Load() != 1 || s.Hedge.Stats().Begun != 1 {
		t.Errorf("POST error = %v after %d attempts, want no hedge", err, posts.Load())
	}
}

// FA-24: a response that comes when another has been returned is closed.
func TestTransportClosesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tries(1)
		s.Hedge = failure.NewHedge(&failure.HedgeOptions{Delay: time.Second, Budget: plenty()})
		var calls, closed atomic.Int64
		rt := failure.NewTransport(roundTrip(func(req *http.Request) (*http.Response, error) {
			resp := answer(req, 200, nil)
			body := &closing{Reader: resp.Body}
			resp.Body = body
			if calls.Add(1) == 1 {
				time.Sleep(time.Hour) // deaf to its context
				time.AfterFunc(time.Minute, func() { closed.Add(body.closed.Load()) })
			}
			return resp, nil
		}), &failure.TransportOptions{Policies: func(string) *failure.Standard { return s }})
		start := time.Now()
		resp, err := rt.RoundTrip(request(t, "GET", "http://users.test", nil))
		if err != nil || time.Since(start) != time.Second {
			t.Fatalf("RoundTrip error = %v after %v, want the second's answer after 1s", err, time.Since(start))
		}
		time.Sleep(2 * time.Hour)
		if closed.Load() != 1 {
			t.Errorf("the late response was closed %d times", closed.Load())
		}
		if text, err := io.ReadAll(resp.Body); string(text) != "ada" || err != nil {
			t.Errorf("the winner's body = %q, %v", text, err)
		}
		resp.Body.Close()
	})
}

// FA-30: of 100,000 hosts those policies are kept that are in use, or have a
// breaker that is open, and no more than there is room for.
func TestTransportHosts(t *testing.T) {
	const room = 100
	var mu sync.Mutex
	made := map[string]int{}
	held := make(chan struct{})
	arrived := make(chan struct{})
	rt := failure.NewTransport(roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.URL.Path == "/held" {
			arrived <- struct{}{}
			<-held
		}
		if strings.EqualFold(req.URL.Host, "down.test") {
			return nil, errBoom
		}
		return answer(req, 200, nil), nil
	}), &failure.TransportOptions{MaxHosts: room, Policies: func(host string) *failure.Standard {
		mu.Lock()
		defer mu.Unlock()
		made[host]++
		return &failure.Standard{Breaker: failure.NewLocalBreaker(&failure.BreakerOptions{Name: host, Failures: 1, OpenFor: time.Hour})}
	}})
	get := func(url string) error {
		resp, err := rt.RoundTrip(request(t, "GET", url, nil))
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := get("http://DOWN.test/"); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = get("http://busy.test/held") })
	<-arrived
	for i := range 100_000 {
		if err := get(fmt.Sprintf("http://host-%d.test/", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := get("http://down.test/"); !errors.Is(err, failure.ErrOpen) {
		t.Errorf("error = %v, want ErrOpen: an open breaker was forgotten", err)
	}
	if err := get("http://busy.test/"); err != nil {
		t.Error(err)
	}
	if made["http://busy.test"] != 1 || made["http://down.test"] != 1 {
		t.Errorf("policies made %d times for a busy host, and %d for one that is down, want once", made["http://busy.test"], made["http://down.test"])
	}
	// What is kept shows by what is not made again.
	before := len(made)
	again := 0
	for i := range 1000 {
		host := fmt.Sprintf("http://host-%d.test", 99_999-i)
		n := made[host]
		_ = get(host)
		if made[host] == n {
			again++
		}
	}
	if again != room-2 || len(made) != before {
		t.Errorf("%d idle hosts are kept, want %d", again, room-2)
	}
	close(held)
	wg.Wait()
}

// The host that was not used longest is forgotten.
func TestTransportHostsOrder(t *testing.T) {
	var made []string
	rt := failure.NewTransport(roundTrip(func(req *http.Request) (*http.Response, error) { return answer(req, 200, nil), nil }),
		&failure.TransportOptions{MaxHosts: 2, Policies: func(host string) *failure.Standard {
			made = append(made, strings.TrimPrefix(host, "http://"))
			return &failure.Standard{}
		}})
	for _, host := range []string{"a", "b", "a", "c", "a", "b"} {
		resp, err := rt.RoundTrip(request(t, "GET", "http://"+host, nil))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if got := strings.Join(made, " "); got != "a b c b" {
		t.Errorf("policies made for %q, want a b c b", got)
	}
}

// When there is room for none but those that must stay, others are served too.
func TestTransportHostsFull(t *testing.T) {
	made := 0
	rt := failure.NewTransport(roundTrip(func(*http.Request) (*http.Response, error) { return nil, errBoom }),
		&failure.TransportOptions{MaxHosts: 3, Policies: func(string) *failure.Standard {
			made++
			return &failure.Standard{Breaker: failure.NewLocalBreaker(&failure.BreakerOptions{Failures: 1, OpenFor: time.Hour})}
		}})
	for range 2 {
		for i := range 10 {
			resp, err := rt.RoundTrip(request(t, "GET", fmt.Sprintf("http://host-%d.test/", i), nil)) //nolint:bodyclose // there is none
			if resp != nil || !errors.Is(err, errBoom) && !errors.Is(err, failure.ErrOpen) {
				t.Errorf("error = %v", err)
			}
		}
	}
	if made != 17 {
		t.Errorf("policies made %d times, want 10 and then 7 again", made)
	}
}

// A Retry-After header, in seconds or with a date, is waited for; a wish that is
// too long is left to the caller.
func TestTransportRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"3": 3 * time.Second, " 7 ": 7 * time.Second, "0": 0, "-5": 0, "soon": 0, "": 0,
		"date+4s": 4 * time.Second, "date-1h": 0,
		"11": -1, "99999999999999999999999": -1, "date+1h": -1, "Fri, 31 Dec 9999 23:59:59 GMT": -1,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := tries(2)
			skew := -30 * time.Minute // of the server's clock
			header := http.Header{"Date": {time.Now().Add(skew).UTC().Format(http.TimeFormat)}}
			if d, ok := strings.CutPrefix(value, "date"); ok {
				after, _ := time.ParseDuration(d)
				header.Set("Retry-After", time.Now().Add(skew+after).UTC().Format(http.TimeFormat))
			} else if value != "" {
				header.Set("Retry-After", value)
			}
			calls := 0
			rt := failure.NewTransport(roundTrip(func(req *http.Request) (*http.Response, error) {
				if calls++; calls == 1 {
					return answer(req, http.StatusServiceUnavailable, header), nil
				}
				return answer(req, 200, nil), nil
			}), &failure.TransportOptions{Policies: func(string) *failure.Standard { return s }})
			start := time.Now()
			resp, err := rt.RoundTrip(request(t, "GET", "http://users.test", nil))
			if err != nil {
				t.Fatalf("Retry-After %q: %v", value, err)
			}
			resp.Body.Close()
			switch took := time.Since(start); {
			case want < 0 && (resp.StatusCode != 503 || calls != 1 || took != 0):
				t.Errorf("Retry-After %q: %d after %v and %d attempts, want 503 at once", value, resp.StatusCode, took, calls)
			case want >= 0 && (resp.StatusCode != 200 || took != want):
				t.Errorf("Retry-After %q: %d after %v, want 200 after %v", value, resp.StatusCode, took, want)
			}
		})
	}
}

// FA-19: a response whose Retry-After does not fit the deadline is returned at
// once, and a context that ends while a Transport waits is an error.
func TestTransportDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := failure.NewTransport(roundTrip(func(req *http.Request) (*http.Response, error) {
			if deadline, ok := req.Context().Deadline(); !ok || time.Until(deadline) != time.Second {
				t.Errorf("the deadline of an attempt is %v, %v, want that of the request", deadline, ok)
			}
			return answer(req, 503, http.Header{"Retry-After": {"5"}}), nil
		}), &failure.TransportOptions{Policies: func(string) *failure.Standard { return tries(3) }})
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		resp, err := rt.RoundTrip(request(t, "GET", "http://users.test", nil).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 503 || time.Since(start) != 0 {
			t.Errorf("RoundTrip = %v after %v, want the 503 at once", resp, time.Since(start))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var body *closing
		rt := failure.NewTransport(roundTrip(func(req *http.Request) (*http.Response, error) {
			resp := answer(req, 503, http.Header{"Retry-After": {"5"}})
			body = &closing{Reader: resp.Body}
			resp.Body = body
			return resp, nil
		}), &failure.TransportOptions{Policies: func(string) *failure.Standard { return tries(3) }})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		resp, err := rt.RoundTrip(request(t, "GET", "http://users.test", nil).WithContext(ctx)) //nolint:bodyclose // there is none
		if resp != nil || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "503") || body.closed.Load() == 0 {
			t.Errorf("RoundTrip error = %v, want Canceled and the status, with the body closed", err)
		}
	})
}

// The query and the user of a URL are in no error, whatever the base says.
func TestTransportErrorsHoldNoSecrets(t *testing.T) {
	for name, fail := range map[string]func(*http.Request) error{
		"url.Error": func(r *http.Request) error { return &url.Error{Op: "Get", URL: r.URL.String(), Err: errBoom} },
		"wrapped":   func(r *http.Request) error { return fmt.Errorf("%s: %w", r.URL, errBoom) },
		"a part":    func(r *http.Request) error { return fmt.Errorf("%s as %s: %w", r.URL.RawQuery, r.URL.User, errBoom) },
		"classed":   func(r *http.Request) error { return fmt.Errorf("%w: %s", transparency.ErrUnavailable, r.URL) },
	} {
		for _, method := range []string{"GET", "POST"} {
			rt := failure.NewTransport(roundTrip(func(r *http.Request) (*http.Response, error) { return nil, fail(r) }),
				&failure.TransportOptions{Policies: func(string) *failure.Standard { return tries(2) }})
			_, err := rt.RoundTrip(request(t, method, "https://ann:hunter2@Users.test:8443/secret-path?token=hunter2&x=1", nil)) //nolint:bodyclose // there is none
			text := fmt.Sprintf("%v %+v", err, err)
			if err == nil || strings.Contains(text, "hunter2") || !strings.Contains(text, `"https://users.test:8443"`) {
				t.Errorf("%s: %s error = %v, want the host, and no secret", name, method, err)
			}
			if name != "classed" && !errors.Is(err, errBoom) {
				t.Errorf("%s: %s error = %v, want the cause", name, method, err)
			}
		}
	}
}

// A Transport for everything is the default one, and what makes no sense is an
// error.
func TestTransportZero(t *testing.T) {
	var zero failure.Transport
	body := &closing{Reader: strings.NewReader("x")}
	broken := request(t, "PUT", "http://users.test", body)
	broken.URL = nil
	for name, f := range map[string]func() (*http.Response, error){
		"nil":        func() (*http.Response, error) { return (*failure.Transport)(nil).RoundTrip(broken) },
		"no URL":     func() (*http.Response, error) { return zero.RoundTrip(broken) },
		"no request": func() (*http.Response, error) { return zero.RoundTrip(nil) },
		"no policies": func() (*http.Response, error) {
			return failure.NewTransport(nil, &failure.TransportOptions{Policies: func(string) *failure.Standard { return nil }}).
				RoundTrip(request(t, "GET", "http://users.test", nil))
		},
		"a policy of its own": func() (*http.Response, error) {
			return failure.NewTransport(nil, &failure.TransportOptions{Policies: func(string) *failure.Standard {
				return &failure.Standard{Breaker: odd{}}
			}}).RoundTrip(request(t, "GET", "http://users.test", nil))
		},
	} {
		if resp, err := f(); resp != nil || !errors.Is(err, transparency.ErrInvalid) { //nolint:bodyclose // likewise
			t.Errorf("%s: RoundTrip = %v, %v, want ErrInvalid", name, resp, err)
		}
	}
	if body.closed.Load() != 2 {
		t.Errorf("the body was closed %d times, want at each call", body.closed.Load())
	}
	(*failure.Transport)(nil).CloseIdleConnections()
	zero.CloseIdleConnections()
	for name, base := range map[string]roundTrip{
		"nothing": func(*http.Request) (*http.Response, error) { return nil, nil },
		"no body": func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 200}, nil },
	} {
		if resp, err := failure.NewTransport(base, nil).RoundTrip(request(t, "POST", "http://users.test", nil)); resp != nil || err == nil { //nolint:bodyclose // likewise
			t.Errorf("a base that returns %s: RoundTrip = %v, %v, want an error", name, resp, err)
		}
	}
}

// odd is a Breaker that answers in the place of the call.
type odd struct{ failure.Breaker }

func (odd) Do(context.Context, failure.Next) (any, error) { return "odd", nil }
func (odd) State() failure.State                          { return failure.StateClosed }

// A base that panics leaves nothing behind.
func TestTransportPanics(t *testing.T) {
	var ended context.Context
	rt := failure.NewTransport(roundTrip(func(r *http.Request) (*http.Response, error) { ended = r.Context(); panic(errBoom) }), nil)
	defer func() {
		if got := recover(); got != errBoom {
			t.Errorf("panic %v, want the very one", got)
		}
		if ended.Err() == nil {
			t.Error("the context of the attempt goes on")
		}
	}()
	_, _ = rt.RoundTrip(request(t, "GET", "http://users.test", nil)) //nolint:bodyclose // there is none
}

// Requests of many goroutines do not disturb each other.
func TestTransportParallel(t *testing.T) {
	var calls atomic.Int64
	s := tries(4)
	s.Hedge = failure.NewHedge(&failure.HedgeOptions{Delay: 2 * time.Millisecond, Attempts: 3, Budget: plenty()})
	s.Breaker = nil
	url, client, bodies := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch n := calls.Add(1); n % 5 {
		case 0:
			w.WriteHeader(503)
		case 1:
			reset(t, w)
			return
		}
		text, _ := io.ReadAll(r.Body)
		_, _ = w.Write(text)
	}, s)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 20 {
				want := fmt.Sprint(i, " ", j)
				status, text, err := send(t, client, request(t, "PUT", url, strings.NewReader(want)))
				if err == nil && text != want {
					t.Errorf("PUT %s = %d %q", want, status, text)
				}
			}
		})
	}
	wg.Wait()
	// Losers close theirs when they hear that they have lost.
	testkit.Eventually(t, "no body is open", testkit.Limit, func() bool { return bodies.open.Load() == 0 })
}
