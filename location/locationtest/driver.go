package locationtest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/location"
)

var driverChecks = []check{
	{"what is registered is listed, every field of it", false, func(r *run) {
		d, other := r.connect(), r.connect()
		in := r.instance(1)
		in.Endpoint = location.Endpoint{
			ID: "a{b}%:*", Scheme: "https", Host: "fe80::1%eth0", Port: 65535, Zone: "eu-1a",
			Priority: 7, Weight: 65535, Meta: map[string]string{"version": "1.2", "ü \" \n": "{}"},
		}
		r.put(d, in)
		l := r.list(other, service, "")
		if len(l.Endpoints) != 1 || !l.Known || l.Emptied || l.Same || l.Broken != 0 || l.Version == "" {
			r.Fatalf("List = %+v, want one endpoint", l)
		}
		got := l.Endpoints[0]
		if !maps.Equal(got.Meta, in.Endpoint.Meta) || got.Zone != in.Endpoint.Zone || got.URL().String() != in.Endpoint.URL().String() ||
			got.ID != in.Endpoint.ID || got.Priority != 7 || got.Weight != 65535 {
			r.Errorf("listed %+v %#v, want %#v", got, got, in.Endpoint)
		}
	}},
	{"registering again with the same token changes nothing", false, func(r *run) {
		d := r.connect()
		in := r.instance(1)
		r.put(d, in)
		before := r.list(d, service, "")
		r.put(d, in)
		after := r.list(d, service, before.Version)
		if !after.Same || len(after.Endpoints) != 0 {
			r.Errorf("List after the second = %+v, want the same version", after)
		}
	}},
	{"registering again with the same token renews", true, func(r *run) {
		d := r.connect()
		in := r.instance(1)
		r.put(d, in)
		time.Sleep(r.ttl * 2 / 3)
		r.put(d, in)
		time.Sleep(r.ttl * 2 / 3)
		r.wantIDs("List", r.list(d, service, "").Endpoints, 1)
	}},
	{"a changed endpoint is another version", false, func(r *run) {
		d := r.connect()
		in := r.instance(1)
		r.put(d, in)
		before := r.list(d, service, "")
		in.Endpoint.Weight = 5
		r.put(d, in)
		after := r.list(d, service, before.Version)
		if after.Same || len(after.Endpoints) != 1 || after.Endpoints[0].Weight != 5 {
			r.Errorf("List = %+v, want the new weight", after)
		}
	}},
	{"LO-3 an id that is registered is refused to another token", false, func(r *run) {
		a, b := r.connect(), r.connect()
		first, second := r.instance(1), r.instance(1)
		second.Endpoint.Port = 81
		r.put(a, first)
		r.wantErr("Register", b.Register(r.Context(), service, second, false), location.ErrInstanceConflict)
		r.wantErr("Renew", b.Renew(r.Context(), service, second), location.ErrInstanceConflict)
		if err := a.Renew(r.Context(), service, first); err != nil {
			r.Errorf("Renew of the first error = %v, want nil", err)
		}
		if l := r.list(a, service, ""); len(l.Endpoints) != 1 || l.Endpoints[0].Port != 80 {
			r.Errorf("List = %+v, want the first", l)
		}
	}},
	{"LO-3 who was taken over from changes nothing any more", false, func(r *run) {
		a, b := r.connect(), r.connect()
		first, second := r.instance(1), r.instance(1)
		second.Endpoint.Port = 81
		r.put(a, first)
		for range 2 {
			if err := b.Register(r.Context(), service, second, true); err != nil {
				r.Fatalf("Register with takeover error = %v", err)
			}
		}
		r.wantErr("Renew", a.Renew(r.Context(), service, first), location.ErrInstanceConflict)
		r.wantErr("Register", a.Register(r.Context(), service, first, false), location.ErrInstanceConflict)
		r.wantErr("Register", a.Register(r.Context(), service, first, true), location.ErrInstanceConflict)
		r.remove(a, first)
		if l := r.list(a, service, ""); len(l.Endpoints) != 1 || l.Endpoints[0].Port != 81 {
			r.Errorf("List = %+v, want the second", l)
		}
		r.remove(b, second)
		r.wantErr("Register after the second left", a.Register(r.Context(), service, first, false), location.ErrInstanceConflict)
		r.wantErr("Renew after the second left", a.Renew(r.Context(), service, first), location.ErrInstanceConflict)
	}},
	{"LO-5 a lease ends after its TTL and renewing makes none", true, func(r *run) {
		d := r.connect()
		in := r.instance(1)
		r.put(d, in)
		time.Sleep(r.ttl - time.Millisecond)
		r.wantIDs("List before the end", r.list(d, service, "").Endpoints, 1)
		time.Sleep(2 * time.Millisecond)
		l := r.list(d, service, "")
		r.wantIDs("List after the end", l.Endpoints)
		if !l.Known || l.Emptied {
			r.Errorf("List after the end = %+v, want known and not emptied", l)
		}
		r.wantErr("Renew", d.Renew(r.Context(), service, in), location.ErrLost)
		r.wantIDs("List after Renew", r.list(d, service, "").Endpoints)
		r.put(d, in) // the same token may come back
		r.wantIDs("List after Register", r.list(d, service, "").Endpoints, 1)
	}},
	{"an id whose lease has ended is free", true, func(r *run) {
		d := r.connect()
		first, second := r.instance(1), r.instance(1)
		r.put(d, first)
		time.Sleep(r.ttl + time.Millisecond)
		r.put(d, second)
		r.wantErr("Renew", d.Renew(r.Context(), service, first), location.ErrInstanceConflict)
		r.remove(d, first)
		r.wantIDs("List", r.list(d, service, "").Endpoints, 1)
	}},
	{"renewing extends", true, func(r *run) {
		d := r.connect()
		long, short := r.instance(1), r.instance(2)
		r.put(d, long)
		short.TTL = r.ttl / 6
		for range 9 {
			time.Sleep(r.ttl / 3)
			if err := d.Renew(r.Context(), service, long); err != nil {
				r.Fatalf("Renew error = %v", err)
			}
			r.put(d, short) // a shorter TTL beside it takes nothing away
		}
		time.Sleep(r.ttl - time.Millisecond)
		r.wantIDs("List", r.list(d, service, "").Endpoints, 1)
	}},
	{"renewing what there never was is lost", false, func(r *run) {
		d := r.connect()
		r.wantErr("Renew", d.Renew(r.Context(), service, r.instance(1)), location.ErrLost)
		if l := r.list(d, service, ""); l.Known {
			r.Errorf("List = %+v, want unknown", l)
		}
	}},
	{"deregistering ends the token for good", false, func(r *run) {
		d := r.connect()
		in, other := r.instance(1), r.instance(2)
		r.put(d, in, other)
		r.remove(d, in)
		r.remove(d, in)
		r.wantIDs("List", r.list(d, service, "").Endpoints, 2)
		// A call that was given up comes in late.
		r.wantErr("Register", d.Register(r.Context(), service, in, false), location.ErrInstanceConflict)
		r.wantErr("Register", d.Register(r.Context(), service, in, true), location.ErrInstanceConflict)
		r.wantErr("Renew", d.Renew(r.Context(), service, in), location.ErrInstanceConflict)
		r.wantIDs("List", r.list(d, service, "").Endpoints, 2)
		r.put(d, r.instance(1)) // another token may
		r.wantIDs("List", r.list(d, service, "").Endpoints, 1, 2)
	}},
	{"a token that was deregistered before it came in is refused", false, func(r *run) {
		d := r.connect()
		in := r.instance(1)
		r.remove(d, in)
		r.wantErr("Register", d.Register(r.Context(), service, in, false), location.ErrInstanceConflict)
		if l := r.list(d, service, ""); l.Known {
			r.Errorf("List = %+v, want unknown", l)
		}
	}},
	{"LO-8 LO-9 unknown, emptied and expired are told apart", true, func(r *run) {
		d := r.connect()
		if l := r.list(d, service, ""); l.Known || l.Emptied || l.Same || len(l.Endpoints) != 0 {
			r.Errorf("List of what nobody registered = %+v, want unknown", l)
		}
		a, b := r.instance(1), r.instance(2)
		r.put(d, a, b)
		r.remove(d, a)
		if l := r.list(d, service, ""); !l.Known || l.Emptied {
			r.Errorf("List with one left = %+v, want known and not emptied", l)
		}
		r.remove(d, b)
		if l := r.list(d, service, ""); !l.Known || !l.Emptied || len(l.Endpoints) != 0 {
			r.Errorf("List after the last left = %+v, want emptied", l)
		}
		c, e := r.instance(3), r.instance(4)
		r.put(d, c, e)
		time.Sleep(r.ttl + time.Millisecond)
		if l := r.list(d, service, ""); !l.Known || l.Emptied || len(l.Endpoints) != 0 {
			r.Errorf("List after the last expired = %+v, want known and not emptied", l)
		}
		e.TTL = r.ttl / 2
		r.put(d, c, e)
		time.Sleep(r.ttl * 3 / 4)
		r.remove(d, c)
		if l := r.list(d, service, ""); !l.Emptied {
			r.Errorf("List after a crash and an orderly end = %+v, want emptied", l)
		}
		time.Sleep(24 * time.Hour)
		if l := r.list(d, service, ""); !l.Known || !l.Emptied {
			r.Errorf("List a day later = %+v, want emptied still", l)
		}
		time.Sleep(7 * 24 * time.Hour)
		if l := r.list(d, service, ""); l.Known {
			r.Errorf("List a week later = %+v, want unknown", l)
		}
	}},
	{"versions stand for content", true, func(r *run) {
		d := r.connect()
		a, b := r.instance(1), r.instance(2)
		b.TTL = r.ttl / 2
		versions := map[string]string{}
		note := func(what string) {
			r.Helper()
			l := r.list(d, service, "")
			if other, ok := versions[l.Version]; ok {
				r.Errorf("%s has the version of %s", what, other)
			}
			versions[l.Version] = what
			if again := r.list(d, service, l.Version); !again.Same || again.Known != l.Known || again.Epoch != l.Epoch || again.Emptied != l.Emptied {
				r.Errorf("%s: List again = %+v, want the same as %+v", what, again, l)
			}
		}
		r.put(d, a)
		epoch := r.list(d, service, "").Epoch
		note("one")
		r.put(d, b)
		note("two")
		time.Sleep(r.ttl/2 + time.Millisecond)
		note("one has expired")
		r.put(d, b)
		note("it is back")
		r.remove(d, a)
		note("the other was deregistered")
		r.remove(d, b)
		note("empty")
		if l := r.list(d, service, ""); l.Epoch != epoch || epoch == "" {
			r.Errorf("epoch = %q, want %q as before", l.Epoch, epoch)
		}
	}},
	{"a return after all leases ran out is told", true, func(r *run) {
		d := r.connect()
		a, b := r.instance(1), r.instance(2)
		r.put(d, a, b)
		time.Sleep(r.ttl / 2)
		r.put(d, a)
		time.Sleep(r.ttl * 3 / 4)
		r.put(d, b)
		if l := r.list(d, service, ""); l.SinceVoid != 0 {
			r.Errorf("SinceVoid = %v where one lease lasted, want 0", l.SinceVoid)
		}
		time.Sleep(2 * r.ttl)
		r.put(d, a)
		time.Sleep(r.ttl / 2)
		r.put(d, b)
		if l := r.list(d, service, ""); l.SinceVoid < r.ttl/2-r.slack() || l.SinceVoid > r.ttl/2+r.slack() {
			r.Errorf("SinceVoid = %v, want about %v", l.SinceVoid, r.ttl/2)
		}
	}},
	{"LO-25 services with a common prefix do not mix", false, func(r *run) {
		d := r.connect()
		for i, name := range []string{"user", "user-admin", "user.admin", "use"} {
			if err := d.Register(r.Context(), name, r.instance(i), false); err != nil {
				r.Fatalf("Register error = %v", err)
			}
		}
		for i, name := range []string{"user", "user-admin", "user.admin", "use"} {
			r.wantIDs("List of "+name, r.list(d, name, "").Endpoints, i)
		}
	}},
	{"an ended context changes nothing", false, func(r *run) {
		d := r.connect()
		a, b := r.instance(1), r.instance(2)
		r.put(d, a)
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		r.wantErr("Register", d.Register(ctx, service, b, false), context.Canceled)
		r.wantErr("Renew", d.Renew(ctx, service, a), context.Canceled)
		r.wantErr("Deregister", d.Deregister(ctx, service, a), context.Canceled)
		_, err := d.List(ctx, service, "")
		r.wantErr("List", err, context.Canceled)
		r.wantIDs("List", r.list(d, service, "").Endpoints, 1)
	}},
	{"news name the service", false, func(r *run) {
		d, other := r.connect(), r.connect()
		ctx, cancel := context.WithCancel(r.Context())
		r.Cleanup(cancel)
		heard := make(chan string, 100)
		done := make(chan error, 1)
		go func() {
			done <- d.Listen(ctx, func(service string) { heard <- service })
		}()
		want := func(what, name string) {
			r.Helper()
			if got := testkit.Receive(r, what, heard); got != name {
				r.Errorf("%s: heard of %q, want %q", what, got, name)
			}
		}
		want("the beginning", "")
		in := r.instance(1)
		r.put(other, in)
		want("a registration", service)
		r.put(other, in)
		if err := other.Renew(r.Context(), service, in); err != nil {
			r.Errorf("Renew error = %v", err)
		}
		r.remove(other, in)
		want("a deregistration", service)
		cancel()
		if err := testkit.Receive(r, "the end of Listen", done); err == nil {
			r.Errorf("Listen = nil after its context ended, want why")
		}
		if len(heard) != 0 {
			r.Errorf("heard of %q, which was no change", <-heard)
		}
	}},
	{"many instances", false, func(r *run) {
		d := r.connect()
		var want []int
		for i := range 200 {
			in := r.instance(i)
			in.TTL = time.Minute
			r.put(d, in)
			want = append(want, i)
		}
		r.wantIDs("List", r.list(d, service, "").Endpoints, want...)
	}},
	{"instances do not print their tokens", false, func(r *run) {
		in := r.instance(1)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if text := fmt.Sprintf(verb, in); len(text) == 0 || strings.Contains(text, in.Token) {
				r.Errorf("%s of an instance = %s", verb, text)
			}
		}
	}},
}
