package sessiontest

import (
	"errors"
	"strconv"
	"time"

	"github.com/go-transparency/transparency/session"
)

const tick = time.Millisecond

// A session lives as long as it was given, to the millisecond.
var timeChecks = []check{
	{name: "SE-8 gone at exactly Expires", fakeTime: true, fn: func(r *run) {
		lt := session.Lifetimes{Idle: time.Minute, Absolute: time.Hour}
		made := r.create(id, "data", lt)
		time.Sleep(lt.Idle - tick)
		r.holds(id, "data", made.Version)
		time.Sleep(tick)
		r.gone(id, made.Version)
		next := r.create(id, "next", lt)
		r.holds(id, "next", next.Version)
	}},
	{name: "SE-8 many gone at once", fakeTime: true, fn: func(r *run) {
		lt := session.Lifetimes{Idle: time.Minute, Absolute: time.Hour}
		versions := make(map[string]session.Version)
		for i := range 40 {
			id := strconv.Itoa(i)
			versions[id] = r.create(id, "data", lt).Version
		}
		time.Sleep(lt.Idle)
		for id, v := range versions {
			r.gone(id, v)
			r.create(id, "again", lt)
		}
	}},
	{name: "SE-8 save and touch are too late at Expires", fakeTime: true, fn: func(r *run) {
		lt := session.Lifetimes{Idle: time.Minute, Absolute: time.Hour}
		a, b := r.create("a", "data", lt), r.create("b", "data", lt)
		time.Sleep(lt.Idle)
		_, err := r.store.Save(r.Context(), "a", nil, a.Version)
		r.wantErr("Save", err, session.ErrNotFound)
		_, err = r.store.Touch(r.Context(), "b")
		r.wantErr("Touch", err, session.ErrNotFound)
		r.gone("a", a.Version)
		r.gone("b", b.Version)
	}},
	{name: "use extends, a look does not", fakeTime: true, fn: func(r *run) {
		lt := session.Lifetimes{Idle: time.Minute, Absolute: time.Hour}
		rec := r.create(id, "data", lt)
		for _, use := range []func() session.Record{
			func() session.Record { return r.touch(id) },
			func() session.Record { return r.save(id, "data", rec.Version) },
		} {
			time.Sleep(lt.Idle - tick)
			before := time.Now()
			used := use()
			if got := used.Expires.Sub(used.AsOf); got != lt.Idle {
				r.Errorf("after use it expires in %v, want %v", got, lt.Idle)
			}
			if got := used.AsOf; !got.Equal(before.Truncate(tick)) {
				r.Errorf("used as of %v, want %v", got, before)
			}
			rec = r.load(id)
			if !rec.Expires.Equal(used.Expires) || !rec.LastSeen.Equal(used.LastSeen) {
				r.Errorf("Load: last seen %v, expires %v, want %v, %v", rec.LastSeen, rec.Expires, used.LastSeen, used.Expires)
			}
		}
		time.Sleep(lt.Idle - tick)
		r.load(id)
		time.Sleep(tick)
		r.gone(id, rec.Version)
	}},
	{name: "SE-8 nothing passes the deadline", fakeTime: true, fn: func(r *run) {
		lt := session.Lifetimes{Idle: time.Minute, Absolute: 90 * time.Second}
		rec := r.create(id, "data", lt)
		time.Sleep(50 * time.Second)
		for _, use := range []func() session.Record{
			func() session.Record { return r.touch(id) },
			func() session.Record { return r.save(id, "data", rec.Version) },
		} {
			if got := use(); !got.Expires.Equal(rec.Deadline) || !got.Deadline.Equal(rec.Deadline) {
				r.Errorf("after use: expires %v, deadline %v, want %v for both", got.Expires, got.Deadline, rec.Deadline)
			}
		}
		rec = r.load(id)
		time.Sleep(40*time.Second - tick)
		r.touch(id)
		rec = r.save(id, "last", rec.Version)
		r.holds(id, "last", rec.Version)
		time.Sleep(tick)
		r.gone(id, rec.Version)
	}},
	{name: "expires by itself", fn: func(r *run) {
		rec := r.create(id, "data", session.Lifetimes{Idle: 60 * tick, Absolute: time.Hour})
		r.lasts(rec, func() (session.Record, error) { return r.store.Load(r.Context(), id) })
		r.gone(id, rec.Version)
	}},
	{name: "ends at its deadline in use", fn: func(r *run) {
		rec := r.create(id, "data", session.Lifetimes{Idle: 60 * tick, Absolute: 100 * tick})
		r.lasts(rec, func() (session.Record, error) { return r.store.Touch(r.Context(), id) })
		r.gone(id, rec.Version)
	}},
}

// lasts polls until the session is gone. Until then it must not have outlived
// its times.
func (r *run) lasts(rec session.Record, look func() (session.Record, error)) {
	r.Helper()
	for range 10_000 {
		pause()
		got, err := look()
		if errors.Is(err, session.ErrNotFound) {
			return
		}
		if err != nil {
			r.Fatalf("error = %v, want ErrNotFound in the end", err)
		}
		if !got.AsOf.Before(got.Expires) || got.Expires.After(rec.Deadline) {
			r.Fatalf("as of %v it lives until %v, with the deadline %v", got.AsOf, got.Expires, rec.Deadline)
		}
	}
	r.Errorf("the session does not end")
}
