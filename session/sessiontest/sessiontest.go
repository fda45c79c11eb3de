// Package sessiontest checks that a [session.SessionStore] keeps what its
// interface promises. Stores written elsewhere can be held to it too:
//
//	func TestStore(t *testing.T) {
//		sessiontest.Run(t, func(t *testing.T) session.SessionStore {
//			return newStore(t)
//		})
//	}
//
// Every check opens a store of its own, which must be empty and have a size
// limit of 64 KiB, as stores have by default.
package sessiontest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency/session"
)

// Run runs the checks on the clock of the store, whatever it is. Lifetimes are
// short and waits poll. What takes exact instants is left to [RunFakeTime].
func Run(t *testing.T, open func(t *testing.T) session.SessionStore) {
	for _, c := range checks {
		if c.fakeTime {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.fn(&run{reporter: t, store: open(t)})
		})
	}
}

// RunFakeTime runs the checks, each in a bubble of [synctest.Test] in which
// open is called too: the store must take its time from there.
func RunFakeTime(t *testing.T, open func(t *testing.T) session.SessionStore) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.fn(&run{reporter: t, store: open(t)})
			})
		})
	}
}

// A check is one promise. Its number is that of the scenario it stands for.
type check struct {
	name     string
	fakeTime bool // needs a clock that moves only in time.Sleep
	fn       func(r *run)
}

var checks = append(append(append(
	dataChecks, versionChecks...), refusalChecks...), timeChecks...)

// A reporter is what the checks need of a [testing.T]; the suite's own tests
// put a recorder in its place.
type reporter interface {
	Context() context.Context
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

type run struct {
	reporter
	store session.SessionStore
}

const id = "an-id"

var hour = session.Lifetimes{Idle: time.Hour, Absolute: 2 * time.Hour}

func (r *run) create(id, data string, lt session.Lifetimes) session.Record {
	r.Helper()
	rec, err := r.store.Create(r.Context(), id, []byte(data), lt)
	if err != nil {
		r.Fatalf("Create(%q) error = %v", id, err)
	}
	return rec
}

func (r *run) load(id string) session.Record {
	r.Helper()
	rec, err := r.store.Load(r.Context(), id)
	if err != nil {
		r.Fatalf("Load(%q) error = %v", id, err)
	}
	return rec
}

func (r *run) save(id, data string, v session.Version) session.Record {
	r.Helper()
	rec, err := r.store.Save(r.Context(), id, []byte(data), v)
	if err != nil {
		r.Fatalf("Save(%q) error = %v", id, err)
	}
	return rec
}

func (r *run) touch(id string) session.Record {
	r.Helper()
	rec, err := r.store.Touch(r.Context(), id)
	if err != nil {
		r.Fatalf("Touch(%q) error = %v", id, err)
	}
	return rec
}

func (r *run) delete(id string) {
	r.Helper()
	if err := r.store.Delete(r.Context(), id); err != nil {
		r.Fatalf("Delete(%q) error = %v", id, err)
	}
}

// holds checks that the session is there with this data and version.
func (r *run) holds(id, data string, v session.Version) {
	r.Helper()
	rec := r.load(id)
	if string(rec.Data) != data {
		r.Errorf("Load(%q).Data = %.40q, want %.40q", id, rec.Data, data)
	}
	if rec.Version != v {
		r.Errorf("Load(%q).Version = %q, want %q", id, rec.Version, v)
	}
}

// gone checks that there is no such session for any method, and that trying
// does not bring it back.
func (r *run) gone(id string, v session.Version) {
	r.Helper()
	ctx := r.Context()
	for op, call := range map[string]func() (session.Record, error){
		"Save":  func() (session.Record, error) { return r.store.Save(ctx, id, []byte("again"), v) },
		"Touch": func() (session.Record, error) { return r.store.Touch(ctx, id) },
		"Load":  func() (session.Record, error) { return r.store.Load(ctx, id) },
	} {
		rec, err := call()
		r.wantErr(op, err, session.ErrNotFound)
		if rec.Data != nil || rec.Version != "" || !rec.Expires.IsZero() {
			r.Errorf("%s of a session that is gone returned %v, want the zero Record", op, rec)
		}
	}
	_, err := r.store.Load(ctx, id)
	r.wantErr("Load after Save and Touch", err, session.ErrNotFound)
}

// each calls every method on id, as valid as can be otherwise.
func (r *run) each(ctx context.Context, id string, fn func(op string, err error)) {
	_, err := r.store.Create(ctx, id, []byte("x"), hour)
	fn("Create", err)
	_, err = r.store.Load(ctx, id)
	fn("Load", err)
	_, err = r.store.Save(ctx, id, []byte("x"), "some version")
	fn("Save", err)
	_, err = r.store.Touch(ctx, id)
	fn("Touch", err)
	fn("Delete", r.store.Delete(ctx, id))
}

// parallel runs fn n times at once and waits.
func parallel(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}

// pause lets the clock of milliseconds move between two looks.
func pause() { time.Sleep(2 * tick) }
