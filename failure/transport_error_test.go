package failure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// twice returns a Transport over base, by which a request is sent up to twice.
func twice(base http.RoundTripper) *failure.Transport {
	return failure.NewTransport(base, &failure.TransportOptions{Policies: func(string) *failure.Standard { return tries(2) }})
}

// A request for which there was no connection is sent again, whatever it does,
// whatever its URL has in common with the error, and whosever time was over.
func TestTransportNotReached(t *testing.T) {
	refused := errors.New("connect: connection refused")
	for name, fail := range map[string]func(*http.Request) error{
		"dial":       func(*http.Request) error { return &net.OpError{Op: "dial", Net: "tcp", Err: refused} },
		"proxy":      func(*http.Request) error { return &net.OpError{Op: "proxyconnect", Net: "tcp", Err: refused} },
		"time limit": func(*http.Request) error { return &net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded} },
		"told": func(r *http.Request) error {
			return fmt.Errorf("%w: %w", transparency.ErrUnavailable, &url.Error{Op: "Get", URL: r.URL.String(), Err: errBoom})
		},
	} {
		for _, query := range []string{"", "?t", "?tcp=refused"} {
			calls := 0
			rt := twice(roundTrip(func(r *http.Request) (*http.Response, error) { calls++; return nil, fail(r) }))
			_, err := rt.RoundTrip(request(t, "POST", "http://users.test/"+query, nil)) //nolint:bodyclose // there is none
			if calls != 2 || !errors.Is(err, transparency.ErrUnavailable) || errors.Is(err, transparency.ErrUncertain) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, %q: sent %d times, %v, want twice, and ErrUnavailable", name, query, calls, err)
			}
		}
	}
}

// A body that cannot be had again hides nothing of what came before.
func TestTransportGetBodyFails(t *testing.T) {
	for _, status := range []int{503, 0} {
		calls := 0
		rt := twice(roundTrip(func(r *http.Request) (*http.Response, error) {
			if calls++; status == 0 {
				return nil, errBoom
			}
			return answer(r, status, nil), nil
		}))
		req := request(t, "PUT", "http://users.test", strings.NewReader("x"))
		req.GetBody = func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe }
		resp, err := rt.RoundTrip(req)
		if resp != nil {
			resp.Body.Close()
		}
		switch {
		case calls != 1:
			t.Errorf("sent %d times, want once", calls)
		case status != 0 && (err != nil || resp.StatusCode != status):
			t.Errorf("RoundTrip = %v, %v, want the %d", resp, err, status)
		case status == 0 && (!errors.Is(err, errBoom) || !errors.Is(err, io.ErrClosedPipe) || !errors.Is(err, transparency.ErrUncertain)):
			t.Errorf("RoundTrip error = %v, want both, and that the outcome is unknown", err)
		}
	}
}

// That a request may be sent twice says nothing of those that its base makes.
func TestTransportMarksNothingWithin(t *testing.T) {
	for name, policies := range map[string]*failure.Standard{
		"plain": tries(1), "hedged": {Hedge: failure.NewHedge(&failure.HedgeOptions{Delay: time.Hour, Budget: new(failure.Budget)})},
	} {
		tokens := 0
		inner := twice(roundTrip(func(*http.Request) (*http.Response, error) { tokens++; return nil, errBoom }))
		outer := failure.NewTransport(roundTrip(func(r *http.Request) (*http.Response, error) {
			return inner.RoundTrip(request(t, "POST", "http://tokens.test", nil).WithContext(r.Context()))
		}), &failure.TransportOptions{Policies: func(string) *failure.Standard { return policies }})
		_, err := outer.RoundTrip(request(t, "GET", "http://users.test", nil).WithContext(failure.WithIdempotent(t.Context()))) //nolint:bodyclose // there is none
		if tokens != 1 || !errors.Is(err, errBoom) {
			t.Errorf("%s: a POST within was sent %d times, %v, want once", name, tokens, err)
		}
	}
}

// No part of a URL is in an error, decoded or not, alone or within another.
func TestTransportErrorsHoldNoParts(t *testing.T) {
	for name, fail := range map[string]func(*http.Request) error{
		"no user":  func(r *http.Request) error { u := *r.URL; u.User = nil; return errors.New(u.String()) },
		"redacted": func(r *http.Request) error { return errors.New(r.URL.Redacted()) },
		"path":     func(r *http.Request) error { return errors.New(r.URL.Path + " " + r.URL.EscapedPath()) },
		"value":    func(r *http.Request) error { return errors.New(r.URL.Query().Get("token")) },
		"password": func(r *http.Request) error { p, _ := r.URL.User.Password(); return errors.New(p) },
		"user":     func(r *http.Request) error { return errors.New(r.URL.User.Username()) },
		"another URL": func(*http.Request) error {
			return fmt.Errorf("token: %w", &url.Error{Op: "Post", URL: "https://tokens.test/?secret", Err: errBoom})
		},
	} {
		rt := twice(roundTrip(func(r *http.Request) (*http.Response, error) { return nil, fail(r) }))
		_, err := rt.RoundTrip(request(t, "GET", "https://secret%20user:secret%20pass@users.test/secret%20path?token=secret%20value&x=1", nil)) //nolint:bodyclose // there is none
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "https://users.test") {
			t.Errorf("%s: error = %v, want the host, and no secret", name, err)
		}
	}
}

// What is due to a time limit says so as http.Client tells it.
func TestTransportTellsTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/down" {
				return nil, errBoom
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		for path, want := range map[string]bool{"/": true, "/down": false} {
			for _, own := range []bool{true, false} { // a deadline of the request's own, or the policies' alone
				ctx := t.Context()
				if own {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Second)
					defer cancel()
				}
				client := &http.Client{Transport: twice(base)}
				_, err := client.Do(request(t, "GET", "http://users.test"+path, nil).WithContext(ctx)) //nolint:bodyclose // there is none
				var e *url.Error
				if !errors.As(err, &e) || e.Timeout() != want {
					t.Errorf("%s: Do error = %v, Timeout() = %v, want %v", path, err, e.Timeout(), want)
				}
			}
		}
	})
}
