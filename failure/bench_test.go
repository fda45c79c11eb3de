package failure_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-transparency/transparency/failure"
)

// The comparisons with others are in internal/bench.

func BenchmarkCall(b *testing.B) {
	reply := new(int)
	call := func(context.Context) (*int, error) { return reply, nil }
	standard := failure.NewStandard("bench")
	hedge := failure.NewHedge(&failure.HedgeOptions{Idempotent: true, Delay: failure.DefaultLimit})
	for name, policies := range map[string][]failure.Policy{
		"retry":    {failure.NewRetry(nil)},
		"bulkhead": {failure.NewBulkhead(nil)},
		"timeout":  {failure.NewTimeout(failure.DefaultLimit, nil)},
		"hedge":    {hedge},
		"rate":     {failure.NewRateLimit(1e9, nil)},
		"standard": {standard},
		"chain":    {standard.Retry, standard.Breaker, standard.Timeout, standard.Bulkhead},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got, err := failure.Call(b.Context(), call, policies...); got != reply || err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTransport(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ada") }))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	for name, rt := range map[string]http.RoundTripper{"bare": base, "transport": failure.NewTransport(base, nil)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			client := &http.Client{Transport: rt}
			for b.Loop() {
				resp, err := client.Get(server.URL)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}
