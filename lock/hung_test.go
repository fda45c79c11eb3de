package lock_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/lock"
)

// A server that stops answering holds nobody up beyond his context, and little
// else.
func TestHungRedis(t *testing.T) {
	const callers = 1000
	const bound = 100 * time.Millisecond
	for _, op := range []string{"Lock", "Lock by a client that ignores deadlines", "Lock of one key", "TryLock", "Unlock"} {
		t.Run(op, func(t *testing.T) {
			s := redistest.StartServer(t)
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
			var slowest atomic.Int64
			var wg sync.WaitGroup
			start := make(chan struct{})
			for i := range callers {
				wg.Go(func() {
					m := l.Mutex(fmt.Sprint("k", i), nil)
					<-start
					ctx, cancel := context.WithTimeout(context.Background(), bound)
					defer cancel()
					began := time.Now()
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
					took := int64(time.Since(began))
					for old := slowest.Load(); took > old && !slowest.CompareAndSwap(old, took); old = slowest.Load() {
					}
					wantErr(t, op, err, context.DeadlineExceeded)
				})
			}
			close(start)
			wg.Wait()
			left := runtime.NumGoroutine() - before
			t.Logf("slowest %v, %d goroutines left, %+v", time.Duration(slowest.Load()), left, l.Stats())
			if got := time.Duration(slowest.Load()); got > 2*bound {
				t.Errorf("the slowest came back after %v, want at most %v", got, 2*bound)
			}
			if left > 64 {
				t.Errorf("%d goroutines are left, want at most 64", left)
			}
			s.Resume()
			eventually(t, "all are gone", 15*time.Second, func() bool {
				return runtime.NumGoroutine() <= before && l.Stats().Undoing == 0
			})
			client := s.Client(t)
			for i := range callers {
				if n := client.Exists(t.Context(), fmt.Sprintf("lock:{k%d}", i)).Val(); n != 0 {
					t.Fatalf("lock %d is still there", i)
				}
			}
		})
	}
}
