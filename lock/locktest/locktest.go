// Package locktest checks that a [lock.Driver] does what its interface
// promises, and that the engine over it does what package lock promises:
//
//	func TestDriver(t *testing.T) {
//		locktest.Run(t, func(t *testing.T) func() lock.Driver {
//			store := newStore(t)
//			return func() lock.Driver { return newDriver(store) }
//		})
//	}
//
// Every check opens a store of its own, which must be empty, and connects to
// it once for each process that it plays: drivers that share nothing but the
// store, as real processes would. What open and connect make is cleaned up by
// their testing.T; a driver has nothing to close.
//
// # Checks
//
// A check is a subtest named after its promise, so one can be run alone with
// -run. Those of a driver by itself come first, and one who writes a driver
// makes them pass in this order: one token at a time, fences, expiry, renewal
// and release; then the line, handing over and wake-ups; then semaphores, which
// are claims with Permits. What follows uses a whole [lock.Locker], with faults
// put between engine and driver: a driver that passes all of the former and not
// the latter mostly answers with the wrong class of error, keeps a caller
// waiting after its context has ended, or wakes nobody.
//
// A number like LK-7 is that of a scenario in the module's docs/scenarios.md.
//
// # Time
//
// [Run] lets real time pass: TTLs are a second or so, checks run in parallel,
// and how late something may come leaves room for a busy machine. A check that
// fails while the machine's own timers, or the answers of the driver, are more
// than 10 ms late shows nothing, and is tried again, a dozen times at most, with
// an Open of its own. [RunFakeTime] runs in bubbles of testing/synctest, where
// all waits are exact and cost nothing; it is for stores in the same process
// that take their time from package time.
//
// # What it finds
//
// The suite is tested by drivers with a fault that locks have had, each of
// which a named check has to find. Among them: two holders; a key that expires
// late, or early; renewing that extends nothing, or makes a key again; a loss
// reported as trouble, trouble as a loss; results out of order; a release that
// frees whoever holds, that always says yes, or leaves the token in line; keys
// that look alike taken for one; contexts ignored; nobody in line, or
// everybody, or at its end again; nobody woken, or not told with which key, or
// that hearing has begun; a holder without a name, or with the asker's; a Break
// that takes nothing, skips the line, or gives a fence too small or too great;
// one permit too many or too few; permits that live and die together.
package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency/lock"
)

// Open opens an empty store and returns what connects a process to it.
type Open func(t *testing.T) (connect func() lock.Driver)

// Run runs the checks on the clock of the store, whatever it is. What takes
// exact instants is left to [RunFakeTime].
func Run(t *testing.T, open Open) {
	for _, c := range checks {
		if c.fakeTime {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			for _, text := range c.inTime(t, open, watchTimers) {
				t.Error(text)
			}
		})
	}
}

// RunFakeTime runs the checks, each in a bubble of [synctest.Test] in which
// open is called too: the store must take its time from there.
func RunFakeTime(t *testing.T, open Open) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.fn(&run{reporter: t, connect: open(t), ttl: 6 * time.Second, fake: true})
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

var checks = slices.Concat(
	driverChecks, lineChecks, permitChecks,
	leaseChecks, faultChecks, unlockChecks, waitChecks, holderChecks, semaphoreChecks,
)

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
	connect func() lock.Driver
	ttl     time.Duration
	fake    bool
	tokens  int
}

const key = "stock:7"

// slack is how late something may come that takes no time of its own.
func (r *run) slack() time.Duration {
	if r.fake {
		return 30 * time.Millisecond
	}
	return 450 * time.Millisecond
}

// locker starts a process: a Locker over a connection of its own.
func (r *run) locker(d lock.Driver) *lock.Locker {
	return r.lockerOf(d, lock.Options{})
}

func (r *run) lockerOf(d lock.Driver, opts lock.Options) *lock.Locker {
	opts.TTL, opts.Timeout = r.ttl, 2*r.ttl
	l := lock.New(d, &opts)
	r.Cleanup(func() { _ = l.Close() })
	return l
}

func (r *run) lock(m lock.Mutex) *lock.Lease {
	r.Helper()
	lease, err := m.Lock(r.Context())
	if err != nil {
		r.Fatalf("Lock error = %v", err)
	}
	return lease
}

// lockLater waits for a lock beside the check, and sends the lease, or nil when
// that failed and was reported: whoever receives is not kept waiting.
func (r *run) lockLater(m lock.Mutex) <-chan *lock.Lease {
	got := make(chan *lock.Lease, 1)
	go func() {
		lease, err := m.Lock(r.Context())
		if err != nil {
			r.Errorf("Lock error = %v", err)
		}
		got <- lease
	}()
	return got
}

func (r *run) await(got <-chan *lock.Lease) *lock.Lease {
	r.Helper()
	lease := <-got
	if lease == nil {
		r.Fatalf("there is no lease to go on with")
	}
	return lease
}

func (r *run) unlock(lease *lock.Lease) {
	r.Helper()
	if err := lease.Unlock(r.Context()); err != nil {
		r.Errorf("Unlock error = %v, want nil", err)
	}
}

func (r *run) wantErr(op string, err error, want ...error) {
	r.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			r.Errorf("%s error = %v, want one wrapping %q", op, err, w)
		}
	}
}

// eventually waits until cond holds, asking every ms of real time, and fails
// the check if it does not within d.
func (r *run) eventually(what string, d time.Duration, cond func() bool) {
	r.Helper()
	for end := time.Now().Add(d); !cond(); time.Sleep(r.ttl / 900) {
		if time.Now().After(end) {
			r.Fatalf("%s: not within %v", what, d)
		}
	}
}

// free checks that nobody has the lock, or within d nobody will.
func (r *run) free(d time.Duration) {
	r.Helper()
	m := r.locker(r.connect()).Mutex(key, nil)
	r.eventually("the lock is free", d, func() bool {
		lease, err := m.TryLock(r.Context())
		if err != nil {
			return false
		}
		r.unlock(lease)
		return true
	})
}

// taken checks that somebody has it.
func (r *run) taken() {
	r.Helper()
	lease, err := r.locker(r.connect()).Mutex(key, nil).TryLock(r.Context())
	if err == nil {
		r.Errorf("TryLock of a lock that is held = a lease, fence %d", lease.Fence())
	} else {
		r.wantErr("TryLock of a lock that is held", err, lock.ErrHeld)
	}
}

// token returns a token of owner as the engine would make it.
func (r *run) token(owner string) string {
	r.tokens++
	return owner + fmt.Sprintf("%024d", r.tokens)
}

// owner returns an owner's name that is as long as the engine's.
func owner(name string) string {
	whole := strings.Repeat("o", 64)
	n := len(lock.Owner(whole))
	return (name + strings.Repeat("_", n))[:n]
}

func (r *run) claim(key string) lock.Claim {
	return lock.Claim{Key: key, Token: r.token(owner("somebody")), TTL: r.ttl}
}

// acquire makes one attempt that must be answered.
func (r *run) acquire(d lock.Driver, c lock.Claim, queue bool) lock.Grant {
	r.Helper()
	g, err := d.Acquire(r.Context(), c, queue)
	if err != nil {
		r.Fatalf("Acquire(%v) error = %v", c, err)
	}
	return g
}

func (r *run) granted(d lock.Driver, c lock.Claim) uint64 {
	r.Helper()
	g := r.acquire(d, c, false)
	if g.Fence == 0 {
		r.Fatalf("Acquire(%v) = held for %v, want it granted", c, g.Remaining)
	}
	return g.Fence
}

func (r *run) release(d lock.Driver, c lock.Claim, want bool) {
	r.Helper()
	if owned, err := d.Release(r.Context(), c); err != nil || owned != want {
		r.Errorf("Release(%v) = %v, %v, want %v, nil", c, owned, err, want)
	}
}

func (r *run) renew(d lock.Driver, c lock.Claim) error {
	r.Helper()
	results := d.Renew(r.Context(), []lock.Claim{c})
	if len(results) != 1 {
		r.Fatalf("Renew of one claim gave %d results", len(results))
	}
	return results[0]
}

// A faulty driver passes on to another what it is not told to spoil.
type faulty struct {
	lock.Driver
	acquire func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error)
	renew   func(ctx context.Context, claims []lock.Claim) []error
	release func(ctx context.Context, c lock.Claim) (bool, error)
	breaks  func(ctx context.Context, key string) (uint64, error)
	listen  func(ctx context.Context, owner string, wake func(string)) error
	last    atomic.Pointer[lock.Claim] // that asked
}

func (f *faulty) Acquire(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
	f.last.Store(&c)
	if f.acquire != nil {
		return f.acquire(ctx, c, queue)
	}
	return f.Driver.Acquire(ctx, c, queue)
}

func (f *faulty) Renew(ctx context.Context, claims []lock.Claim) []error {
	if f.renew != nil {
		return f.renew(ctx, claims)
	}
	return f.Driver.Renew(ctx, claims)
}

func (f *faulty) Release(ctx context.Context, c lock.Claim) (bool, error) {
	if f.release != nil {
		return f.release(ctx, c)
	}
	return f.Driver.Release(ctx, c)
}

func (f *faulty) Break(ctx context.Context, key string) (uint64, error) {
	if f.breaks != nil {
		return f.breaks(ctx, key)
	}
	return f.Driver.Break(ctx, key)
}

func (f *faulty) Listen(ctx context.Context, owner string, wake func(string)) error {
	if f.listen != nil {
		return f.listen(ctx, owner, wake)
	}
	return f.Driver.Listen(ctx, owner, wake)
}

// all gives every claim the same result.
func all(claims []lock.Claim, err error) []error {
	results := make([]error, len(claims))
	for i := range results {
		results[i] = err
	}
	return results
}
