package locationtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/location"
)

var errDown = fmt.Errorf("%w: connection refused", transparency.ErrUnavailable)

var lookupChecks = []check{
	{"LO-9 an unknown service is told at once and is not empty", false, func(r *run) {
		reg := r.registry(nil)
		start := time.Now()
		s, err := reg.Resolve(r.Context(), service)
		r.wantErr("Resolve", err, location.ErrUnknownService)
		if errors.Is(err, location.ErrNoInstances) || transparency.Retryable(err) || s.Len() != 0 {
			r.Errorf("Resolve = %v, %v, want unknown and nothing else", s, err)
		}
		if took := time.Since(start); took > r.slack() {
			r.Errorf("Resolve took %v", took)
		}
		if n := reg.Stats().Services; n != 0 {
			r.Errorf("%d services are remembered, want none", n)
		}
	}},
	{"LO-25 one service has one name in many spellings", false, func(r *run) {
		reg := r.registry(nil)
		if _, err := reg.Register(r.Context(), "User_Service.", at(1)); err != nil {
			r.Fatalf("Register error = %v", err)
		}
		r.wantSnapshot("Resolve", r.resolve(reg), false, 1)
		for _, bad := range []string{"", ".", "a/b", "*", "{x}", "-a", "a..b", "a b", "http://u:hush@h", "é"} {
			_, err := reg.Resolve(r.Context(), bad)
			r.wantErr(fmt.Sprintf("Resolve(%q)", bad), err, transparency.ErrInvalid)
			_, err = reg.Register(r.Context(), bad, at(1))
			r.wantErr(fmt.Sprintf("Register(%q)", bad), err, transparency.ErrInvalid)
		}
	}},
	{"Resolve sees what was registered before it was called", false, func(r *run) {
		a, b := r.registry(nil), r.registry(nil)
		for i := range 10 {
			g := r.register(a, i)
			r.wantSnapshot("Resolve", r.resolve(b), false, i)
			if err := g.Deregister(r.Context()); err != nil {
				r.Errorf("Deregister error = %v", err)
			}
		}
	}},
	{"Resolve in a crowd is newer than its question", false, func(r *run) {
		reg := r.registry(nil)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				g, err := reg.Register(r.Context(), service, at(i))
				if err != nil {
					r.Errorf("Register error = %v", err)
					return
				}
				s, err := reg.Resolve(r.Context(), service)
				if err != nil {
					r.Errorf("Resolve error = %v", err)
				}
				for e := range s.All() {
					if e.ID == g.Endpoint().ID {
						return
					}
				}
				r.Errorf("Resolve = %v without the instance registered before", s)
			})
		}
		wg.Wait()
	}},
	{"Resolve does not take the answer to an older question", true, func(r *run) {
		f := &faulty{Driver: r.connect()}
		reg := r.registry(f)
		r.put(f, r.instance(1))
		f.spoil(func() {
			f.list = func(ctx context.Context, name, known string) (location.Listing, error) {
				l, err := f.Driver.List(ctx, name, known)
				time.Sleep(time.Second) // the answer is on its way
				return l, err
			}
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			asked := time.Now()
			s := r.resolve(reg)
			r.wantSnapshot("the first", s, false, 1)
			if !s.AsOf().Equal(asked) {
				r.Errorf("AsOf = %v, want when it was asked, %v", s.AsOf(), asked)
			}
		}()
		time.Sleep(time.Second / 2)
		r.put(f, r.instance(2))
		r.wantSnapshot("the second", r.resolve(reg), false, 1, 2)
		<-done
	}},
	{"an error is not that of a context of the Registry's own", true, func(r *run) {
		f := &faulty{Driver: r.connect()}
		reg := r.registry(f)
		f.spoil(func() {
			f.list = func(ctx context.Context, _, _ string) (location.Listing, error) {
				<-ctx.Done()
				return location.Listing{}, fmt.Errorf("%w: %w", transparency.ErrUnavailable, ctx.Err())
			}
		})
		_, err := reg.Resolve(r.Context(), service)
		r.wantErr("Resolve", err, transparency.ErrUnavailable)
		if errors.Is(err, context.DeadlineExceeded) || !transparency.Retryable(err) {
			r.Errorf("Resolve error = %v, want one that can be retried", err)
		}
	}},
	{"LO-8 the last one's deregistration empties at once", false, func(r *run) {
		d := r.connect()
		reg := r.registry(nil)
		a, b := r.instance(1), r.instance(2)
		r.put(d, a, b)
		r.wantSnapshot("Resolve", r.resolve(reg), false, 1, 2)
		r.remove(d, a)
		r.wantSnapshot("Resolve", r.resolve(reg), false, 2)
		r.remove(d, b)
		s, err := reg.Resolve(r.Context(), service)
		r.wantErr("Resolve", err, location.ErrNoInstances)
		if s.Len() != 0 || s.Stale() || s.AsOf().IsZero() || errors.Is(err, location.ErrUnknownService) {
			r.Errorf("Resolve = %v as of %v, want an empty snapshot that has a time", s, s.AsOf())
		}
	}},
	{"LO-8 when all leases run out the last known are served until MaxStale", true, func(r *run) {
		d := r.connect()
		reg := r.registryWith(nil, location.Options{MaxStale: time.Minute})
		r.put(d, r.instance(1), r.instance(2))
		fresh := r.resolve(reg)
		time.Sleep(r.ttl + time.Millisecond)
		s := r.resolve(reg)
		r.wantSnapshot("Resolve", s, true, 1, 2)
		if !s.AsOf().Equal(fresh.AsOf()) {
			r.Errorf("AsOf = %v, want that of the last answer, %v", s.AsOf(), fresh.AsOf())
		}
		time.Sleep(50 * time.Second)
		r.wantSnapshot("Resolve", r.resolve(reg), true, 1, 2)
		time.Sleep(10 * time.Second)
		_, err := reg.Resolve(r.Context(), service)
		r.wantErr("Resolve after MaxStale", err, location.ErrNoInstances)
	}},
	{"LO-6 while the store does not answer the last known are served until MaxStale", true, func(r *run) {
		f := &faulty{Driver: r.connect()}
		reg := r.registryWith(f, location.Options{MaxStale: time.Minute})
		ever := r.registryWith(f, location.Options{MaxStale: -1})
		var ins []location.Instance
		for i := range 5 {
			ins = append(ins, r.instance(i))
		}
		r.put(f, ins...)
		fresh := r.resolve(reg)
		r.resolve(ever)
		f.down(errDown)
		before, _ := f.counts()
		for range 100 {
			r.resolve(reg)
			time.Sleep(10 * time.Millisecond)
		}
		if after, _ := f.counts(); after-before > 3 {
			r.Errorf("asked %d times in a second, want at most once after it was down", after-before)
		}
		for range 5 {
			time.Sleep(10*time.Second - time.Second/5)
			s := r.resolve(reg)
			r.wantSnapshot("Resolve", s, true, 0, 1, 2, 3, 4)
			if !s.AsOf().Equal(fresh.AsOf()) {
				r.Errorf("AsOf = %v, want that of the last answer, %v", s.AsOf(), fresh.AsOf())
			}
		}
		time.Sleep(10 * time.Second)
		_, err := reg.Resolve(r.Context(), service)
		r.wantErr("Resolve after MaxStale", err, transparency.ErrUnavailable)
		if errors.Is(err, location.ErrNoInstances) || errors.Is(err, location.ErrUnknownService) {
			r.Errorf("Resolve error = %v, want unavailable only", err)
		}
		time.Sleep(100 * time.Hour)
		r.wantSnapshot("Resolve of who keeps for ever", r.resolve(ever), true, 0, 1, 2, 3, 4)
		for range 20 {
			time.Sleep(1100 * time.Millisecond)
			r.resolve(ever)
		}
		f.down(nil)
		in := r.instance(7)
		in.TTL = time.Hour
		r.put(f, in)
		r.eventually("fresh again", 2*r.ttl, func() bool { return !r.resolve(ever).Stale() })
		r.wantSnapshot("Resolve after the outage", r.resolve(reg), false, 7)
	}},
	{"LO-6 a store that hangs holds up nobody who can be served", true, func(r *run) {
		f := &faulty{Driver: r.connect()}
		reg := r.registry(f)
		in := r.instance(1)
		in.TTL = time.Hour
		r.put(f, in)
		r.resolve(reg)
		f.spoil(func() {
			f.list = func(ctx context.Context, _, _ string) (location.Listing, error) {
				<-ctx.Done()
				return location.Listing{}, fmt.Errorf("%w: %w", transparency.ErrUnavailable, ctx.Err())
			}
		})
		r.wantSnapshot("Resolve", r.resolve(reg), true, 1) // finds out
		before, _ := f.counts()
		start := time.Now()
		for range 200 {
			time.Sleep(50 * time.Millisecond)
			asked := time.Now()
			r.wantSnapshot("Resolve", r.resolve(reg), true, 1)
			if took := time.Since(asked); took > 0 {
				r.Fatalf("Resolve took %v while the store is known to hang", took)
			}
		}
		after, _ := f.counts()
		if n := after - before; n > int(time.Since(start)/time.Second)+1 {
			r.Errorf("asked %d times in %v, want at most once a second", n, time.Since(start))
		}
		f.down(nil)
		r.eventually("fresh again", 4*time.Second, func() bool { return !r.resolve(reg).Stale() })
	}},
	{"nothing known and no answer is unavailable", false, func(r *run) {
		f := &faulty{Driver: r.connect()}
		f.down(errors.New("no class"))
		_, err := r.registry(f).Resolve(r.Context(), service)
		r.wantErr("Resolve", err, transparency.ErrUnavailable)
	}},
	{"a context that ends is answered at once", false, func(r *run) {
		f := &faulty{Driver: r.connect()}
		reg := r.registry(f)
		ctx, leave := context.WithCancel(r.Context())
		defer leave()
		f.spoil(func() {
			f.list = func(ctx context.Context, _, _ string) (location.Listing, error) {
				leave() // not before, or it would not have been asked
				<-ctx.Done()
				return location.Listing{}, ctx.Err()
			}
		})
		start := time.Now()
		_, err := reg.Resolve(ctx, service)
		r.wantErr("Resolve", err, context.Canceled, transparency.ErrUnavailable)
		if took := time.Since(start); took > r.slack() {
			r.Errorf("Resolve took %v", took)
		}
		_, err = reg.Resolve(ctx, service)
		r.wantErr("Resolve", err, context.Canceled)
	}},
	{"a store that lost all fills again without a rush on the first", true, func(r *run) {
		f := &faulty{Driver: r.connect()}
		reg := r.registry(f)
		a, b, c := r.instance(1), r.instance(2), r.instance(3)
		r.put(f, a, b, c)
		r.resolve(reg)
		listing := location.Listing{Version: "new/1", Known: true, Epoch: "new"}
		f.spoil(func() {
			f.list = func(context.Context, string, string) (location.Listing, error) { return listing, nil }
		})
		moved := a.Endpoint
		moved.Port = 81
		listing.Endpoints = []location.Endpoint{moved}
		s := r.resolve(reg)
		r.wantSnapshot("Resolve with one back, at another place", s, true, 1, 2, 3)
		if s.At(0).Port != 81 {
			r.Errorf("%v is where it was, want it at another place", s.At(0))
		}
		listing.Version, listing.Endpoints = "new/2", []location.Endpoint{a.Endpoint, b.Endpoint}
		r.wantSnapshot("Resolve with two back", r.resolve(reg), true, 1, 2, 3)
		listing.Version, listing.Endpoints = "new/3", []location.Endpoint{b.Endpoint}
		r.wantSnapshot("Resolve with one back and gone", r.resolve(reg), true, 2, 3)
		time.Sleep(r.ttl)
		listing.Same = true
		r.wantSnapshot("Resolve after the wait", r.resolve(reg), false, 2)
		listing = location.Listing{}
		r.wantSnapshot("Resolve after another loss", r.resolve(reg), true, 2)
		listing = location.Listing{Version: "new/4", Known: true, Epoch: "new", Emptied: true}
		_, err := reg.Resolve(r.Context(), service)
		r.wantErr("Resolve of what was emptied", err, location.ErrNoInstances)
	}},
	{"instances come back one by one after all leases ran out", true, func(r *run) {
		d := r.connect()
		reg := r.registry(nil)
		a, b, c := r.instance(1), r.instance(2), r.instance(3)
		r.put(d, a, b, c)
		r.resolve(reg)
		time.Sleep(2 * r.ttl)
		r.put(d, b)
		r.wantSnapshot("Resolve with one back", r.resolve(reg), true, 1, 2, 3)
		time.Sleep(r.ttl / 2)
		r.put(d, a, b)
		r.wantSnapshot("Resolve with two back", r.resolve(reg), true, 1, 2, 3)
		time.Sleep(r.ttl / 4)
		r.wantSnapshot("Resolve after the wait", r.resolve(reg), false, 1, 2)
	}},
	{"who was deregistered does not come back with the next", false, func(r *run) {
		d := r.connect()
		reg := r.registry(nil)
		a, b := r.instance(1), r.instance(2)
		r.put(d, a, b)
		r.resolve(reg)
		time.Sleep(20 * time.Millisecond)
		r.remove(d, a)
		r.remove(d, b)
		r.put(d, r.instance(3))
		r.wantSnapshot("Resolve", r.resolve(reg), false, 3)
	}},
	{"a successor of a single instance is alone", true, func(r *run) {
		d := r.connect()
		reg := r.registry(nil)
		r.put(d, r.instance(1))
		r.resolve(reg)
		time.Sleep(2 * r.ttl)
		r.put(d, r.instance(2))
		r.wantSnapshot("Resolve", r.resolve(reg), false, 2)
	}},
	{"the services that are remembered have a bound", false, func(r *run) {
		d := r.connect()
		f := &faulty{Driver: r.connect()}
		reg := r.registryWith(f, location.Options{MaxServices: 3})
		for i := range 10 {
			in := r.instance(i)
			in.TTL = time.Minute
			name := fmt.Sprint("service-", i)
			if err := d.Register(r.Context(), name, in, false); err != nil {
				r.Fatalf("Register error = %v", err)
			}
			time.Sleep(time.Millisecond)
			f.down(errDown)
			if _, err := reg.Resolve(r.Context(), "service-0"); err != nil && i > 0 {
				r.Errorf("Resolve of the one asked for last error = %v, want what is remembered", err)
			}
			f.down(nil)
			for _, name := range []string{"service-0", "nothing", fmt.Sprint("made-up-", i), name} {
				if _, err := reg.Resolve(r.Context(), name); err != nil && !errors.Is(err, location.ErrUnknownService) {
					r.Errorf("Resolve(%q) error = %v", name, err)
				}
			}
		}
		f.down(errDown)
		for _, name := range []string{"service-0", "service-9"} {
			if s, err := reg.Resolve(r.Context(), name); err != nil || !s.Stale() {
				r.Errorf("Resolve(%q) = %v, %v, want what is remembered", name, s, err)
			}
		}
		_, err := reg.Resolve(r.Context(), "service-1")
		r.wantErr("Resolve of what gave way", err, transparency.ErrUnavailable)
		f.down(nil)
		if n := reg.Stats().Services; n != 3 {
			r.Errorf("%d services are remembered, want 3", n)
		}
		ctx, cancel := context.WithCancel(r.Context())
		var watches []<-chan seen
		for i := range 3 {
			watches = append(watches, r.events(ctx, location.Watch(ctx, reg, fmt.Sprint("service-", i))))
			r.next("watch", watches[i], r.slack())
		}
		fourth := r.events(ctx, location.Watch(ctx, reg, "service-9"))
		r.wantErr("watch of a fourth", r.next("watch", fourth, r.slack()).err, transparency.ErrRejected)
		if _, err := reg.Resolve(r.Context(), "service-9"); err != nil {
			r.Errorf("Resolve of a fourth error = %v, want nil", err)
		}
		if s := reg.Stats(); s.Services != 3 || s.Watched != 3 {
			r.Errorf("Stats = %+v, want 3 services", s)
		}
		cancel()
		for _, w := range watches {
			r.drain(w)
		}
		if _, err := reg.Resolve(r.Context(), "service-9"); err != nil {
			r.Errorf("Resolve when nobody watches error = %v, want nil", err)
		}
	}},
	{"snapshots share nothing", false, func(r *run) {
		d := r.connect()
		in := r.instance(1)
		in.Endpoint.Meta = map[string]string{"k": "v"}
		r.put(d, in)
		in.Endpoint.Meta["k"] = "changed"
		reg := r.registry(nil)
		s := r.resolve(reg)
		s.At(0).Meta["k"] = "changed"
		for e := range s.All() {
			if e.Meta["k"] != "v" {
				r.Errorf("Meta = %v, want it as it was", e.Meta)
			}
			e.Meta["k"] = "changed"
		}
		if e := r.resolve(reg).At(0); e.Meta["k"] != "v" {
			r.Errorf("Meta of the next snapshot = %v, want it as it was", e.Meta)
		}
	}},
}
