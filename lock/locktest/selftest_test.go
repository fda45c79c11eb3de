package locktest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

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
func failures(t *testing.T, c check, spoil func(*faulty, lock.Driver)) (found []string) {
	synctest.Test(t, func(t *testing.T) {
		store := lock.NewMemoryDriver()
		f := &faulty{Driver: store}
		spoil(f, store)
		found = c.record(t.Context(), run{connect: func() lock.Driver { return f }, ttl: 6e9, fake: true})
	})
	return found
}

// A machine that is late is given another try, and a fault is none of its.
func TestRetry(t *testing.T) {
	for _, late := range []bool{false, true} {
		tries := 0
		c := check{name: "never", fn: func(r *run) {
			tries++
			r.Errorf("failed")
		}}
		found := c.inTime(t, func(*testing.T) func() lock.Driver { return nil }, func(l *lateness) func() {
			if late {
				l.note(time.Hour)
			}
			return func() {}
		})
		if want := map[bool]int{false: 1, true: maxTries}[late]; tries != want || len(found) != 1 {
			t.Errorf("a check that fails is tried %d times when the machine is late: %v; found %q", tries, late, found)
		}
	}
}
