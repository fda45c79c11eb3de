package sessiontest

import (
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/go-transparency/transparency/session"
)

// No write is lost, and nothing that is gone comes back.
var versionChecks = []check{
	{name: "create of what exists", fn: func(r *run) {
		made := r.create(id, "first", hour)
		_, err := r.store.Create(r.Context(), id, []byte("second"), hour)
		r.wantErr("Create", err, session.ErrExists)
		r.holds(id, "first", made.Version)
	}},
	{name: "absent", fn: func(r *run) {
		r.gone(id, "some version")
		r.delete(id)
		r.gone(id, "some version")
	}},
	{name: "SE-2 save with an old version", fn: func(r *run) {
		made := r.create(id, "one", hour)
		saved := r.save(id, "two", made.Version)
		_, err := r.store.Save(r.Context(), id, []byte("late"), made.Version)
		r.wantErr("Save", err, session.ErrConflict)
		r.holds(id, "two", saved.Version)
	}},
	{name: "every write has another version", fn: func(r *run) {
		rec := r.create(id, "same", hour)
		seen := map[session.Version]bool{rec.Version: true}
		for range 100 {
			rec = r.save(id, "same", rec.Version)
			if seen[rec.Version] {
				r.Fatalf("Save gave the version %q twice", rec.Version)
			}
			seen[rec.Version] = true
		}
		r.delete(id)
		if rec = r.create(id, "same", hour); seen[rec.Version] {
			r.Errorf("Create after Delete gave a version of the session before")
		}
	}},
	{name: "SE-3 save and touch after delete", fn: func(r *run) {
		made := r.create(id, "data", hour)
		r.delete(id)
		r.gone(id, made.Version)
		r.delete(id)
	}},
	{name: "SE-3 save to a successor", fn: func(r *run) {
		made := r.create(id, "data", hour)
		r.delete(id)
		next := r.create(id, "other", hour)
		_, err := r.store.Save(r.Context(), id, []byte("late"), made.Version)
		r.wantErr("Save", err, session.ErrConflict)
		r.holds(id, "other", next.Version)
	}},
	{name: "load and touch keep data and version", fn: func(r *run) {
		made := r.create(id, "data", hour)
		r.load(id)
		rec := r.touch(id)
		if rec.Data != nil {
			r.Errorf("Touch returned data %q, want nil", rec.Data)
		}
		if rec.Version != made.Version {
			r.Errorf("Touch returned version %q, want %q", rec.Version, made.Version)
		}
		r.holds(id, "data", made.Version)
		r.save(id, "more", made.Version)
	}},
	{name: "one session is not another", fn: func(r *run) {
		a, b := r.create("a", "A", hour), r.create("b", "B", hour)
		b = r.save("b", "BB", b.Version)
		r.holds("a", "A", a.Version)
		r.delete("a")
		r.gone("a", a.Version)
		r.holds("b", "BB", b.Version)
	}},
	{name: "one of many creators", fn: func(r *run) {
		var won atomic.Int64
		parallel(16, func(i int) {
			_, err := r.store.Create(r.Context(), id, []byte(strconv.Itoa(i)), hour)
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, session.ErrExists):
				r.Errorf("Create error = %v, want ErrExists", err)
			}
		})
		if won.Load() != 1 {
			r.Errorf("%d of 16 Creates succeeded, want 1", won.Load())
		}
	}},
	{name: "SE-1 no increment is lost", fn: func(r *run) {
		const writers, each = 8, 10
		r.create(id, "0", hour)
		parallel(writers, func(int) {
			for range each {
				if !r.increment() {
					return
				}
			}
		})
		if got := string(r.load(id).Data); got != strconv.Itoa(writers*each) {
			r.Errorf("after %d increments the count is %s", writers*each, got)
		}
	}},
}

// increment adds one to the session's count, however often it takes.
func (r *run) increment() bool {
	for {
		rec, err := r.store.Load(r.Context(), id)
		if err != nil {
			r.Errorf("Load error = %v", err)
			return false
		}
		n, err := strconv.Atoi(string(rec.Data))
		if err != nil {
			r.Errorf("the count is %q", rec.Data)
			return false
		}
		pause() // so that others get in between, in fake time too
		_, err = r.store.Save(r.Context(), id, []byte(strconv.Itoa(n+1)), rec.Version)
		if err == nil {
			return true
		}
		if !errors.Is(err, session.ErrConflict) {
			r.Errorf("Save error = %v, want nil or ErrConflict", err)
			return false
		}
	}
}
