package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency/failure"
)

func sendThrough(ctx context.Context, _ *rig) (*side, error) {
	return sendSide(ctx, func(base http.RoundTripper) http.RoundTripper {
		return failure.NewTransport(base, nil)
	}, true)
}

func sendBare(ctx context.Context, _ *rig) (*side, error) {
	return sendSide(ctx, func(base http.RoundTripper) http.RoundTripper { return base }, false)
}

// sendSide gets a short text from a server in this process, over one connection
// that is kept, and reads it.
func sendSide(ctx context.Context, around func(http.RoundTripper) http.RoundTripper, repeated bool) (*side, error) {
	const text = "hello"
	var served atomic.Int64
	base := &http.Transport{}
	addr, stop, err := serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		served.Add(1)
		if req.URL.Path == "/once" && served.Load()%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: around(base)}
	get := func(ctx context.Context, path string) (status int, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
		if err != nil {
			return 0, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode == http.StatusOK && string(body) != text {
			err = fmt.Errorf("read %q", body)
		}
		return resp.StatusCode, err
	}
	return &side{
		op: func(ctx context.Context) error {
			status, err := get(ctx, "/")
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("status %d", status)
			}
			return err
		},
		// A server that is there again the second time is noticed by nobody who
		// goes through policies, and by everybody else.
		verify: func(ctx context.Context) error {
			served.Store(0)
			status, err := get(ctx, "/once")
			if err == nil && (status == http.StatusOK) != repeated {
				err = fmt.Errorf("status %d after %d requests", status, served.Load())
			}
			return err
		},
		close: func() error {
			base.CloseIdleConnections()
			return stop()
		},
	}, nil
}

// serve runs an HTTP server on the loopback interface until it is stopped.
func serve(ctx context.Context, h http.Handler) (addr string, stop func() error, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	return l.Addr().String(), func() error {
		err := srv.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}
