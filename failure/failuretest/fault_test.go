package failuretest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure/failuretest"
	"github.com/go-transparency/transparency/internal/testkit"
)

func TestInject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		call := failuretest.Inject(failuretest.Script(
			failuretest.Fault{},
			failuretest.Fault{Delay: time.Second},
			failuretest.Fault{Refused: transparency.ErrUnavailable},
			failuretest.Fault{Lost: transparency.ErrUncertain},
			failuretest.Fault{Hang: true},
			failuretest.Fault{Delay: time.Hour},
			failuretest.Fault{Panic: io.EOF},
		), func(context.Context) (int, error) { made++; return made, nil })
		for i, want := range []struct {
			got, made int
			err       error
			took      time.Duration
		}{
			{1, 1, nil, 0}, {2, 2, nil, time.Second}, {0, 2, transparency.ErrUnavailable, 0}, {0, 3, transparency.ErrUncertain, 0},
			{0, 3, context.DeadlineExceeded, time.Minute}, {0, 3, context.DeadlineExceeded, time.Minute},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			start := time.Now()
			got, err := call(ctx)
			if got != want.got || made != want.made || !errors.Is(err, want.err) || time.Since(start) != want.took {
				t.Errorf("call %d = %d, %v after %v with %d made, want %+v", i, got, err, time.Since(start), made, want)
			}
			cancel()
		}
		func() {
			defer func() {
				if got := recover(); got != io.EOF {
					t.Errorf("panic %v, want EOF", got)
				}
			}()
			_, _ = call(t.Context())
		}()
		if got, err := call(t.Context()); got != 4 || err != nil {
			t.Errorf("call after the script = %d, %v", got, err)
		}
	})
}

// The same seed makes the same faults, whatever the order.
func TestRandom(t *testing.T) {
	faults := []failuretest.Fault{{Status: 1}, {Status: 2}, {Status: 3}}
	a, b, c := failuretest.Random(7, 0.3, faults...), failuretest.Random(7, 0.3, faults...), failuretest.Random(8, 0.3, faults...)
	const calls = 10_000
	count := map[int]int{}
	same := 0
	for n := range calls {
		got := a(n).Status
		count[got]++
		if other := b(n).Status; other != got {
			t.Fatalf("call %d meets %d and %d with one seed", n, got, other)
		}
		if c(n).Status == got {
			same++
		}
	}
	if n := calls - count[0]; n < 2800 || n > 3200 || same == calls {
		t.Errorf("%d of %d calls met a fault, want 30 %%", n, calls)
	}
	for i := 1; i <= 3; i++ {
		if count[i] < 800 {
			t.Errorf("fault %d came %d times", i, count[i])
		}
	}
	if failuretest.Random(1, 1)(0).Status != 0 {
		t.Error("a fault out of none")
	}
}

type base func(*http.Request) (*http.Response, error)

func (b base) RoundTrip(req *http.Request) (*http.Response, error) { return b(req) }

func TestFaultTransport(t *testing.T) {
	rt := failuretest.NewTransport(base(func(req *http.Request) (*http.Response, error) {
		req.Body.Close()
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("ada lovelace"))}, nil
	}), failuretest.Script(
		failuretest.Fault{},
		failuretest.Fault{Refused: transparency.ErrUnavailable},
		failuretest.Fault{Lost: transparency.ErrUncertain},
		failuretest.Fault{Status: 503, Header: map[string]string{"Retry-After": "7"}},
		failuretest.Fault{Cut: 3},
		failuretest.Fault{Cut: -1},
	))
	for i, want := range []struct {
		status, sent int
		text         string
		err, readErr error
	}{
		{200, 1, "ada lovelace", nil, nil},
		{0, 1, "", transparency.ErrUnavailable, nil},
		{0, 2, "", transparency.ErrUncertain, nil},
		{503, 2, "Service Unavailable", nil, nil},
		{200, 3, "ada", nil, io.ErrUnexpectedEOF},
		{200, 4, "", nil, io.ErrUnexpectedEOF},
	} {
		sent := &sentBody{Reader: strings.NewReader("x")}
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://users.test", sent)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if !errors.Is(err, want.err) || !sent.closed || rt.Sent() != want.sent || rt.Requests() != i+1 {
			t.Errorf("request %d: error = %v, body closed %v, %d sent, want %+v", i, err, sent.closed, rt.Sent(), want)
		}
		if err != nil {
			continue
		}
		if rt.Open() != 1 {
			t.Errorf("request %d: %d bodies open", i, rt.Open())
		}
		text, err := io.ReadAll(resp.Body)
		if resp.StatusCode != want.status || string(text) != want.text || !errors.Is(err, want.readErr) {
			t.Errorf("request %d: %d %q, %v, want %+v", i, resp.StatusCode, text, err, want)
		}
		if want.status == 503 && resp.Header.Get("Retry-After") != "7" {
			t.Errorf("request %d: header %v", i, resp.Header)
		}
		resp.Body.Close()
		resp.Body.Close()
		if rt.Open() != 0 {
			t.Errorf("request %d: %d bodies open after Close", i, rt.Open())
		}
	}
}

type sentBody struct {
	io.Reader
	closed bool
}

func (s *sentBody) Close() error { s.closed = true; return nil }

// What makes no sense is an error.
func TestFaultsOfNothing(t *testing.T) {
	for _, v := range []*failuretest.Transport{nil, {}} {
		testkit.Zero(t.Context(), t, v)
	}
	if _, err := failuretest.Inject[int](nil, nil)(t.Context()); !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("a nil function: error = %v, want ErrInvalid", err)
	}
}
