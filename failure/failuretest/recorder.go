package failuretest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// record runs a check, and returns how it failed.
func record(ctx context.Context, c check, r *run) []string {
	rec := &recorder{ctx: ctx}
	r.reporter = rec
	done := make(chan struct{})
	go func() { // for Fatalf ends it
		defer close(done)
		defer rec.clean()
		c.fn(r)
	}()
	<-done
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return slices.Clone(rec.failed)
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
