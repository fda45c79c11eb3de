package failure_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
	"github.com/go-transparency/transparency/internal/redistest"
)

// A breaker opens after failures in a row. Then calls fail at once, with an
// error that says so.
func ExampleLocalBreaker() {
	breaker := failure.NewLocalBreaker(&failure.BreakerOptions{Name: "users", Failures: 3})
	load := func(context.Context) (string, error) { return "", errors.New("connection reset") }

	for range 4 {
		_, err := failure.Call(context.Background(), load, breaker)
		fmt.Println(breaker.State(), errors.Is(err, failure.ErrOpen), failure.RetryAfter(err) > 0)
	}
	// Output:
	// closed false false
	// closed false false
	// open false false
	// open true true
}

// A fleet whose breaker two instances have opened is open in all of them.
func ExampleNewRedisBreaker() {
	ctx := context.Background()
	client, done := redistest.Example() // a client of your own
	defer done()

	opts := &failure.SharedOptions{Breaker: failure.BreakerOptions{Name: "payments", Failures: 3}}
	var fleet []*failure.SharedBreaker // each would be in a process of its own
	for range 3 {
		b := failure.NewRedisBreaker(client, opts)
		defer b.Close()
		fleet = append(fleet, b)
	}
	last := fleet[2]
	changes := last.Changes(ctx)
	_, _ = failure.Call(ctx, func(context.Context) (int, error) { return 1, nil }, last)

	for range 3 {
		for _, b := range fleet[:2] {
			_, _ = failure.Call(ctx, func(context.Context) (int, error) { return 0, errors.New("connection reset") }, b)
		}
	}
	for c := range changes {
		fmt.Println("the third, whose call succeeded, is", c.To)
		break
	}
	// Output: the third, whose call succeeded, is open
}

// A Retry repeats what had no effect. Other errors are the caller's.
func ExampleRetry() {
	retry := failure.NewRetry(&failure.RetryOptions{Base: time.Microsecond})
	got, err := failure.Call(context.Background(), func(ctx context.Context) (string, error) {
		if failure.Attempt(ctx) < 3 {
			return "", fmt.Errorf("%w: connection refused", transparency.ErrUnavailable)
		}
		return "ada", nil
	}, retry)
	fmt.Println(got, err)

	_, err = failure.Call(context.Background(), func(context.Context) (string, error) {
		return "", fmt.Errorf("%w: no reply", transparency.ErrUncertain)
	}, retry)
	fmt.Println(err)
	// Output:
	// ada <nil>
	// outcome unknown: no reply
}

// Retries that share a budget add no more than a part to the load, however many
// calls fail. The error of the call is never hidden.
func ExampleBudget() {
	budget := failure.NewBudget(&failure.BudgetOptions{PerSecond: -1}) // only what successes earn
	retry := failure.NewRetry(&failure.RetryOptions{Budget: budget, Base: -1})
	down := fmt.Errorf("%w: connection refused", transparency.ErrUnavailable)

	_, err := failure.Call(context.Background(), func(context.Context) (int, error) { return 0, down }, retry)
	fmt.Println(err)
	fmt.Println(errors.Is(err, failure.ErrBudget), errors.Is(err, transparency.ErrUnavailable))
	// Output:
	// failure: retry: retry budget spent: unavailable: connection refused
	// true true
}

// A Timeout gives a call a time limit of its own.
func ExampleTimeout() {
	limit := failure.NewTimeout(time.Millisecond, nil)
	_, err := failure.Call(context.Background(), func(ctx context.Context) (int, error) {
		<-ctx.Done() // a query that takes too long
		return 0, ctx.Err()
	}, limit)
	fmt.Println(err)
	// Output: failure: timeout: timed out after 1ms: context deadline exceeded
}

// A Fallback answers in the place of a call that failed.
func ExampleFallback() {
	guess := failure.NewFallback(func(_ context.Context, err error) (string, error) {
		return "a guess, for want of better: " + err.Error(), nil
	}, nil)
	got, err := failure.Call(context.Background(), func(context.Context) (string, error) {
		return "", errors.New("connection reset")
	}, guess)
	fmt.Println(got, err)
	// Output: a guess, for want of better: connection reset <nil>
}

// What is no function takes a permit, and gives it back with the outcome.
func ExampleBreaker_allow() {
	var breaker failure.Breaker = failure.NewLocalBreaker(nil)
	permit, err := breaker.Allow(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	permit.Done(errors.New("connection reset"))
	fmt.Println(breaker.State())
	// Output: closed
}
