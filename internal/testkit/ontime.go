package testkit

import (
	"context"
	"sync"
	"time"
)

// OnTime calls call n times at once, each with a context of its own that ends after patience, and
// fails the test when the slowest came back much later than that. What is much depends on the
// machine: beside each call another goroutine waits for such a context and does nothing else, and
// of these, too, the latest counts.
func OnTime(tb TB, n int, patience time.Duration, call func(ctx context.Context, i int)) {
	tb.Helper()
	start := make(chan struct{})
	calls, timers := make([]time.Duration, n), make([]time.Duration, n)
	var wg sync.WaitGroup
	measure := func(took *time.Duration, f func(ctx context.Context)) {
		wg.Go(func() {
			<-start
			began := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			f(ctx)
			*took = time.Since(began)
		})
	}
	for i := range n {
		measure(&calls[i], func(ctx context.Context) { call(ctx, i) })
		measure(&timers[i], func(ctx context.Context) { <-ctx.Done() })
	}
	close(start)
	wg.Wait()
	slowest, late := longest(calls), longest(timers)-patience
	if most := 5*patience + 10*late; slowest > most {
		tb.Errorf("the slowest of %d callers with %v came back after %v, want at most %v: timers alone were %v late",
			n, patience, slowest, most, late)
	}
}

func longest(all []time.Duration) (most time.Duration) {
	for _, d := range all {
		most = max(most, d)
	}
	return most
}
