package lock_test

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
	"github.com/go-transparency/transparency/lock"
)

const (
	callers   = 1000
	hungBound = 100 * time.Millisecond
)

// A server that stops answering holds nobody up beyond his context, and little
// else.
func TestHungRedis(t *testing.T) {
	for _, op := range []string{"Lock", "Lock by a client that ignores deadlines", "Lock of one key", "TryLock", "Unlock"} {
		t.Run(op, func(t *testing.T) {
			var took time.Duration
			for range 3 { // a machine that is busy elsewhere is no fault
				var late time.Duration
				if took, late = hung(t, op); took <= 2*hungBound+3*late {
					return
				}
			}
			t.Errorf("the slowest came back after %v, three times; want at most %v", took, 2*hungBound)
		})
	}
}

// hung has the callers use a server that hangs, and returns how long the
// slowest took and how late this machine's timers are by themselves.
func hung(t *testing.T, op string) (took, late time.Duration) {
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
	late = slowest(callers, func(int) {
		ctx, cancel := context.WithTimeout(context.Background(), hungBound)
		defer cancel()
		<-ctx.Done()
	}) - hungBound
	s.Pause()
	took = slowest(callers, func(i int) {
		m := l.Mutex(fmt.Sprint("k", i), nil)
		ctx, cancel := context.WithTimeout(context.Background(), hungBound)
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
		// Or refused at once, when as many as may be are without an answer.
		if !errors.Is(err, context.DeadlineExceeded) && !transparency.Retryable(err) {
			t.Errorf("%s error = %v, want the context's, or one to try again after", op, err)
		}
	})
	left := runtime.NumGoroutine() - before
	for range 20 { // the callers' own are ending yet
		if left > 64 {
			time.Sleep(time.Millisecond)
			left = runtime.NumGoroutine() - before
		}
	}
	t.Logf("slowest %v (timers alone are %v late), %d goroutines left, %+v", took, late, left, l.Stats())
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
	return took, late
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
