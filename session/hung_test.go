package session_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/session"
)

// TestHung: a server that stopped answering holds neither its callers nor
// more than 64 goroutines, whatever the operation.
func TestHung(t *testing.T) {
	const (
		callers  = 1000
		patience = 100 * time.Millisecond
	)
	for op, call := range calls {
		hung(t, op, callers, patience, func(ctx context.Context, store *session.RedisStore, _ *session.Manager[int], _ *session.Session[int]) error {
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
		hung(t, "Manager."+op, callers, patience, func(ctx context.Context, _ *session.RedisStore, m manager, s *session.Session[int]) error {
			return call(ctx, m, s)
		})
	}
}

func hung(t *testing.T, op string, callers int, patience time.Duration,
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
		testkit.OnTime(t, callers, patience, func(ctx context.Context, _ int) {
			err := call(ctx, store, m, s)
			if !errors.Is(err, transparency.ErrUnavailable) && !errors.Is(err, transparency.ErrUncertain) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error = %v, want a class or the context's", err)
			}
		})
		testkit.Eventually(t, "at most 64 goroutines are left", testkit.Limit, func() bool { return runtime.NumGoroutine()-before <= 64 })
		srv.Resume()
		testkit.Eventually(t, "all goroutines are gone", testkit.Limit, func() bool { return runtime.NumGoroutine() <= before })
	})
}
