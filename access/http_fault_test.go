package access_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
)

// raw returns the URL of a server that answers each connection by script.
func raw(t *testing.T, script func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			script(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return "http://" + listener.Addr().String()
}

func ownTransport(t *testing.T) *http.Transport {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// TestHTTPBroken has the second half of AC-12: an answer that breaks off, or
// is none, is unavailable, and its pieces are not quoted.
func TestHTTPBroken(t *testing.T) {
	for name, answer := range map[string]string{
		"short body":        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhunter2",
		"short chunk":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\nhunter2",
		"bad chunk":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhunter2\r\nhunter2",
		"short gzip":        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 7\r\n\r\nhunter2",
		"nothing":           "",
		"no HTTP":           "hunter2 hunter2 hunter2\r\n\r\n",
		"bad status":        "HTTP/1.1 hunter2 OK\r\n\r\n",
		"bad header":        "HTTP/1.1 200 OK\r\nhunter2\r\n\r\n",
		"bad length":        "HTTP/1.1 200 OK\r\nContent-Length: hunter2\r\n\r\n",
		"half the headers":  "HTTP/1.1 200 OK\r\nX-Token: hunter2\r\n",
		"unknown transfers": "HTTP/1.1 200 OK\r\nTransfer-Encoding: hunter2\r\n\r\n",
	} {
		url := raw(t, func(c net.Conn) { _, _ = io.WriteString(c, answer) })
		got, err := get(access.NewHTTP(url, &access.HTTPOptions{Transport: ownTransport(t)}), "doc")
		if !errors.Is(err, transparency.ErrUnavailable) || !transparency.Retryable(err) || got != "" {
			t.Errorf("%s: Get = %q, %v, want ErrUnavailable", name, got, err)
		}
		if strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("%s: error = %q: it quotes the answer", name, err)
		}
		if says := "ended too early"; (name == "nothing" || strings.HasPrefix(name, "short")) && !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: error = %q, want it to say: %s", name, err, says)
		}
	}
}

// TestHTTPSlow is AC-13: a server that trickles does not outlast the timeout.
// TestMain finds what would be left.
func TestHTTPSlow(t *testing.T) {
	trickle := func(head, drop string) func(net.Conn) {
		return func(c net.Conn) {
			_, err := io.WriteString(c, head)
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for ; err == nil; <-tick.C {
				_, err = io.WriteString(c, drop)
			}
		}
	}
	for name, script := range map[string]func(net.Conn){
		"headers": trickle("HTTP/1.1 200 OK\r\n", "X-A: b\r\n"),
		"body":    trickle("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", "x"),
		"chunks":  trickle("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
	} {
		url := raw(t, script)
		repo := access.NewHTTP(url, &access.HTTPOptions{Transport: ownTransport(t), Timeout: 100 * time.Millisecond})
		start := time.Now()
		if _, err := get(repo, "doc"); !errors.Is(err, transparency.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: Get error = %v, want ErrUnavailable and no context error: the caller's has not ended", name, err)
		}
		repo = access.NewHTTP(url, &access.HTTPOptions{Transport: ownTransport(t), Timeout: -1})
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		if _, err := repo.Get(ctx, "doc"); !errors.Is(err, transparency.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: Get error = %v, want ErrUnavailable and context.DeadlineExceeded", name, err)
		}
		cancel()
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("%s: two Gets of 100ms took %v", name, took)
		}
	}
}

func TestHTTPUnreachable(t *testing.T) {
	plain, _ := serve(t, func(http.ResponseWriter, *http.Request) {})
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = discardLog
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for _, tt := range []struct{ name, url, says string }{
		{"refused", "http://ada:hunter2@127.0.0.1:1/?token=hunter2", "refused"},
		{"HTTPS to HTTP", strings.Replace(plain, "http:", "https:", 1), "the server does not speak TLS"},
		{"unknown certificate", secure.URL, "certificate was not accepted: x509: "},
	} {
		_, err := get(access.NewHTTP(tt.url, &access.HTTPOptions{Transport: ownTransport(t)}), "doc")
		if !errors.Is(err, transparency.ErrUnavailable) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: Get error = %v, want ErrUnavailable: %s", tt.name, err, tt.says)
		}
		if strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("%s: error = %q: it holds a secret", tt.name, err)
		}
	}
}

// A transport may have limits of its own.
func TestHTTPTransportTimeout(t *testing.T) {
	released := make(chan struct{})
	url := raw(t, func(net.Conn) { <-released })
	transport := ownTransport(t)
	transport.ResponseHeaderTimeout = 20 * time.Millisecond
	_, err := get(access.NewHTTP(url, &access.HTTPOptions{Transport: transport}), "doc")
	close(released)
	if !transparency.Retryable(err) || !strings.Contains(err.Error(), "the server took too long") {
		t.Errorf("Get error = %v, want ErrUnavailable: the server took too long", err)
	}
}
