package failure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// A Standard puts the policies in order. A Fallback goes around it.
func ExampleStandard() {
	policies := failure.NewStandard("users")
	policies.Whole = failure.NewTimeout(5*time.Second, nil)
	policies.Retry = failure.NewRetry(&failure.RetryOptions{Base: time.Millisecond})
	guest := failure.NewFallback(func(context.Context, error) (string, error) { return "guest", nil }, nil)

	for _, fails := range []int{2, 9} {
		name, err := failure.Call(context.Background(), func(ctx context.Context) (string, error) {
			if failure.Attempt(ctx) <= fails {
				return "", transparency.ErrUnavailable
			}
			return "ada", nil
		}, guest, policies)
		fmt.Println(name, err)
	}
	// Output:
	// ada <nil>
	// guest <nil>
}

// A Bulkhead bounds the calls that are under way.
func ExampleBulkhead() {
	bulkhead := failure.NewBulkhead(&failure.BulkheadOptions{Name: "reports", Places: 1, Queue: -1})
	_, err := failure.Call(context.Background(), func(ctx context.Context) (int, error) {
		return failure.Call(ctx, func(context.Context) (int, error) { return 7, nil }, bulkhead)
	}, bulkhead)
	fmt.Println(err)
	// Output: failure: bulkhead "reports": rejected on this side: no place free
}

// A RateLimit bounds how many calls are made in a time.
func ExampleRateLimit() {
	limit := failure.NewRateLimit(1.0/3600, &failure.RateLimitOptions{Name: "sms"})
	for range 2 {
		_, err := failure.Call(context.Background(), func(context.Context) (int, error) { return 7, nil }, limit)
		fmt.Println(errors.Is(err, failure.ErrLimited), failure.RetryAfter(err).Round(time.Minute))
	}
	// Output:
	// false 0s
	// true 1h0m0s
}

// A Hedge makes a call that takes long a second time, and takes what comes
// first.
func ExampleHedge() {
	hedge := failure.NewHedge(&failure.HedgeOptions{Idempotent: true, Delay: time.Millisecond})
	replicas := make(chan string, 2)
	replicas <- "a slow one"
	replicas <- "a fast one"
	got, err := failure.Call(context.Background(), func(ctx context.Context) (string, error) {
		replica := <-replicas
		if replica == "a slow one" {
			<-ctx.Done() // ends when the other has answered
			return "", ctx.Err()
		}
		return replica, nil
	}, hedge)
	fmt.Println(got, err)
	// Output: a fast one <nil>
}

// An HTTP client whose requests are made again where that is safe, and which
// leaves a host alone that fails.
func ExampleNewTransport() {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ada")
	}))
	defer server.Close()

	client := &http.Client{Transport: failure.NewTransport(nil, nil)}
	defer client.CloseIdleConnections()
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		req, err := http.NewRequestWithContext(context.Background(), method, server.URL, strings.NewReader(""))
		if err != nil {
			fmt.Println(err)
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(method, resp.StatusCode, string(text), "after", requests)
	}
	// Output:
	// POST 503  after 1
	// GET 200 ada after 3
}

// Three layers that retry multiply the load of a service that fails, unless
// they have a budget and heed each other.
func ExampleRetry_storm() {
	down := func(err error) bool { return err != nil }
	layers := func(naive bool) []failure.Policy {
		var policies []failure.Policy
		for range 3 {
			opts := &failure.RetryOptions{Base: -1, Budget: failure.NewBudget(&failure.BudgetOptions{PerSecond: -1})}
			if naive {
				opts = &failure.RetryOptions{Base: -1, Budget: failure.NewBudget(&failure.BudgetOptions{PerSecond: 1e6}), Retryable: down}
			}
			policies = append(policies, failure.NewRetry(opts))
		}
		return policies
	}
	for _, naive := range []bool{true, false} {
		policies, load := layers(naive), 0
		for _, fails := range []bool{false, true} {
			load = 0
			for range 1000 {
				_, _ = failure.Call(context.Background(), func(context.Context) (int, error) {
					load++
					if fails {
						return 0, transparency.ErrUnavailable
					}
					return 0, nil
				}, policies...)
			}
		}
		fmt.Printf("naive %v: 1000 calls make %d\n", naive, load)
	}
	// Output:
	// naive true: 1000 calls make 27000
	// naive false: 1000 calls make 1100
}
