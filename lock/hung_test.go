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
			// What this machine takes, busy as it is, for no operation at all.
			late := slowest(callers, func(int) {
				ctx, cancel := context.WithTimeout(context.Background(), bound)
				defer cancel()
				<-ctx.Done()
			}) - bound
			s.Pause()
			took := slowest(callers, func(i int) {
				m := l.Mutex(fmt.Sprint("k", i), nil)
				ctx, cancel := context.WithTimeout(context.Background(), bound)
				defer cancel()
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
				wantErr(t, op, err, context.DeadlineExceeded)
			})
			left := runtime.NumGoroutine() - before
			t.Logf("slowest %v (timers alone are %v late), %d goroutines left, %+v", took, late, left, l.Stats())
			if took > 2*bound+3*late {
				t.Errorf("the slowest came back after %v, want at most %v", took, 2*bound)
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
