package failuretest

import (
	"context"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

var slowChecks = []check{
	{name: "a share of slow calls opens it", fn: func(r *run) {
		b := r.open(r.slowOptions())
		for range 6 {
			r.last(b, r.unit, nil) // not longer than Slow
		}
		for range 4 {
			r.last(b, r.unit+time.Millisecond, nil)
		}
		r.last(b, 2*r.unit, errBoom)
		r.state(b, failure.StateClosed) // 5 of 11
		r.last(b, 2*r.unit, nil)        // 6 of 12
		r.state(b, failure.StateOpen)
		if wait := r.refused(b); wait <= 4*r.unit || wait > 5*r.unit {
			r.Errorf("asked to wait for %v, want 85 to 100 %% of %v", wait, 5*r.unit)
		}
	}},
	{name: "slow calls that say nothing are not counted", fn: func(r *run) {
		b := r.open(r.slowOptions())
		for range 20 {
			r.last(b, 2*r.unit, transparency.ErrRejected)
		}
		r.state(b, failure.StateClosed)
	}},
	{name: "a window of slow calls passes", fn: func(r *run) {
		opts := r.slowOptions()
		opts.Window = 30 * r.unit
		b := r.open(opts)
		for range 9 {
			r.last(b, 2*r.unit, nil)
		}
		time.Sleep(31 * r.unit)
		for range 9 {
			r.last(b, 2*r.unit, nil)
		}
		r.state(b, failure.StateClosed)
		time.Sleep(5 * r.unit)
		r.last(b, 2*r.unit, nil)
		r.state(b, failure.StateOpen)
	}},
	{name: "a slow probe has failed", fn: func(r *run) {
		b := r.open(r.slowOptions())
		r.trip(b)
		p := r.probe(b, r.unit)
		time.Sleep(r.unit + time.Millisecond)
		p.Done(nil)
		r.state(b, failure.StateOpen)
		time.Sleep(10 * r.unit)
		p = r.probe(b, r.unit)
		time.Sleep(r.unit)
		p.Done(nil)
		r.state(b, failure.StateClosed)
	}},
	{name: "what was slow before it opened is forgotten", fn: func(r *run) {
		opts := r.slowOptions()
		opts.Window = time.Hour
		b := r.open(opts)
		for range 6 {
			r.last(b, 2*r.unit, nil)
		}
		r.trip(b)
		r.probe(b, r.unit).Done(nil)
		r.state(b, failure.StateClosed)
		for range 6 {
			r.last(b, 2*r.unit, nil)
		}
		r.succeed(b, 3)
		r.state(b, failure.StateClosed)
		r.succeed(b, 1) // the tenth, of which six are slow; but no slow one opens it
		r.state(b, failure.StateClosed)
		r.last(b, 2*r.unit, nil)
		r.state(b, failure.StateOpen)
	}},
}

// slowOptions are of a breaker that half of at least ten calls open by lasting
// longer than a unit, or three failures.
func (r *run) slowOptions() failure.BreakerOptions {
	opts := r.options()
	opts.MinCalls, opts.Window, opts.Slow = 10, 60*r.unit, r.unit
	return opts
}

// last makes a call that lasts d and returns err.
func (r *run) last(b failure.Policy, d time.Duration, err error) {
	r.Helper()
	_, got := failure.Call(r.Context(), func(context.Context) (int, error) {
		time.Sleep(d)
		return 0, err
	}, b)
	if got != err { //nolint:errorlint // unchanged
		r.Fatalf("a call that lasts %v = %v, want %v", d, got, err)
	}
}
