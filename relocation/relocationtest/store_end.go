package relocationtest

import (
	"errors"
	"time"

	"github.com/go-transparency/transparency/relocation"
)

// How a session ends, and how it does not.
var endChecks = []storeCheck{
	{name: "release", fn: func(r *storeRun) {
		i := r.long().create("a")
		i.commit(relocation.Update{In: 2, Messages: payloads("1")})
		i.release()
		i.release() // RL-45
		i.wantRefused("after Release", relocation.ErrFenced)
		if first := r.append(i.store, "2"); first != 2 {
			r.Errorf("Append to a released session = %d, want 2", first)
		}
		next := r.attach(r.claim("b"), relocation.Snapshot{Generation: 1, Out: 2})
		want := relocation.Snapshot{Generation: 2, In: 2, Out: 2, Released: true, Mark: next.first.Mark}
		if next.first != want {
			r.Errorf("Attach = %+v, want %+v", next.first, want)
		}
		r.wantErr("Release of a former owner", i.store.Release(r.Context(), i.lease, ""), relocation.ErrFenced)
		next.commit(relocation.Update{})
	}},
	{name: "RL-37 delete", fn: func(r *storeRun) {
		i := r.long().create("a")
		i.commit(relocation.Update{In: 6, Messages: payloads("1")})
		for range 2 { // RL-45
			if err := i.store.Delete(r.Context(), i.lease); err != nil {
				r.Fatalf("Delete error = %v", err)
			}
		}
		r.wantEnded(i.store, 6)
		i.wantRefused("after Delete", relocation.ErrExpired)
		other := i.lease
		other.Generation = 0
		r.wantErr("Delete of a former owner", i.store.Delete(r.Context(), other), relocation.ErrFenced)
	}},
	{name: "RL-37 delete after release", fn: func(r *storeRun) {
		i := r.long().create("a")
		i.commit(relocation.Update{In: 6})
		i.release()
		if err := i.store.Delete(r.Context(), i.lease); err != nil {
			r.Fatalf("Delete error = %v", err)
		}
		r.wantEnded(i.store, 6)
	}},
	{name: "RL-27 a new session after a forgotten one", fn: func(r *storeRun) {
		tombstone := r.terms.Tombstone
		r.long().terms.Tombstone = tombstone
		i := r.create("a")
		i.commit(relocation.Update{In: 6, Messages: payloads("1", "2")})
		old := relocation.Batch{ID: r.name(), Messages: payloads("3")}
		if _, err := i.store.Append(r.Context(), r.id, old); err != nil {
			r.Fatalf("Append error = %v", err)
		}
		if err := i.store.Delete(r.Context(), i.lease); err != nil {
			r.Fatalf("Delete error = %v", err)
		}
		c := r.claim("b")
		var next relocation.Snapshot
		r.eventually("the end is forgotten", r.terms.Tombstone+r.slack(), func() bool {
			var err error
			next, err = i.store.Create(r.Context(), r.id, r.terms, c)
			return err == nil
		})
		want := relocation.Snapshot{Generation: 1, Released: true, Mark: next.Mark}
		if next != want {
			r.Errorf("Create = %+v, want %+v", next, want)
		}
		j := r.instance(i.store, c, next)
		if p := j.commit(relocation.Update{In: 1, Messages: payloads("new")}); p.First != 1 {
			r.Errorf("Commit = %+v, want First 1", p)
		}
		if first, err := j.store.Append(r.Context(), r.id, old); err != nil || first != 2 {
			r.Errorf("Append = %d, %v, want 2: batches of another session are none", first, err)
		}
		r.read(j.store, 0, all, 1, "new", "3")
	}},
	{name: "RL-23 a session that nobody resumes", fn: func(r *storeRun) {
		if !r.fake {
			r.terms.Tombstone = time.Hour
		}
		i := r.create("a")
		i.commit(relocation.Update{In: 4, Messages: payloads("1")})
		r.eventually("the session ends", r.lease+r.terms.Resume+r.slack(), func() bool {
			_, err := i.store.Read(r.Context(), r.id, 0, all)
			return errors.Is(err, relocation.ErrExpired)
		})
		r.wantEnded(i.store, 4)
		i.wantRefused("of a session that ended", relocation.ErrExpired)
		if !r.fake {
			return
		}
		r.eventually("the end is forgotten", r.terms.Tombstone+r.slack(), func() bool {
			_, err := i.store.Attach(r.Context(), r.id, r.claim("b"))
			return errors.Is(err, relocation.ErrUnknown)
		})
	}},
	{name: "RL-32 the time to resume counts from the drop", fakeTime: true, fn: func(r *storeRun) {
		i := r.create("a")
		for range 10 { // idle for longer than all of it
			time.Sleep(r.lease * 9 / 10)
			if _, err := i.renew(); err != nil {
				r.Fatalf("Renew error = %v", err)
			}
		}
		time.Sleep(r.lease / 2)
		i.release()
		time.Sleep(r.terms.Resume - r.slack())
		next := r.attach(r.claim("b"), relocation.Snapshot{Generation: 1})
		// And one that is not released lasts for its lease and the time to resume.
		time.Sleep(r.lease + r.terms.Resume - r.slack())
		next = r.attach(r.claim("c"), next.first)
		next.release()
		time.Sleep(r.terms.Resume + r.slack())
		r.wantEnded(next.store, 0)
		time.Sleep(r.terms.Tombstone - 3*r.slack())
		r.wantEnded(next.store, 0)
		time.Sleep(3 * r.slack())
		_, err := next.store.Attach(r.Context(), r.id, r.claim("d"))
		r.wantErr("Attach after the tombstone", err, relocation.ErrUnknown)
	}},
	{name: "what is appended does not prolong", fakeTime: true, fn: func(r *storeRun) {
		i := r.create("a")
		i.release()
		for range 3 {
			time.Sleep(r.terms.Resume / 4)
			r.append(i.store, "x")
		}
		time.Sleep(r.terms.Resume / 3)
		r.wantEnded(i.store, 0)
	}},
	{name: "messages last as long as the session", fakeTime: true, fn: func(r *storeRun) {
		i := r.create("a")
		r.append(i.store, "1")
		for range 10 {
			time.Sleep(r.lease * 9 / 10)
			if _, err := i.renew(); err != nil {
				r.Fatalf("Renew error = %v", err)
			}
		}
		i.release()
		time.Sleep(r.terms.Resume - r.slack())
		r.read(i.store, 0, all, 1, "1")
	}},
	{name: "a remembered end lasts from Delete", fakeTime: true, fn: func(r *storeRun) {
		i := r.create("a")
		if err := i.store.Delete(r.Context(), i.lease); err != nil {
			r.Fatalf("Delete error = %v", err)
		}
		time.Sleep(r.terms.Tombstone - r.slack())
		r.wantEnded(i.store, 0)
		time.Sleep(2 * r.slack())
		_, err := i.store.Attach(r.Context(), r.id, r.claim("b"))
		r.wantErr("Attach after the tombstone", err, relocation.ErrUnknown)
	}},
}
