package sessiontest

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

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
	rec := new(recorder)
	synctest.Test(t, func(t *testing.T) {
		rec.ctx = t.Context()
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.fn(&run{reporter: rec, store: store})
		}()
		<-done
	})
	return rec.failed
}

type recorder struct {
	ctx    context.Context
	mu     sync.Mutex // guards failed
	failed bool
}

func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Helper()                  {}
func (r *recorder) Errorf(string, ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}
func (r *recorder) Fatalf(string, ...any) {
	r.Errorf("")
	runtime.Goexit()
}
