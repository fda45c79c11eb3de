package locationtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/location"
)

// What becomes of registrations when the store or their process stands still.
var outageChecks = []check{
	{"LO-1 after an outage of any length the instance is back by itself", true, func(r *run) {
		f := &faulty{Driver: r.connect()}
		reg := r.registry(f)
		g := r.register(reg, 1)
		other := r.registry(nil)
		ch := r.changes(g)
		r.wantChange(ch, r.slack(), location.StateRegistered)
		for _, outage := range []time.Duration{2 * r.ttl, 20 * r.ttl, 1000 * r.ttl} {
			f.down(errDown)
			began := time.Now()
			c := r.wantChange(ch, r.ttl+r.slack(), location.StateLost, location.ErrLost, transparency.ErrUnavailable)
			if took := c.At.Sub(began); took < r.ttl/2 {
				r.Errorf("lost after %v, which the lease outlasts", took)
			}
			r.wantErr("Err", g.Err(), location.ErrLost)
			if s := reg.Stats(); s.Lost != 1 || s.RenewalsFailed == 0 {
				r.Errorf("Stats = %+v, want one lost", s)
			}
			time.Sleep(outage)
			if _, err := other.Resolve(r.Context(), service); err == nil && !r.resolve(other).Stale() {
				r.Errorf("Resolve in the outage is not stale")
			}
			f.down(nil)
			r.wantChange(ch, 2*r.ttl/3, location.StateRegistered)
			r.wantSnapshot("Resolve", r.resolve(other), false, 1)
		}
		if err := g.Err(); err != nil {
			r.Errorf("Err = %v, want nil", err)
		}
	}},
	{"LO-1 a store that forgot is told again", true, func(r *run) {
		d := r.connect()
		f := &faulty{Driver: d}
		g := r.register(r.registry(f), 1)
		ch := r.changes(g)
		r.wantChange(ch, r.slack(), location.StateRegistered)
		lost := false
		f.spoil(func() {
			f.renew = func(ctx context.Context, name string, in location.Instance) error {
				if !lost {
					lost = true
					return location.ErrLost
				}
				return d.Renew(ctx, name, in)
			}
		})
		r.wantChange(ch, r.ttl, location.StateLost, location.ErrLost)
		r.wantChange(ch, r.slack(), location.StateRegistered)
		time.Sleep(5 * r.ttl)
		r.wantSnapshot("Resolve", r.resolve(r.registry(nil)), false, 1)
	}},
	{"trouble shorter than the TTL is survived", true, func(r *run) {
		f := &faulty{Driver: r.connect()}
		g := r.register(r.registry(f), 1)
		for range 5 {
			f.down(errDown)
			time.Sleep(r.ttl / 3)
			f.down(nil)
			time.Sleep(r.ttl)
		}
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		for c := range g.Changes(ctx) {
			r.Errorf("change %v after the context ended", c)
		}
		n := 0
		ch := r.changes(g)
		r.wantChange(ch, r.slack(), location.StateRegistered)
		for len(ch) > 0 {
			n++
			<-ch
		}
		if n > 0 || g.State() != location.StateRegistered {
			r.Errorf("%d changes, state %v, want registered all along", n, g.State())
		}
	}},
	{"LO-2 who slept through its lease registers again under the same id", true, func(r *run) {
		d := r.connect()
		f := &faulty{Driver: d}
		g := r.register(r.registry(f), 1)
		ch := r.changes(g)
		r.wantChange(ch, r.slack(), location.StateRegistered)
		awake := make(chan struct{})
		f.spoil(func() {
			f.renew = func(ctx context.Context, name string, in location.Instance) error {
				<-awake // the process stands still
				return d.Renew(r.Context(), name, in)
			}
		})
		time.Sleep(3 * r.ttl)
		f.down(nil)
		close(awake)
		r.wantChange(ch, r.slack(), location.StateLost, location.ErrLost)
		r.wantChange(ch, r.ttl, location.StateRegistered)
		r.wantIDs("List", r.list(d, service, "").Endpoints, 1)
	}},
	{"LO-13 heartbeats and returns are spread", true, func(r *run) {
		const instances = 1000
		interval := r.ttl / 3
		d := location.NewMemoryDriver() // it is the engine that is looked at
		f := &faulty{Driver: d}
		reg := r.registry(f)
		for i := range instances {
			if _, err := reg.Register(r.Context(), service, location.Endpoint{ID: fmt.Sprint(i), Host: fmt.Sprintf("h%d", i), Port: 80}); err != nil {
				r.Fatalf("Register error = %v", err)
			}
		}
		var mu sync.Mutex
		var buckets [10]int
		var start time.Time
		note := func() {
			mu.Lock()
			defer mu.Unlock()
			if b := int(time.Since(start) * 10 / interval); b < 10 {
				buckets[b]++
			}
		}
		begin := func(change func()) {
			mu.Lock()
			start, buckets = time.Now(), [10]int{}
			mu.Unlock()
			f.spoil(change)
			time.Sleep(interval)
		}
		check := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			sum, most := 0, 0
			for _, n := range buckets {
				sum, most = sum+n, max(most, n)
			}
			if sum < instances*8/10 || most*10*2 > 3*sum {
				r.Errorf("%s: %v, want them spread", what, buckets)
			}
		}
		begin(func() {
			f.renew = func(ctx context.Context, name string, in location.Instance) error {
				note()
				return d.Renew(ctx, name, in)
			}
		})
		check("the first heartbeats")
		f.down(errDown)
		time.Sleep(10 * r.ttl)
		begin(func() {
			f.renew, f.list, f.deregister = nil, nil, nil
			f.register = func(ctx context.Context, name string, in location.Instance, takeover bool) error {
				note()
				return d.Register(ctx, name, in, takeover)
			}
		})
		check("returns after an outage")
	}},
}
