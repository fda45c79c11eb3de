package lock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/lock"
)

// A server that stops answering holds nobody up beyond his context, and little
// else.
func TestHungRedis(t *testing.T) {
	s := redistest.StartServer(t)
	for _, op := range []string{"Lock", "Lock by a client that ignores deadlines", "Lock of one key", "TryLock", "Unlock"} {
		t.Run(op, func(t *testing.T) { hung(t, s, op) })
	}
}

// hung has many callers use a server that hangs.
func hung(t *testing.T, s *redistest.Server, op string) {
	const callers = 1000
	opts := s.Options()
	opts.ContextTimeoutEnabled = op != "Lock by a client that ignores deadlines"
	l := newLocker(t, newClient(t, opts, s.Addr()), lock.Options{TTL: time.Minute})
	var leases [callers]*lock.Lease
	if op == "Unlock" {
		for i := range callers {
			leases[i] = mustLock(t, l.Mutex(fmt.Sprint("k", i), nil))
		}
	}
	mustUnlock(t, mustLock(t, l.Mutex("warm", nil)))
	before := runtime.NumGoroutine()
	s.Pause()
	testkit.OnTime(t, callers, 100*time.Millisecond, func(ctx context.Context, i int) {
		m := l.Mutex(fmt.Sprint("k", i), nil)
		var err error
		switch op {
		default:
			_, err = m.Lock(ctx)
		case "Lock of one key":
			_, err = l.Mutex("one", nil).Lock(ctx)
		case "TryLock":
			_, err = m.TryLock(ctx)
		case "Unlock":
			err = leases[i].Unlock(ctx)
		}
		// Or refused at once, when as many as may be are without an answer.
		if !errors.Is(err, context.DeadlineExceeded) && !transparency.Retryable(err) {
			t.Errorf("%s error = %v, want the context's, or one to try again after", op, err)
		}
	})
	// The callers' own are ending yet.
	eventually(t, "at most 64 goroutines are left", func() bool { return runtime.NumGoroutine() <= before+64 })
	s.Resume()
	eventually(t, "all are gone", func() bool {
		return runtime.NumGoroutine() <= before && l.Stats().Undoing == 0
	})
	client := s.Client(t)
	for i := range callers {
		gone(t, client, fmt.Sprintf("lock:{k%d}", i), 0)
	}
}
