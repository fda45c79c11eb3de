package failure

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// A window is one gobreaker: it counts calls, judges them by the rules, and
// says who may probe and when that was enough. How long to stay open is the
// gate's to say, so it is told the shortest time there is, and the gate asks
// it for nothing before its own is over.
type window struct {
	b     *LocalBreaker
	cb    *gobreaker.TwoStepCircuitBreaker[struct{}]
	inRow atomic.Int64 // failures; changed under gobreaker's mutex, as its hooks run

	tripping bool // see newProbing

	lastFailure instant // guarded by b.mu
}

// What gobreaker is told of the end of a call, beside nil for success.
var (
	errFailed    = errors.New("failed")
	errIgnored   = errors.New("ignored")
	errUnused    = errors.New("unused")    // the call was not made
	errUncounted = errors.New("uncounted") // a failure that was none
)

var ends = [...]error{Succeeded: nil, Failed: errFailed, Ignored: errIgnored}

func (b *LocalBreaker) newWindow() *window {
	w := &window{b: b}
	settings := gobreaker.Settings{
		MaxRequests:  uint32(b.opts.Probes), //nolint:gosec // checked
		Timeout:      1,
		IsExcluded:   w.isExcluded,
		IsSuccessful: w.isSuccessful,
		ReadyToTrip:  w.readyToTrip,
	}
	if b.opts.Ratio > 0 {
		settings.Interval = b.opts.Window
		settings.BucketPeriod = b.opts.Window / 10
	}
	w.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](settings)
	return w
}

// newProbing returns a window that has been open and is ready for probes.
func (b *LocalBreaker) newProbing() *window {
	w := b.newWindow()
	w.tripping = true
	if done, err := w.cb.Allow(); err == nil {
		done(errUncounted)
	}
	w.tripping = false
	return w
}

func (w *window) closed() bool { return w.cb.State() == gobreaker.StateClosed }

// The hooks run under gobreaker's mutex, and for calls of its present
// generation alone. They are short, and call nobody else's code.

func (w *window) isExcluded(err error) bool {
	switch err {
	case errIgnored: //nolint:errorlint // the very ones that end gives it
		w.b.stats.ignored.Add(1)
		return true
	case errUnused:
		return true
	}
	return false
}

func (w *window) isSuccessful(err error) bool {
	switch err {
	case nil:
		if w.inRow.Load() != 0 {
			w.inRow.Store(0)
		}
		w.b.stats.succeeded.Add(1)
	case errFailed: //nolint:errorlint // likewise
		w.inRow.Add(1)
		w.b.stats.failed.Add(1)
	}
	return err == nil
}

// readyToTrip is asked after each failure of a closed window. If it opens, so
// does the gate, before any other call can ask gobreaker. It requires b.mu,
// for who reports a failure has it.
func (w *window) readyToTrip(counts gobreaker.Counts) bool {
	if w.tripping {
		return true
	}
	if !w.full(counts) {
		return false
	}
	if p := w.b.phase.Load(); p.window == w && p.state == StateClosed {
		w.b.open(w, 0, 0)
	}
	return true
}

// full applies the rules. gobreaker's own count of failures in a row is not
// used, because it forgets those that leave the window.
func (w *window) full(counts gobreaker.Counts) bool {
	o := &w.b.opts
	if o.Failures > 0 && w.inRow.Load() >= int64(o.Failures) {
		return true
	}
	judged := float64(counts.TotalSuccesses) + float64(counts.TotalFailures)
	return o.Ratio > 0 && judged >= float64(o.MinCalls) && float64(counts.TotalFailures) >= o.Ratio*judged
}

// stale reports whether the window has passed since the last failure by the
// wall clock and not by the monotonic one, by which gobreaker counts: the
// machine slept. What the clocks differ by from one reading to the next is no
// sleep. It requires b.mu.
func (w *window) stale(now instant, length time.Duration) bool {
	wall, awake := now.wall.Sub(w.lastFailure.wall), now.at.Sub(w.lastFailure.at)
	return wall >= length && awake < length && wall-awake >= length/10
}
