package location_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/location"
)

// A server that stops answering holds nobody up beyond his context, and little
// else.
func TestHungRedis(t *testing.T) {
	const callers = 1000
	const bound = 100 * time.Millisecond
	for _, op := range []string{"Resolve", "Resolve of one service", "Register", "Deregister", "Pick", "Resolve of what is known"} {
		t.Run(op, func(t *testing.T) {
			s := redistest.StartServer(t)
			r := newRegistry(t, s.Client(t), location.Options{TTL: time.Minute})
			b := location.NewBalancer(r, &location.BalancerOptions{MaxServices: 2 * callers})
			defer b.Close()
			name := func(i int) string { return fmt.Sprint("s", i) }
			var regs [callers]*location.Registration
			if op == "Deregister" || op == "Resolve of what is known" {
				for i := range callers {
					g, err := r.Register(t.Context(), name(i), at("h1"))
					if err != nil {
						t.Fatal(err)
					}
					regs[i] = g
					if _, err := r.Resolve(t.Context(), name(i)); err != nil {
						t.Fatal(err)
					}
				}
			}
			_, _ = r.Resolve(t.Context(), "warm")
			before := runtime.NumGoroutine()
			s.Pause()
			testkit.OnTime(t, callers, bound, func(ctx context.Context, i int) {
				var err error
				switch op {
				case "Resolve", "Resolve of what is known":
					_, err = r.Resolve(ctx, name(i))
				case "Resolve of one service":
					_, err = r.Resolve(ctx, "one")
				case "Register":
					_, err = r.Register(ctx, name(i), at("h1"))
				case "Deregister":
					err = regs[i].Deregister(ctx)
				case "Pick":
					_, err = b.Pick(ctx, name(i))
				}
				// Or refused at once, when as many as may be are without an answer.
				if !errors.Is(err, context.DeadlineExceeded) && !transparency.Retryable(err) {
					t.Errorf("%s error = %v, want the context's, or one to try again after", op, err)
				}
			})
			most := 64 + 16 // commands, and what the Registry does by itself
			if op == "Pick" {
				most += 3 * callers // the watches go on; they are what Pick is for
			}
			eventually(t, "few goroutines are left", testkit.Limit, func() bool { return runtime.NumGoroutine()-before <= most })
			if op == "Resolve of what is known" {
				// Who has time is served what is known: at once, unless the
				// one before had no time to find out.
				var wg sync.WaitGroup
				for i := range callers {
					wg.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit)
						defer cancel()
						if s, err := r.Resolve(ctx, name(i)); err != nil || !s.Stale() {
							t.Errorf("Resolve = %v, %v, want a stale snapshot", s, err)
						}
					})
				}
				wg.Wait()
				eventually(t, "few goroutines are left still", testkit.Limit, func() bool { return runtime.NumGoroutine()-before <= most })
			}
			s.Resume()
			eventually(t, "all is undone", testkit.Limit, func() bool { return r.Stats().Undoing == 0 })
			if op == "Register" {
				for i := range callers {
					if got, err := r.Resolve(t.Context(), name(i)); err == nil {
						t.Fatalf("Resolve(%q) = %v, want nothing left", name(i), got)
					}
				}
			}
		})
	}
}
