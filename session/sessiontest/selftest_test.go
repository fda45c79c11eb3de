package sessiontest

import (
	"testing"
	"testing/synctest"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/session"
)

// TestMutants: a check that has never failed is unproven.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			if c := checkNamed(t, m.finds); !fails(t, c, newBroken(m.mutate)) {
				t.Errorf("the check %q passes a store in which %s", c.name, m.name)
			}
		})
	}
	for _, c := range checks {
		if fails(t, c, session.NewMemoryStore(nil)) {
			t.Errorf("the check %q fails a store that is right", c.name)
		}
		if !failsAny(t, c) {
			t.Errorf("the check %q passes every mutant", c.name)
		}
	}
}

func failsAny(t *testing.T, c check) bool {
	for _, m := range mutants {
		if fails(t, c, newBroken(m.mutate)) {
			return true
		}
	}
	return false
}

func checkNamed(t *testing.T, name string) check {
	for _, c := range checks {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no check %q", name)
	return check{}
}

// fails reports whether the check finds fault with the store.
func fails(t *testing.T, c check, store session.SessionStore) bool {
	var found []string
	synctest.Test(t, func(t *testing.T) {
		found = testkit.Record(t.Context(), func(rec *testkit.Recorder) { c.fn(&run{reporter: rec, store: store}) })
	})
	return len(found) > 0
}
