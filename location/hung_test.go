package location_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
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
			// What this machine takes, busy as it is, for no operation at all.
			late := slowest(callers, func(int) {
				ctx, cancel := context.WithTimeout(context.Background(), bound)
				defer cancel()
				<-ctx.Done()
			}) - bound
			s.Pause()
			took := slowest(callers, func(i int) {
				ctx, cancel := context.WithTimeout(context.Background(), bound)
				defer cancel()
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
			t.Logf("slowest %v (timers alone are %v late), %+v", took, late, r.Stats())
			// Far from the Timeout, on a machine however busy.
			if took > time.Second+3*late {
				t.Errorf("the slowest came back after %v, want about %v", took, bound)
			}
			most := 64 + 16 // commands, and what the Registry does by itself
			if op == "Pick" {
				most += 3 * callers // the watches go on; they are what Pick is for
			}
			eventually(t, "few goroutines are left", time.Second, func() bool { return runtime.NumGoroutine()-before <= most })
			if op == "Resolve of what is known" {
				start := time.Now()
				for i := range callers {
					if s, err := r.Resolve(t.Context(), name(i)); err != nil || !s.Stale() {
						t.Fatalf("Resolve = %v, %v, want a stale snapshot", s, err)
					}
				}
				if took := time.Since(start); took > time.Second {
					t.Errorf("serving what is known took %v", took)
				}
				if left := runtime.NumGoroutine() - before; left > most {
					t.Errorf("%d goroutines are left, want at most %d", left, most)
				}
			}
			s.Resume()
			eventually(t, "all is undone", 15*time.Second, func() bool { return r.Stats().Undoing == 0 })
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

// slowest calls fn n times at once and returns how long the slowest took.
func slowest(n int, fn func(i int)) time.Duration {
	var most atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			began := time.Now()
			fn(i)
			took := int64(time.Since(began))
			for old := most.Load(); took > old && !most.CompareAndSwap(old, took); old = most.Load() {
			}
		})
	}
	close(start)
	wg.Wait()
	return time.Duration(most.Load())
}
