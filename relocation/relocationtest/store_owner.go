package relocationtest

import (
	"errors"
	"time"

	"github.com/go-transparency/transparency/relocation"
)

// Who owns a session.
var ownerChecks = []storeCheck{
	{name: "create", fn: func(r *storeRun) {
		r.long().terms.In, r.terms.Out = 7, 4
		s, c := r.connect(), r.claim("a")
		want := relocation.Snapshot{Generation: 1, In: 7, Out: 4, Acked: 4, Released: true}
		for range 2 { // RL-45: the second is the first come again
			got, err := s.Create(r.Context(), r.id, r.terms, c)
			if got.Mark == "" {
				r.Errorf("Create: the mark is empty")
			}
			if got.Mark = ""; err != nil || got != want {
				r.Errorf("Create = %+v, %v, want %+v", got, err, want)
			}
		}
		_, err := s.Create(r.Context(), r.id, r.terms, r.claim("a"))
		r.wantErr("Create of what is there", err, relocation.ErrExists)
	}},
	{name: "RL-33 generations rise over many drops", fn: func(r *storeRun) {
		i := r.long().create("a")
		for n := range uint64(100) {
			i.commit(relocation.Update{In: n + 1, Messages: payloads("x"), Acked: n})
			i.release()
			next := r.attach(r.claim("a"), relocation.Snapshot{Generation: n + 1, Out: n + 1})
			want := relocation.Snapshot{Generation: n + 2, In: n + 1, Out: n + 1, Acked: n, Released: true, Mark: next.first.Mark}
			if next.first != want {
				r.Fatalf("Attach after %d drops = %+v, want %+v", n+1, next.first, want)
			}
			i = next
		}
	}},
	{name: "RL-18 a former owner changes nothing", fn: func(r *storeRun) {
		i := r.long().create("a")
		i.commit(relocation.Update{In: 3, Messages: payloads("one")})
		c := r.claim("b")
		c.Force = true
		next := r.attach(c, relocation.Snapshot{Generation: 1, Out: 1})
		i.wantRefused("of a former owner", relocation.ErrFenced)
		r.wantErr("Release of a former owner", i.store.Release(r.Context(), i.lease, ""), relocation.ErrFenced)
		r.wantErr("Delete of a former owner", i.store.Delete(r.Context(), i.lease), relocation.ErrFenced)
		if p, err := next.renew(); err != nil || p.Out != 1 {
			r.Errorf("Renew of the owner = %+v, %v, want 1 message", p, err)
		}
		if got := next.state().first; got.In != 3 {
			r.Errorf("In = %d, want 3", got.In)
		}
	}},
	{name: "a generation that was never given away", fn: func(r *storeRun) {
		i := r.long().create("a")
		later := *i
		later.lease.Generation = 5
		later.wantRefused("of a later generation", relocation.ErrStateRegressed)
		r.wantErr("Release", i.store.Release(r.Context(), later.lease, ""), relocation.ErrStateRegressed)
		r.wantErr("Delete", i.store.Delete(r.Context(), later.lease), relocation.ErrStateRegressed)
		other := *i // the store went back, and gave the generation to another
		other.lease.Owner = "b"
		other.wantRefused("of another owner", relocation.ErrFenced)
		i.commit(relocation.Update{})
	}},
	{name: "RL-22 RL-24 unknown and another's are one", fn: func(r *storeRun) {
		r.long()
		s := r.connect()
		_, err := s.Attach(r.Context(), r.id, r.claim("a"))
		r.wantErr("Attach to no session", err, relocation.ErrUnknown)
		_, err = s.Read(r.Context(), r.id, 0, all)
		r.wantErr("Read of no session", err, relocation.ErrUnknown)
		_, err = s.Append(r.Context(), r.id, relocation.Batch{ID: r.name(), Messages: payloads("x")})
		r.wantErr("Append to no session", err, relocation.ErrUnknown)
		gone := r.instance(s, r.claim("a"), relocation.Snapshot{Generation: 1})
		gone.wantRefused("of no session", relocation.ErrUnknown)
		r.wantErr("Release of no session", s.Release(r.Context(), gone.lease, ""), relocation.ErrUnknown)
		r.wantErr("Delete of no session", s.Delete(r.Context(), gone.lease), relocation.ErrUnknown)

		i := r.create("a")
		c := r.claim("b")
		c.Principal, c.Attempt, c.Force = "eve", 9, true
		_, err = s.Attach(r.Context(), r.id, c)
		r.wantErr("Attach of another principal", err, relocation.ErrUnknown)
		i.commit(relocation.Update{In: 1})
	}},
	{name: "RL-21 a token older than the confirmed one", fn: func(r *storeRun) {
		i := r.long().create("a")
		second := r.attach(r.claim("a"), i.first) // Serial 1, Attempt 1
		c := r.claim("a")
		c.Serial, c.Attempt = 1, 2
		third := r.attach(c, relocation.Snapshot{}) // the client has not seen the token of 2
		third.commit(relocation.Update{Confirmed: true})
		c = r.claim("b")
		c.Serial, c.Attempt, c.Force = second.first.Generation, 9, true
		_, err := third.store.Attach(r.Context(), r.id, c)
		r.wantErr("Attach with an old token", err, relocation.ErrSessionTaken)
		third.commit(relocation.Update{}) // and is the owner yet
		c.Serial = third.first.Generation
		r.attach(c, relocation.Snapshot{})
	}},
	{name: "attempts rise", fn: func(r *storeRun) {
		i := r.long().create("a")
		c := r.claim("a")
		c.Attempt = 5
		next := r.attach(c, relocation.Snapshot{Generation: 1})
		for _, attempt := range []uint64{4, 5} {
			c := r.claim("b")
			c.Serial, c.Attempt, c.Force = 1, attempt, true
			_, err := i.store.Attach(r.Context(), r.id, c)
			r.wantErr("Attach of an earlier attempt", err, relocation.ErrSuperseded)
		}
		next.commit(relocation.Update{})
	}},
	{name: "what the client says of numbers", fn: func(r *storeRun) {
		i := r.long().create("a")
		i.commit(relocation.Update{In: 5, Messages: payloads("1", "2", "3", "4")})
		i.commit(relocation.Update{Acked: 2})
		for _, tt := range []struct {
			received, acked, serial uint64
			want                    error
		}{
			{1, 5, 1, relocation.ErrSessionTaken},
			{2, 6, 1, relocation.ErrStateRegressed},
			{5, 5, 1, relocation.ErrStateRegressed},
			{3, 3, 2, relocation.ErrStateRegressed},
		} {
			c := r.claim("b")
			c.Attempt, c.Received, c.Acked, c.Serial, c.Force = 9, tt.received, tt.acked, tt.serial, true
			_, err := i.store.Attach(r.Context(), r.id, c)
			if !errors.Is(err, tt.want) {
				r.Errorf("Attach(received %d, acked %d, serial %d) error = %v, want %v",
					tt.received, tt.acked, tt.serial, err, tt.want)
			}
		}
		c := r.claim("b")
		c.Attempt, c.Received, c.Acked, c.Serial, c.Force = 9, 4, 5, 1, true
		got := r.attach(c, relocation.Snapshot{}).first
		if got.In != 5 || got.Out != 4 || got.Acked != 2 {
			r.Errorf("Attach = %+v, want 5 in, 4 out, 2 acknowledged", got)
		}
	}},
	{name: "a session that is owned", fn: func(r *storeRun) {
		i := r.long().create("a")
		c := r.claim("b")
		c.Serial, c.Attempt = 1, 1
		s := r.connect()
		for range 2 { // the second time, the first has not counted
			_, err := s.Attach(r.Context(), r.id, c)
			owned, ok := errors.AsType[*relocation.OwnedError](err)
			if !ok || owned.Owner != "a" || owned.Remaining <= 0 || owned.Remaining > r.lease {
				r.Errorf("Attach = %v, want an OwnedError of a for up to %v", err, r.lease)
			}
			r.wantErr("Attach", err, relocation.ErrOwned)
			i.commit(relocation.Update{})
		}
		c.Force = true
		next := r.attach(c, relocation.Snapshot{})
		if next.first.Generation != 2 || next.first.Released {
			r.Errorf("Attach by force = %+v, want generation 2, not released", next.first)
		}
		i.wantRefused("of a former owner", relocation.ErrFenced)
		c = r.claim("b")
		c.Attempt = 2
		if own := r.attach(c, next.first); own.first.Generation != 3 || own.first.Released {
			r.Errorf("Attach by the owner = %+v, want generation 3, not released", own.first)
		}
	}},
	{name: "RL-45 a claim that comes again", fn: func(r *storeRun) {
		i := r.long().create("a")
		i.release()
		c := r.claim("b")
		next := r.attach(c, i.first)
		c.Serial, c.Attempt = 1, 1
		again, err := next.store.Attach(r.Context(), r.id, c)
		if err != nil || again != next.first {
			r.Errorf("Attach again = %+v, %v, want %+v", again, err, next.first)
		}
		next.commit(relocation.Update{In: 1})
	}},
	{name: "a lease that has ended", fn: func(r *storeRun) {
		r.terms.Resume = time.Hour
		i := r.create("a")
		c := r.claim("b")
		var next *instance
		r.eventually("the lease ends", r.lease+r.slack(), func() bool {
			s, err := i.store.Attach(r.Context(), r.id, relocation.Claim{
				Owner: c.Owner, Lease: c.Lease, Nonce: c.Nonce, Principal: c.Principal, Serial: 1, Attempt: 1,
			})
			next = r.instance(i.store, c, s)
			return err == nil
		})
		if next.first.Released {
			r.Errorf("Attach after a lease has ended: released, want not")
		}
		i.wantRefused("of a former owner", relocation.ErrFenced)
	}},
	{name: "a lease that has ended and that nobody took", fn: func(r *storeRun) {
		r.terms.Resume = time.Hour
		i := r.create("a")
		time.Sleep(r.lease + r.lease/6)
		i.commit(relocation.Update{In: 1})
		c := r.claim("b")
		c.Serial, c.Attempt = 1, 1
		_, err := i.store.Attach(r.Context(), r.id, c)
		r.wantErr("Attach after a Commit renewed the lease", err, relocation.ErrOwned)
	}},
	{name: "renewing", fn: func(r *storeRun) {
		r.lease, r.terms.Resume = 3*time.Second, time.Hour
		i := r.create("a")
		for n := range 2 {
			time.Sleep(r.lease * 6 / 10)
			var err error
			if n%2 == 0 {
				_, err = i.renew()
			} else {
				_, err = i.try(relocation.Update{})
			}
			if err != nil {
				r.Fatalf("renewal %d: %v", n, err)
			}
		}
		c := r.claim("b")
		c.Serial, c.Attempt = 1, 1
		_, err := i.store.Attach(r.Context(), r.id, c)
		if owned, ok := errors.AsType[*relocation.OwnedError](err); !ok || r.fake && owned.Remaining < r.lease {
			r.Errorf("Attach after renewals = %v, want an OwnedError for %v", err, r.lease)
		}
	}},
	{name: "ending a lease without releasing", fn: func(r *storeRun) {
		i := r.long().create("a")
		i.lease.Duration = 0
		if _, err := i.renew(); err != nil {
			r.Fatalf("Renew error = %v", err)
		}
		time.Sleep(time.Millisecond)
		if next := r.attach(r.claim("b"), i.first); next.first.Released {
			r.Errorf("Attach = %+v, want not released", next.first)
		}
	}},
	{name: "renewals have their results in order", fn: func(r *storeRun) {
		i := r.long().create("a")
		i.commit(relocation.Update{Messages: payloads("1", "2")})
		count := 1200
		if r.fake { // where a connection may hold no more than it is written at once
			count = 12
		}
		var leases []relocation.Lease
		for n := range count {
			l := i.lease
			switch n % 3 {
			case 1:
				l.Session = "none"
			case 2:
				l.Owner = "b"
			}
			leases = append(leases, l)
		}
		results := i.store.Renew(r.Context(), leases)
		if len(results) != len(leases) {
			r.Fatalf("Renew gave %d results, want %d", len(results), len(leases))
		}
		for n, got := range results {
			want := []error{nil, relocation.ErrUnknown, relocation.ErrFenced}[n%3]
			if !errors.Is(got.Err, want) || want == nil && got.Progress.Out != 2 {
				r.Fatalf("Renew: result %d = %+v, want %v", n, got, want)
			}
		}
		if got := i.store.Renew(r.Context(), nil); len(got) != 0 {
			r.Errorf("Renew of nothing = %v", got)
		}
	}},
}
