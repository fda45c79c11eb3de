package session_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/session"
)

// TestHung: a server that stopped answering holds neither its callers nor
// more than 64 goroutines, whatever the operation.
func TestHung(t *testing.T) {
	const (
		callers = 1000
		timeout = 100 * time.Millisecond
		grace   = 100 * time.Millisecond * slowdown
	)
	for op, call := range calls {
		hung(t, op, callers, timeout, grace, func(ctx context.Context, store *session.RedisStore, _ *session.Manager[int], _ *session.Session[int]) error {
			return call(ctx, store, "id")
		})
	}
	type manager = *session.Manager[int]
	for op, call := range map[string]func(ctx context.Context, m manager, s *session.Session[int]) error{
		"New": func(ctx context.Context, m manager, _ *session.Session[int]) error {
			_, err := m.New(ctx, 1)
			return err
		},
		"Get": func(ctx context.Context, m manager, s *session.Session[int]) error {
			_, err := m.Get(ctx, s.Token().Reveal())
			return err
		},
		"Peek": func(ctx context.Context, m manager, s *session.Session[int]) error {
			_, err := m.Peek(ctx, s.Token().Reveal())
			return err
		},
		"Update": func(ctx context.Context, m manager, s *session.Session[int]) error {
			_, err := m.Update(ctx, s, func(n *int) error { *n++; return nil })
			return err
		},
		"Renew": func(ctx context.Context, m manager, s *session.Session[int]) error {
			_, err := m.Renew(ctx, s)
			return err
		},
		"Destroy": func(ctx context.Context, m manager, s *session.Session[int]) error { return m.Destroy(ctx, s) },
	} {
		hung(t, "Manager."+op, callers, timeout, grace, func(ctx context.Context, _ *session.RedisStore, m manager, s *session.Session[int]) error {
			return call(ctx, m, s)
		})
	}
}

func hung(t *testing.T, op string, callers int, timeout, grace time.Duration,
	call func(ctx context.Context, store *session.RedisStore, m *session.Manager[int], s *session.Session[int]) error,
) {
	t.Run(op, func(t *testing.T) {
		srv := redistest.StartServer(t)
		store := session.NewRedisStore(srv.Client(t), nil)
		m := session.NewManager[int](store, nil)
		s, err := m.New(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		before := runtime.NumGoroutine()
		srv.Pause()
		var (
			wg      sync.WaitGroup
			mu      sync.Mutex    // guards what follows
			slowest time.Duration // of the callers
			idle    time.Duration // of as many who only wait: what the machine takes
		)
		for range callers {
			wg.Go(func() {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				<-ctx.Done()
				took := time.Since(start)
				mu.Lock()
				defer mu.Unlock()
				idle = max(idle, took)
			})
			wg.Go(func() {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				err := call(ctx, store, m, s)
				took := time.Since(start)
				if !errors.Is(err, transparency.ErrUnavailable) && !errors.Is(err, transparency.ErrUncertain) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error = %v, want a class or the context's", err)
				}
				mu.Lock()
				defer mu.Unlock()
				slowest = max(slowest, took)
			})
		}
		wg.Wait()
		if slowest > idle+grace {
			t.Errorf("the slowest of %d callers took %v, want at most %v after the context's end, which took %v", callers, slowest, grace, idle)
		}
		left := runtime.NumGoroutine() - before
		for try := 0; left > 64 && try < 10; try++ {
			time.Sleep(time.Millisecond) // some that called Done are not quite gone
			left = runtime.NumGoroutine() - before
		}
		if left > 64 {
			t.Errorf("%d goroutines are left, want at most 64", left)
		}
		srv.Resume()
		until(t, "goroutines gone", func() bool { return runtime.NumGoroutine() <= before })
	})
}
