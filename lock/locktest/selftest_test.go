package locktest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/go-transparency/transparency/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A check that has never failed is unproven.
func TestMutants(t *testing.T) {
	for _, m := range slices.Concat(lockMutants, moreMutants) {
		t.Run(m.name, func(t *testing.T) {
			i := slices.IndexFunc(checks, func(c check) bool { return c.name == m.finds })
			if i < 0 {
				t.Fatalf("there is no check %q", m.finds)
			}
			good := failures(t, checks[i], func(*faulty, lock.Driver) {})
			if len(good) > 0 {
				t.Fatalf("%q fails without a fault: %v", m.finds, good)
			}
			if found := failures(t, checks[i], m.spoil); len(found) == 0 {
				t.Errorf("%q does not find it", m.finds)
			} else {
				t.Log(found[0])
			}
		})
	}
}

// failures runs a check on a spoiled driver and returns what it reports.
func failures(t *testing.T, c check, spoil func(*faulty, lock.Driver)) []string {
	rec := &recorder{}
	synctest.Test(t, func(t *testing.T) {
		rec.ctx = t.Context()
		store := lock.NewMemoryDriver()
		f := &faulty{Driver: store}
		spoil(f, store)
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer rec.clean()
			c.fn(&run{reporter: rec, connect: func() lock.Driver { return f }, ttl: 6e9, fake: true})
		}()
		<-done
	})
	return rec.failed
}

// A recorder is a reporter that notes failures.
type recorder struct {
	ctx     context.Context
	mu      sync.Mutex // guards what follows
	failed  []string
	cleanup []func()
}

func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Helper()                  {}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanup = append(r.cleanup, f)
}

func (r *recorder) clean() {
	for _, f := range slices.Backward(r.cleanup) {
		f()
	}
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
