// Package failuretest checks that a [failure.Breaker] and a [failure.Driver] do
// what their interfaces promise, and that a fleet over the driver does what
// package failure promises:
//
//	func TestDriver(t *testing.T) {
//		failuretest.RunDriver(t, func(t *testing.T) func() failure.Driver {
//			store := newStore(t)
//			return func() failure.Driver { return newDriver(store) }
//		})
//	}
//
// Every check opens a store of its own, which must be empty, and connects to
// it once for each process that it plays.
//
// For tests of what uses the policies there are faults to be met: [Inject] puts
// them into a function, and [NewTransport] under an HTTP client. [Script] gives
// them in turn, [Random] by a seed:
//
//	faults := failuretest.Random(1, 0.3, failuretest.Fault{Refused: transparency.ErrUnavailable})
//	load = failuretest.Inject(faults, load)
package failuretest

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
	"github.com/go-transparency/transparency/internal/testkit"
)

// OpenBreaker returns a new breaker, to be closed by t.Cleanup if it needs to.
type OpenBreaker func(t *testing.T, opts failure.BreakerOptions) failure.Breaker

// OpenDriver opens an empty store and returns what connects a process to it.
type OpenDriver func(t *testing.T) (connect func() failure.Driver)

// RunBreaker runs the checks of a breaker, each in a bubble of [synctest.Test]
// in which open is called too: the breaker must take its time from there. It
// may refuse the first call after its open time, and ask to come again soon.
func RunBreaker(t *testing.T, open OpenBreaker) {
	for _, c := range breakerChecks {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.fn(&run{reporter: t, unit: time.Second, fake: true, open: func(opts failure.BreakerOptions) failure.Breaker {
					return open(t, opts)
				}})
			})
		})
	}
}

// RunDriver runs the checks of a driver on the clock of its store, whatever it
// is. Times are short; a check that fails is made once more with longer ones,
// in another store, for the machine may have been too slow. What takes exact
// instants is left to [RunDriverFakeTime].
func RunDriver(t *testing.T, open OpenDriver) {
	for _, c := range driverChecks {
		if c.fakeTime {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			failed := record(t.Context(), c, &run{connect: open(t), unit: 80 * time.Millisecond})
			if len(failed) == 0 {
				return
			}
			t.Logf("with short times: %q", failed)
			t.Run("with more time", func(t *testing.T) {
				c.fn(&run{reporter: t, connect: open(t), unit: 500 * time.Millisecond})
			})
		})
	}
}

// RunDriverFakeTime runs the checks of a driver, each in a bubble of
// [synctest.Test] in which open is called too.
func RunDriverFakeTime(t *testing.T, open OpenDriver) {
	for _, c := range driverChecks {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.fn(&run{reporter: t, connect: open(t), unit: time.Second, fake: true})
			})
		})
	}
}

// A check is one promise. Its number is that of the scenario it stands for.
type check struct {
	name     string
	fakeTime bool // needs a clock that moves only when nothing else can
	fn       func(r *run)
}

// A reporter is what the checks need of a [testing.T]; the suite's own tests
// put a recorder in its place.
type reporter interface {
	Context() context.Context
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

type run struct {
	reporter
	open    func(failure.BreakerOptions) failure.Breaker
	connect func() failure.Driver
	unit    time.Duration // the open time is five of them
	fake    bool
}

var errBoom = errors.New("boom")

// slack is how late something may come that takes no time of its own.
func (r *run) slack() time.Duration {
	if r.fake {
		return 150 * time.Millisecond
	}
	return 300 * time.Millisecond
}

// breaker opens one that three failures in a row open for five units.
func (r *run) breaker() failure.Breaker { return r.open(r.options()) }

func (r *run) options() failure.BreakerOptions {
	return failure.BreakerOptions{Name: "payments", Failures: 3, Ratio: -1, OpenFor: 5 * r.unit, ProbeTimeout: 4 * r.unit}
}

// call makes a call that returns err, and reports whether it was made.
func (r *run) call(b failure.Policy, err error) (made bool, got error) {
	_, got = failure.Call(r.Context(), func(context.Context) (int, error) {
		made = true
		return 0, err
	}, b)
	return made, got
}

// succeed and fail make a call that must be let through.
func (r *run) succeed(b failure.Policy, n int) { r.Helper(); r.must(b, n, nil) }
func (r *run) fail(b failure.Policy, n int)    { r.Helper(); r.must(b, n, errBoom) }

func (r *run) must(b failure.Policy, n int, err error) {
	r.Helper()
	for i := range n {
		if made, got := r.call(b, err); !made || !errors.Is(got, err) {
			r.Fatalf("call %d = %v, made %v, want %v", i, got, made, err)
		}
	}
}

// refused makes a call that must not be let through, and returns for how long
// it is asked to wait.
func (r *run) refused(b failure.Policy) time.Duration {
	r.Helper()
	made, err := r.call(b, nil)
	var e *failure.Error
	if made || !errors.Is(err, failure.ErrOpen) || !errors.Is(err, transparency.ErrRejected) || !errors.As(err, &e) {
		r.Fatalf("call = %v, made %v, want it refused with ErrOpen", err, made)
	}
	return failure.RetryAfter(err)
}

func (r *run) state(b failure.Breaker, want failure.State) {
	r.Helper()
	if got := b.State(); got != want {
		r.Errorf("State = %v, want %v", got, want)
	}
}

// probe waits for a permit, no longer than d.
func (r *run) probe(b failure.Breaker, d time.Duration) failure.Permit {
	r.Helper()
	for end := time.Now().Add(d); ; time.Sleep(time.Millisecond) {
		p, err := b.Allow(r.Context())
		if err == nil {
			return p
		}
		if !errors.Is(err, failure.ErrOpen) || failure.RetryAfter(err) <= 0 {
			r.Fatalf("Allow error = %v, want ErrOpen with a time to come again", err)
		}
		if time.Now().After(end) {
			r.Fatalf("Allow error = %v after %v", err, d)
		}
	}
}

// trip opens b by failures, and lets its open time pass.
func (r *run) trip(b failure.Breaker) {
	r.Helper()
	r.fail(b, 3)
	r.refused(b)
	time.Sleep(5*r.unit + time.Millisecond)
}

// eventually waits until cond holds, and fails the check if it does not
// within d.
func (r *run) eventually(what string, d time.Duration, cond func() bool) {
	r.Helper()
	testkit.Eventually(r, what, d, cond)
}

// exits runs f on a goroutine of its own, and returns how that ended: with a
// panic, or by Goexit with nil.
func exits(f func()) (panicked any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		f()
	}()
	<-done
	return panicked
}

func goexit(context.Context) (int, error) { runtime.Goexit(); return 0, nil }

// manual is what the breakers of package failure have beyond the contract.
type manual interface {
	ForceOpen()
	Disable()
	Reset()
	Changes(ctx context.Context) iter.Seq[failure.Change]
}
