package failure_test

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
	"github.com/go-transparency/transparency/failure"
)

// The limit of an attempt is over when the head is there; the body has the time
// of the request.
func TestTransportBodyOutlivesTimeout(t *testing.T) {
	s := tries(1)
	s.Whole = failure.NewTimeout(time.Minute, nil)
	ctx, cancel := context.WithCancel(t.Context())
	more := make(chan struct{})
	url, client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("one "))
		_ = http.NewResponseController(w).Flush()
		<-more
		_, _ = w.Write([]byte("two "))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, s)
	resp, err := client.Do(request(t, "GET", url, nil).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	close(more)
	got := make([]byte, 8)
	if _, err := io.ReadFull(resp.Body, got); string(got) != "one two " || err != nil {
		t.Errorf("the body = %q, %v, want all of it though the policies have ended", got, err)
	}
	cancel()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("Read error = %v, want Canceled with the request", err)
	}
	if resp.Request.URL.String() != url || resp.Request.Context() != ctx {
		t.Errorf("the request of the response is not the caller's")
	}
}

// A time limit that is over before the head is there ends the attempt.
func TestTransportTimeout(t *testing.T) {
	s := tries(2)
	s.Timeout = failure.NewTimeout(20*time.Millisecond, nil)
	url, client, sent := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, s)
	_, _, err := send(t, client, request(t, "GET", url, nil))
	if !errors.Is(err, failure.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, failure.ErrAttempts) || sent.attempts.Load() != 2 {
		t.Errorf("GET error = %v after %d attempts, want ErrTimeout after two", err, sent.attempts.Load())
	}
	if counts := s.Breaker.(*failure.LocalBreaker).Stats(); counts.Failed != 2 {
		t.Errorf("the breaker has counted %+v, want two failures", counts)
	}
	sent.attempts.Store(0)
	if _, _, err = send(t, client, request(t, "POST", url, nil)); sent.attempts.Load() != 1 || !errors.Is(err, failure.ErrTimeout) {
		t.Errorf("POST error = %v after %d attempts, want ErrTimeout after one", err, sent.attempts.Load())
	}
}

// What an attempt holds is given back when its body is closed, and a head that
// comes too late is none.
func TestTransportGivesBack(t *testing.T) {
	for _, hedged := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := tries(1)
			s.Timeout = failure.NewTimeout(time.Second, nil)
			if hedged {
				s.Hedge = failure.NewHedge(&failure.HedgeOptions{Delay: time.Second, Budget: plenty()})
			}
			var attempt context.Context
			var takes time.Duration
			var body *closing
			rt := failure.NewTransport(roundTrip(func(req *http.Request) (*http.Response, error) {
				attempt = req.Context()
				time.Sleep(takes) // deaf to its context
				resp := answer(req, 200, nil)
				body = &closing{Reader: resp.Body}
				resp.Body = body
				return resp, nil
			}), &failure.TransportOptions{Policies: func(string) *failure.Standard { return s }})
			resp, err := rt.RoundTrip(request(t, "POST", "http://users.test", nil).WithContext(failure.WithIdempotent(t.Context())))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if attempt.Err() != nil {
				t.Errorf("hedged %v: the attempt has ended with %v before its body was closed", hedged, attempt.Err())
			}
			resp.Body.Close()
			if attempt.Err() == nil {
				t.Errorf("hedged %v: the attempt goes on after its body was closed", hedged)
			}
			takes = time.Minute
			resp, err = rt.RoundTrip(request(t, "POST", "http://users.test", nil)) //nolint:bodyclose // there is none
			if resp != nil || !errors.Is(err, failure.ErrTimeout) || body.closed.Load() == 0 {
				t.Errorf("hedged %v: RoundTrip = %v, %v, want ErrTimeout, and the late body closed", hedged, resp, err)
			}
		})
	}
}

// Nothing is sent for a request that has ended.
func TestTransportEnded(t *testing.T) {
	rt := failure.NewTransport(roundTrip(func(*http.Request) (*http.Response, error) {
		t.Error("the request was sent")
		return nil, errBoom
	}), &failure.TransportOptions{Policies: func(string) *failure.Standard { return &failure.Standard{} }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	body := &closing{Reader: strings.NewReader("x")}
	resp, err := rt.RoundTrip(request(t, "POST", "http://users.test", body).WithContext(ctx)) //nolint:bodyclose // there is none
	if resp != nil || !errors.Is(err, context.Canceled) || errors.Is(err, transparency.ErrUncertain) || body.closed.Load() == 0 {
		t.Errorf("RoundTrip = %v, %v, body closed %d times, want Canceled", resp, err, body.closed.Load())
	}
}

// A protocol that is switched to can be written to.
func TestTransportSwitchesProtocols(t *testing.T) {
	url, client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString(line)
		_ = rw.Flush()
	}, tries(1))
	// The counting base hides that the body can be written to.
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	client.Transport = failure.NewTransport(base, nil)
	req := request(t, "GET", url, nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	w, ok := resp.Body.(io.Writer)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		t.Fatalf("%v with a %T, want 101 and a body to write to", resp.Status, resp.Body)
	}
	_, _ = io.WriteString(w, "hello\n")
	if got, err := io.ReadAll(resp.Body); string(got) != "hello\n" || err != nil {
		t.Errorf("read %q, %v, want the echo", got, err)
	}
}
