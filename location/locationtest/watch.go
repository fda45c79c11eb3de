package locationtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/location"
)

var watchChecks = []check{
	{"LO-10 the first event is the present state", false, func(r *run) {
		d := r.connect()
		in := r.instance(1)
		r.put(d, in)
		reg := r.registry(nil)
		e := r.next("watch", r.watch(reg), r.slack())
		r.wantSnapshot("the first", e.snapshot, false, 1)
		e = r.next("a second watch", r.watch(reg), r.slack())
		r.wantSnapshot("the first of the second", e.snapshot, false, 1)
		r.remove(d, in)
		e = r.next("watch of a new registry", r.watch(r.registry(nil)), r.slack())
		if e.err != nil || e.snapshot.Len() != 0 || e.snapshot.AsOf().IsZero() {
			r.Errorf("the first of an empty service = %v, %v, want an empty snapshot", e.snapshot, e.err)
		}
	}},
	{"a service that is unknown can become known", false, func(r *run) {
		reg := r.registry(nil)
		w := r.watch(reg)
		e := r.next("watch", w, r.slack())
		r.wantErr("watch", e.err, location.ErrUnknownService)
		r.put(r.connect(), r.instance(1))
		e = r.next("watch", w, 2*r.poll+r.slack())
		if e.err != nil {
			r.Errorf("watch error = %v, want nil", e.err)
		}
		r.wantSnapshot("watch", e.snapshot, false, 1)
	}},
	{"LO-10 events are whole, sorted, and only for changes", true, func(r *run) {
		d := r.connect()
		w := r.watch(r.registry(nil))
		r.wantErr("watch", r.next("watch", w, r.poll).err, location.ErrUnknownService)
		r.none("nothing changed", w, 10*r.poll)
		c, a := r.instance(3), r.instance(1)
		a.TTL, c.TTL = time.Hour, time.Hour
		r.put(d, c)
		r.wantSnapshot("the first", r.next("one", w, r.poll).snapshot, false, 3)
		r.put(d, a)
		e := r.next("another", w, r.poll)
		if e.snapshot.Len() != 2 || e.snapshot.At(0).ID != at(1).ID || e.snapshot.At(1).ID != at(3).ID {
			r.Errorf("snapshot = %v, want both, sorted", e.snapshot)
		}
		r.put(d, a)
		// The same place under another ID is no other place.
		twin := r.instance(1)
		twin.Endpoint.ID, twin.TTL = "twin", time.Hour
		r.put(d, twin)
		r.none("nothing that shows changed", w, 10*r.poll)
		r.remove(d, c)
		r.wantSnapshot("after a removal", r.next("a removal", w, r.poll).snapshot, false, 1)
		r.remove(d, a)
		if e := r.next("the twin is left", w, r.poll); e.snapshot.Len() != 1 || e.snapshot.At(0).ID != "twin" {
			r.Errorf("snapshot = %v, want the twin", e.snapshot)
		}
		r.remove(d, twin)
		if e := r.next("the last is gone", w, r.poll); e.snapshot.Len() != 0 || e.err != nil {
			r.Errorf("event = %v, %v, want an empty snapshot", e.snapshot, e.err)
		}
	}},
	{"LO-8 a removal is seen by a hint", false, func(r *run) {
		d := r.connect()
		in := r.instance(1)
		in.TTL = time.Minute
		r.put(d, in)
		reg := location.NewRegistry(r.connect(), &location.Options{Poll: time.Hour})
		r.Cleanup(func() { _ = reg.Close() })
		w := r.watch(reg)
		r.wantSnapshot("the first", r.next("watch", w, r.slack()).snapshot, false, 1)
		r.eventually("it is heard", r.slack()+time.Second, func() bool {
			r.remove(d, in)
			in = r.instance(1)
			in.TTL = time.Minute
			select {
			case e := <-w:
				if e.err != nil || e.snapshot.Len() != 0 {
					r.Errorf("event = %v, %v, want an empty snapshot", e.snapshot, e.err)
				}
				return true
			case <-time.After(50 * time.Millisecond):
				return false
			}
		})
	}},
	{"LO-12 without hints a change is seen within the poll interval", true, func(r *run) {
		f := &faulty{Driver: r.connect()}
		f.spoil(func() {
			f.listen = func(ctx context.Context, wake func(string)) error {
				wake("")
				<-ctx.Done() // connected, and nothing is delivered
				return ctx.Err()
			}
		})
		w := r.watch(r.registry(f))
		r.next("watch", w, r.poll)
		for i := range 10 {
			in := r.instance(i)
			r.put(f, in)
			began := time.Now()
			r.next("an addition", w, 2*r.poll)
			if took := time.Since(began); took > r.poll*5/3+r.slack() {
				r.Errorf("seen after %v, want at most %v", took, r.poll*5/3)
			}
			r.remove(f, in)
			r.next("a removal", w, 2*r.poll)
		}
	}},
	{"LO-11 what happened while cut off shows in one event", true, func(r *run) {
		f := &faulty{Driver: r.connect()}
		store := r.connect()
		w := r.watch(r.registry(f))
		r.next("watch", w, r.poll)
		x, y, z := r.instance(1), r.instance(2), r.instance(3)
		for _, in := range []*location.Instance{&x, &y, &z} {
			in.TTL = time.Hour
		}
		r.put(store, y, z)
		for e := r.next("two", w, r.poll); e.snapshot.Len() != 2; {
			e = r.next("two", w, r.poll)
		}
		before, _ := f.counts()
		f.down(errDown)
		f.spoil(func() { f.listen = func(context.Context, func(string)) error { return errDown } })
		r.put(store, x)
		r.remove(store, y)
		r.wantSnapshot("cut off", r.next("cut off", w, 2*r.poll).snapshot, true, 2, 3)
		r.none("still cut off", w, time.Minute)
		after, _ := f.counts()
		if n := after - before; n > 2*60 {
			r.Errorf("asked %d times in a minute, want at most 2 a second", n)
		}
		f.down(nil)
		r.wantSnapshot("back", r.next("back", w, 2*r.poll).snapshot, false, 1, 3)
		r.none("no more", w, time.Minute)
	}},
	{"LO-6 staleness is an event, and its end is one", true, func(r *run) {
		f := &faulty{Driver: r.connect()}
		reg := r.registryWith(f, location.Options{MaxStale: time.Minute})
		w := r.watch(reg)
		r.next("watch", w, r.poll)
		in := r.instance(1)
		in.TTL = time.Hour
		r.put(f, in)
		r.next("one", w, 2*r.poll)
		f.down(errDown)
		e := r.next("an outage", w, 2*r.poll)
		r.wantSnapshot("in the outage", e.snapshot, true, 1)
		if e.err != nil {
			r.Errorf("error = %v, want nil while there is something to serve", e.err)
		}
		e = r.next("MaxStale", w, time.Minute+2*r.poll)
		r.wantErr("after MaxStale", e.err, transparency.ErrUnavailable)
		r.none("the same trouble", w, time.Minute)
		f.down(nil)
		r.wantSnapshot("after the outage", r.next("the end", w, 2*r.poll).snapshot, false, 1)
	}},
	{"one poller serves all who watch, and hints come in at most twice a second", true, func(r *run) {
		f := &faulty{Driver: r.connect()}
		var ears atomic.Int32
		f.spoil(func() {
			f.listen = func(ctx context.Context, wake func(string)) error {
				ears.Add(1)
				defer ears.Add(-1)
				return f.Driver.Listen(ctx, wake)
			}
		})
		reg := r.registry(f)
		ctx, cancel := context.WithCancel(r.Context())
		var all []<-chan seen
		for range 50 {
			w := r.events(ctx, location.Watch(ctx, reg, service))
			r.next("watch", w, r.poll)
			all = append(all, w)
		}
		if s := reg.Stats(); s.Watched != 1 || ears.Load() != 1 {
			r.Errorf("Stats = %+v, want one service watched, with one ear: %d", s, ears.Load())
		}
		before, _ := f.counts()
		time.Sleep(time.Minute)
		after, _ := f.counts()
		if n := after - before; n > 30 || n < 10 {
			r.Errorf("asked %d times in a minute, want 12 to 30", n)
		}
		before = after
		for i := range 500 {
			in := r.instance(i % 200)
			in.TTL = time.Hour
			r.put(f, in)
			r.remove(f, in)
			time.Sleep(10 * time.Millisecond)
		}
		after, _ = f.counts()
		if n := after - before; n > 12 {
			r.Errorf("asked %d times in 5 s full of news, want at most 12", n)
		}
		cancel()
		for _, w := range all {
			r.drain(w)
		}
		time.Sleep(time.Second)
		if s := reg.Stats(); s.Watched != 0 || ears.Load() != 0 {
			r.Errorf("Stats = %+v after the watches ended, want none watched, and no ear: %d", s, ears.Load())
		}
		before, _ = f.counts()
		time.Sleep(time.Minute)
		if after, _ := f.counts(); after != before {
			r.Errorf("asked %d times although nobody watches", after-before)
		}
	}},
	{"the slow get the latest", true, func(r *run) {
		d := r.connect()
		reg := r.registry(nil)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		var got []int
		for s, err := range location.Watch(ctx, reg, service) {
			got = append(got, s.Len())
			switch len(got) {
			case 1:
				r.wantErr("watch", err, location.ErrUnknownService)
				for i := range 5 {
					in := r.instance(i)
					in.TTL = time.Hour
					r.put(d, in)
					time.Sleep(2 * r.poll)
				}
			case 2:
				cancel()
			}
		}
		if fmt.Sprint(got) != "[0 5]" {
			r.Errorf("sizes = %v, want 0 and then 5", got)
		}
	}},
	{"only the end of the context ends a watch", false, func(r *run) {
		reg := r.registry(nil)
		ctx, cancel := context.WithCancel(r.Context())
		bad := r.events(ctx, location.Watch(ctx, reg, "a/b"))
		r.wantErr("watch of a bad name", r.next("watch", bad, r.slack()).err, transparency.ErrInvalid)
		good := r.events(ctx, location.Watch(ctx, reg, service))
		r.next("watch", good, r.slack())
		if err := reg.Close(); err != nil {
			r.Errorf("Close error = %v", err)
		}
		r.wantErr("watch of what was closed", r.next("watch", good, r.slack()).err, location.ErrClosed)
		late := r.events(ctx, location.Watch(ctx, reg, service))
		r.wantErr("late watch", r.next("watch", late, r.slack()).err, location.ErrClosed)
		for _, w := range []<-chan seen{bad, good, late} {
			r.none("the last word", w, 20*time.Millisecond)
		}
		cancel()
		for _, w := range []<-chan seen{bad, good, late} {
			r.end("after the last word", w)
		}
	}},
	{"a Locator without Watch is polled", true, func(r *run) {
		d := r.connect()
		reg := r.registry(nil)
		l := struct{ location.Locator }{reg}
		w := r.watch(l)
		r.wantErr("watch", r.next("watch", w, r.slack()).err, location.ErrUnknownService)
		in := r.instance(1)
		in.TTL = time.Hour
		r.put(d, in)
		r.wantSnapshot("after a while", r.next("watch", w, 6*time.Second).snapshot, false, 1)
		r.none("nothing changed", w, time.Minute)
		r.remove(d, in)
		if e := r.next("watch", w, 6*time.Second); e.err != nil || e.snapshot.Len() != 0 {
			r.Errorf("event = %v, %v, want an empty snapshot", e.snapshot, e.err)
		}
	}},
	{"Close ends everything", false, func(r *run) {
		d := r.connect()
		reg := r.registry(nil)
		r.register(reg, 1)
		g := r.register(reg, 2)
		w := r.watch(reg)
		r.next("watch", w, r.slack())
		for range 2 {
			if err := reg.Close(); err != nil {
				r.Errorf("Close error = %v", err)
			}
		}
		if l := r.list(d, service, ""); len(l.Endpoints) != 0 || !l.Emptied {
			r.Errorf("List after Close = %+v, want it emptied", l)
		}
		_, err := reg.Resolve(r.Context(), service)
		r.wantErr("Resolve", err, location.ErrClosed)
		_, err = reg.Register(r.Context(), service, at(3))
		r.wantErr("Register", err, location.ErrClosed)
		if g.State() != location.StateDeregistered || !errors.Is(g.Err(), location.ErrDeregistered) {
			r.Errorf("State = %v, %v, want deregistered", g.State(), g.Err())
		}
		if err := g.Deregister(r.Context()); err != nil {
			r.Errorf("Deregister error = %v, want nil", err)
		}
	}},
}
