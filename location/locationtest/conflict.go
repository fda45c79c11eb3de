package locationtest

import (
	"context"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/location"
)

// Two who want the same id.
var conflictChecks = []check{
	{"LO-3 an id that is taken is refused, and taken over when asked", false, func(r *run) {
		first := r.registry(nil)
		g := r.register(first, 1)
		ch := r.changes(g)
		r.wantChange(ch, r.slack(), location.StateRegistered)
		_, err := r.registry(nil).Register(r.Context(), service, at(1))
		r.wantErr("Register", err, location.ErrInstanceConflict)
		if transparency.Retryable(err) {
			r.Errorf("Register error = %v, want one that is final", err)
		}
		second := r.registryWith(nil, location.Options{Takeover: true})
		h := r.register(second, 1)
		r.wantChange(ch, r.ttl+r.slack(), location.StateReplaced, location.ErrInstanceConflict)
		if err := h.Err(); err != nil {
			r.Errorf("Err of the second = %v, want nil", err)
		}
		r.wantSnapshot("Resolve", r.resolve(first), false, 1)
	}},
	{"LO-2 who slept and was replaced stays out", true, func(r *run) {
		d := r.connect()
		f := &faulty{Driver: d}
		reg := r.registry(f)
		g := r.register(reg, 1)
		ch := r.changes(g)
		r.wantChange(ch, r.slack(), location.StateRegistered)
		f.down(errDown)
		time.Sleep(2 * r.ttl)
		r.wantChange(ch, r.slack(), location.StateLost, location.ErrLost)
		successor := r.instance(1)
		successor.TTL = time.Hour
		successor.Endpoint.Port = 81
		r.put(d, successor)
		f.down(nil)
		r.wantChange(ch, r.ttl, location.StateReplaced, location.ErrInstanceConflict)
		if _, open := <-ch; open {
			r.Errorf("a change after the last")
		}
		_, before := f.counts()
		time.Sleep(10 * r.ttl)
		if _, after := f.counts(); after != before {
			r.Errorf("%d requests after it was replaced, want none", after-before)
		}
		r.wantErr("Err", g.Err(), location.ErrInstanceConflict)
		if err := g.Deregister(r.Context()); err != nil {
			r.Errorf("Deregister error = %v, want nil", err)
		}
		if l := r.list(d, service, ""); len(l.Endpoints) != 1 || l.Endpoints[0].Port != 81 {
			r.Errorf("List = %+v, want the successor", l)
		}
		if n := reg.Stats().Registrations; n != 0 {
			r.Errorf("%d registrations are kept, want none", n)
		}
	}},
	{"LO-2 who asked for a takeover asks once", true, func(r *run) {
		d := r.connect()
		f := &faulty{Driver: d}
		g := r.register(r.registryWith(f, location.Options{Takeover: true}), 1)
		ch := r.changes(g)
		r.wantChange(ch, r.slack(), location.StateRegistered)
		successor := r.instance(1)
		successor.TTL, successor.Endpoint.Port = time.Hour, 81
		start, first := time.Now(), true
		f.spoil(func() {
			f.renew = func(ctx context.Context, name string, in location.Instance) error {
				if time.Since(start) < 2*r.ttl {
					return errDown
				}
				if !first {
					return d.Renew(ctx, name, in)
				}
				first = false // it has run out, and another is quicker
				if err := d.Register(r.Context(), name, successor, false); err != nil {
					r.Errorf("Register error = %v", err)
				}
				return location.ErrLost
			}
		})
		r.wantChange(ch, 2*r.ttl, location.StateLost, location.ErrLost)
		r.wantChange(ch, 2*r.ttl, location.StateReplaced, location.ErrInstanceConflict)
		if l := r.list(d, service, ""); len(l.Endpoints) != 1 || l.Endpoints[0].Port != 81 {
			r.Errorf("List = %+v, want the successor", l)
		}
	}},
}
