// Package locationtest checks that a [location.Driver] does what its interface
// promises, and that the engine over it does what package location promises:
//
//	func TestDriver(t *testing.T) {
//		locationtest.Run(t, func(t *testing.T) func() location.Driver {
//			store := newStore(t)
//			return func() location.Driver { return newDriver(store) }
//		})
//	}
//
// Every check opens a store of its own, which must be empty, and connects to
// it once for each process that it plays.
package locationtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/location"
)

// Open opens an empty store and returns what connects a process to it.
type Open func(t *testing.T) (connect func() location.Driver)

// Run runs the checks on the clock of the store, whatever it is. TTLs are
// short and waits poll. What takes long or exact instants is left to
// [RunFakeTime].
func Run(t *testing.T, open Open) {
	for _, c := range checks {
		if c.fakeTime {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			c.fn(&run{reporter: t, connect: open(t), ttl: 1500 * time.Millisecond, poll: 300 * time.Millisecond})
		})
	}
}

// RunFakeTime runs the checks, each in a bubble of [synctest.Test] in which
// open is called too: the store must take its time from there.
func RunFakeTime(t *testing.T, open Open) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.fn(&run{reporter: t, connect: open(t), ttl: 6 * time.Second, poll: 3 * time.Second, fake: true})
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

var checks = slices.Concat(driverChecks, lookupChecks, watchChecks, registrationChecks, outageChecks, conflictChecks)

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
	connect func() location.Driver
	ttl     time.Duration
	poll    time.Duration
	fake    bool
	tokens  int
}

const service = "user-service"

// slack is how late something may come that takes no time of its own. In real
// time that depends on the machine.
func (r *run) slack() time.Duration {
	if r.fake {
		return 30 * time.Millisecond
	}
	return testkit.Limit
}

// registry starts a process: a Registry over a connection of its own, or over
// d.
func (r *run) registry(d location.Driver) *location.Registry {
	return r.registryWith(d, location.Options{})
}

func (r *run) registryWith(d location.Driver, opts location.Options) *location.Registry {
	if d == nil {
		d = r.connect()
	}
	opts.TTL, opts.Poll = r.ttl, r.poll
	if opts.Timeout == 0 {
		opts.Timeout = 2 * time.Second
	}
	reg := location.NewRegistry(d, &opts)
	r.Cleanup(func() { _ = reg.Close() })
	return reg
}

// at returns an endpoint whose ID is host-n.
func at(n int) location.Endpoint {
	return location.Endpoint{ID: fmt.Sprintf("i%03d", n), Scheme: "http", Host: fmt.Sprintf("10.0.0.%d", n), Port: 80}
}

// instance returns a registration of at(n), with a token of its own. On a real
// clock it lasts: who looks may be late.
func (r *run) instance(n int) location.Instance {
	r.tokens++
	in := location.Instance{Endpoint: at(n), Token: fmt.Sprintf("token-%020d", r.tokens), TTL: r.ttl}
	if !r.fake {
		in.TTL = time.Hour
	}
	return in
}

// put registers without anyone to send heartbeats.
func (r *run) put(d location.Driver, ins ...location.Instance) {
	r.Helper()
	for _, in := range ins {
		if err := d.Register(r.Context(), service, in, false); err != nil {
			r.Fatalf("Register(%v) error = %v", in, err)
		}
	}
}

func (r *run) remove(d location.Driver, in location.Instance) {
	r.Helper()
	if err := d.Deregister(r.Context(), service, in); err != nil {
		r.Errorf("Deregister(%v) error = %v, want nil", in, err)
	}
}

func (r *run) list(d location.Driver, service, known string) location.Listing {
	r.Helper()
	l, err := d.List(r.Context(), service, known)
	if err != nil {
		r.Fatalf("List(%q) error = %v", service, err)
	}
	return l
}

func (r *run) register(reg *location.Registry, n int) *location.Registration {
	r.Helper()
	g, err := reg.Register(r.Context(), service, at(n))
	if err != nil {
		r.Fatalf("Register error = %v", err)
	}
	return g
}

func (r *run) resolve(reg location.Locator) location.Snapshot {
	r.Helper()
	s, err := reg.Resolve(r.Context(), service)
	if err != nil {
		r.Fatalf("Resolve error = %v", err)
	}
	return s
}

// wantIDs checks which instances there are.
func (r *run) wantIDs(what string, got []location.Endpoint, want ...int) {
	r.Helper()
	var ids, wanted []string
	for _, e := range got {
		ids = append(ids, e.ID)
	}
	for _, n := range want {
		wanted = append(wanted, at(n).ID)
	}
	slices.Sort(ids)
	if !slices.Equal(ids, wanted) {
		r.Errorf("%s = %v, want %v", what, ids, wanted)
	}
}

func (r *run) wantSnapshot(what string, s location.Snapshot, stale bool, want ...int) {
	r.Helper()
	r.wantIDs(what, slices.Collect(s.All()), want...)
	if s.Stale() != stale {
		r.Errorf("%s: Stale = %v, want %v", what, s.Stale(), stale)
	}
	if age := time.Since(s.AsOf()); !stale && (age < 0 || age > r.slack()+r.poll*2) {
		r.Errorf("%s: as of %v ago, want about now", what, age)
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

// eventually waits until cond holds, and fails the check if it does not
// within d.
func (r *run) eventually(what string, d time.Duration, cond func() bool) {
	r.Helper()
	testkit.Eventually(r, what, d, cond)
}
