package locktest

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// maxTries is how often a check is tried that fails on a busy machine.
	maxTries = 6
	// tooLate is how late a timer fires on a machine that is too busy.
	tooLate = 10 * time.Millisecond
)

// inTime runs a check in real time and returns what it reports in the end.
// Where it fails while this machine's timers are late by themselves it shows
// nothing, and is tried again, on another store.
func (c check) inTime(t *testing.T, open Open, watch func() (wasLate func() bool)) (found []string) {
	for try := 1; ; try++ {
		wasLate := watch()
		attempt := func(t *testing.T) {
			found = c.record(t.Context(), run{connect: open(t), ttl: 900 * time.Millisecond})
		}
		if try == 1 {
			attempt(t)
		} else {
			t.Run(fmt.Sprint("again", try), attempt)
		}
		if late := wasLate(); len(found) == 0 || !late || try == maxTries {
			return found
		}
		t.Logf("the machine is late; again, after: %q", found)
	}
}

// watchTimers starts to look whether timers are late. What it returns stops
// that and tells.
func watchTimers() (wasLate func() bool) {
	var late atomic.Bool
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		const tick = 5 * time.Millisecond
		for {
			start := time.Now()
			select {
			case <-stop:
				return
			case <-time.After(tick):
			}
			if time.Since(start) > tick+tooLate {
				late.Store(true)
			}
		}
	}()
	return func() bool {
		close(stop)
		<-stopped
		return late.Load()
	}
}

// record runs a check and returns what it reports.
func (c check) record(ctx context.Context, r run) []string {
	rec := &recorder{}
	var cancel context.CancelFunc
	rec.ctx, cancel = context.WithCancel(ctx)
	r.reporter = rec
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer rec.clean()
		defer cancel()
		c.fn(&r)
	}()
	<-done
	rec.mu.Lock()
	defer rec.mu.Unlock()
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
	text := where() + fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, text)
}

// where tells the line of the check that reports, past the suite's helpers.
func where() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.Contains(f.Function, "(*recorder)") && !strings.Contains(f.Function, "(*run)") {
			return fmt.Sprintf("%s:%d: ", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
