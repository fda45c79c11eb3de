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

	"github.com/go-transparency/transparency/lock"
)

const (
	// maxTries is how often a check is tried that fails on a busy machine.
	maxTries = 12
	// tooLate is how late a timer fires, and how long a driver takes to answer,
	// on a machine that is too busy.
	tooLate = 10 * time.Millisecond
	// calm is how long timers have to be in time before another try, and
	// maxCalm how long to wait for that.
	calm, maxCalm = 50 * time.Millisecond, 2 * time.Second
)

// inTime runs a check in real time and returns what it reports in the end.
// Where it fails while the machine is late it shows nothing, and is tried
// again, on another store and in a calmer moment.
func (c check) inTime(t *testing.T, open Open, watch func(*lateness) (stop func())) (found []string) {
	for try := 1; ; try++ {
		var late lateness
		stop := watch(&late)
		attempt := func(t *testing.T) {
			connect := open(t)
			found = c.record(t.Context(), run{ttl: 900 * time.Millisecond, connect: func() lock.Driver {
				return &timed{connect(), &late}
			}})
		}
		if try == 1 {
			attempt(t)
		} else {
			t.Run(fmt.Sprint("again", try), attempt)
		}
		stop()
		if len(found) == 0 || late.since().IsZero() || try == maxTries {
			return found
		}
		t.Logf("the machine is late; again, after: %q", found)
		awaitCalm(watch)
	}
}

// lateness is when the machine was last seen to be late.
type lateness struct{ at atomic.Pointer[time.Time] }

func (l *lateness) note(took time.Duration) {
	if took > tooLate {
		now := time.Now()
		l.at.Store(&now)
	}
}

// since returns zero when it was not late.
func (l *lateness) since() time.Time {
	if at := l.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// awaitCalm waits until the machine has not been late for a moment.
func awaitCalm(watch func(*lateness) (stop func())) {
	var late lateness
	defer watch(&late)()
	start := time.Now()
	for last := start; time.Since(last) < calm && time.Since(start) < maxCalm; {
		time.Sleep(calm / 10)
		if at := late.since(); at.After(last) {
			last = at
		}
	}
}

// watchTimers notes when timers are late, until it is stopped.
func watchTimers(late *lateness) (stop func()) {
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		const tick = 5 * time.Millisecond
		for {
			start := time.Now()
			select {
			case <-ending:
				return
			case <-time.After(tick):
				late.note(time.Since(start) - tick)
			}
		}
	}()
	return func() {
		close(ending)
		<-ended
	}
}

// A timed driver notes when the one behind it is late to answer. The checks put
// their delays before it.
type timed struct {
	lock.Driver
	late *lateness
}

func (d *timed) Acquire(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
	defer d.measure(time.Now())
	return d.Driver.Acquire(ctx, c, queue)
}

func (d *timed) Renew(ctx context.Context, claims []lock.Claim) []error {
	defer d.measure(time.Now())
	return d.Driver.Renew(ctx, claims)
}

func (d *timed) Release(ctx context.Context, c lock.Claim) (bool, error) {
	defer d.measure(time.Now())
	return d.Driver.Release(ctx, c)
}

func (d *timed) Break(ctx context.Context, key string) (uint64, error) {
	defer d.measure(time.Now())
	return d.Driver.Break(ctx, key)
}

func (d *timed) measure(start time.Time) { d.late.note(time.Since(start)) }

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
