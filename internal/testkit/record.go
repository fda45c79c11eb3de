package testkit

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// A Recorder stands for the test of a check that is itself under test: it notes failures, and
// passes none on.
type Recorder struct {
	ctx context.Context

	mu       sync.Mutex // guards what follows
	failures []string
	cleanups []func()
}

// Record runs check as a test of its own, with its cleanups, and returns how it failed.
func Record(ctx context.Context, check func(r *Recorder)) (failures []string) {
	r := &Recorder{ctx: ctx}
	done := make(chan struct{})
	go func() { // Fatalf ends it
		defer close(done)
		defer r.clean()
		check(r)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}

func (r *Recorder) clean() {
	r.mu.Lock()
	cleanups := r.cleanups
	r.mu.Unlock()
	for _, f := range slices.Backward(cleanups) {
		f()
	}
}

// Context returns the context given to [Record].
func (r *Recorder) Context() context.Context { return r.ctx }

// Helper does nothing.
func (r *Recorder) Helper() {}

// Cleanup notes f, to be called when the check has ended.
func (r *Recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// Errorf notes a failure.
func (r *Recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// Fatalf notes a failure and ends the goroutine.
func (r *Recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
