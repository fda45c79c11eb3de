package locationtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/location"
)

// changes follows the changes of a registration in the background. The channel
// is closed when they end.
func (r *run) changes(g *location.Registration) <-chan location.Change {
	ch := make(chan location.Change, 100)
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan struct{})
	r.Cleanup(func() {
		cancel()
		testkit.Receive(r, "the end of the changes", done)
	})
	go func() {
		defer close(done)
		defer close(ch)
		for c := range g.Changes(ctx) {
			ch <- c
		}
	}()
	return ch
}

func (r *run) wantChange(ch <-chan location.Change, within time.Duration, want location.State, why ...error) location.Change {
	r.Helper()
	select {
	case c := <-ch:
		if c.State != want || (c.Err == nil) != (want == location.StateRegistered) {
			r.Errorf("change = %v, %v, want %v", c.State, c.Err, want)
		}
		r.wantErr("change", c.Err, why...)
		return c
	case <-time.After(within):
		r.Fatalf("no change to %v within %v", want, within)
	}
	return location.Change{}
}

var registrationChecks = []check{
	{"a registration outlives its TTL", true, func(r *run) {
		g := r.register(r.registry(nil), 1)
		other := r.registry(nil)
		for range 50 {
			time.Sleep(r.ttl / 5)
			r.wantSnapshot("Resolve", r.resolve(other), false, 1)
		}
		if g.State() != location.StateRegistered || g.Err() != nil || g.Service() != service || g.Endpoint().ID != at(1).ID {
			r.Errorf("registration = %v, %v, want it registered", g, g.Err())
		}
	}},
	{"an instance without an id is given one", false, func(r *run) {
		reg := r.registry(nil)
		ids := map[string]bool{}
		for i := range 3 {
			ep := at(i)
			ep.ID = ""
			g, err := reg.Register(r.Context(), service, ep)
			if err != nil {
				r.Fatalf("Register error = %v", err)
			}
			ids[g.Endpoint().ID] = true
		}
		if len(ids) != 3 || ids[""] {
			r.Errorf("ids = %v, want three", ids)
		}
	}},
	{"LO-14 an endpoint that cannot be one is refused", false, func(r *run) {
		reg := r.registry(nil)
		for _, bad := range []location.Endpoint{
			{}, {Host: "h"}, {Port: 80}, {Host: "h:80", Port: 80}, {Host: "[::1]", Port: 80}, {Host: "0.0.0.0", Port: 80},
			{Host: "256.1.1.1", Port: 80}, {Host: "h", Port: 80, Scheme: "1"}, {Host: "u:hush@h", Port: 80},
			{Host: "h", Port: 80, ID: "a b"}, {Host: "h", Port: 80, Zone: "\x00"}, {Host: "h", Port: 80, Meta: map[string]string{"a": "\xff"}},
		} {
			_, err := reg.Register(r.Context(), service, bad)
			r.wantErr(fmt.Sprintf("Register(%v)", bad), err, transparency.ErrInvalid)
		}
		if _, err := reg.Resolve(r.Context(), service); !errors.Is(err, location.ErrUnknownService) {
			r.Errorf("Resolve error = %v, want unknown", err)
		}
	}},
	{"Register waits for the registry as long as its context lasts", true, func(r *run) {
		f := &faulty{Driver: r.connect()}
		f.down(errDown)
		reg := r.registry(f)
		ctx, cancel := context.WithTimeout(r.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		_, err := reg.Register(ctx, service, at(1))
		r.wantErr("Register", err, context.DeadlineExceeded, transparency.ErrUnavailable)
		if took := time.Since(start); took != time.Hour {
			r.Errorf("Register took %v, want an hour", took)
		}
		time.AfterFunc(time.Minute, func() { f.down(nil) })
		if _, err := reg.Register(r.Context(), service, at(1)); err != nil {
			r.Errorf("Register error = %v, want nil", err)
		}
		r.wantSnapshot("Resolve", r.resolve(reg), false, 1)
		denied := fmt.Errorf("%w: NOAUTH", transparency.ErrDenied)
		f.down(denied)
		_, err = reg.Register(r.Context(), service, at(2))
		r.wantErr("Register", err, transparency.ErrDenied)
	}},
	{"what a registration that was given up leaves is undone", true, func(r *run) {
		d := r.connect()
		f := &faulty{Driver: d}
		f.spoil(func() {
			f.register = func(ctx context.Context, name string, in location.Instance, takeover bool) error {
				err := d.Register(r.Context(), name, in, takeover) // executed, and not answered
				<-ctx.Done()
				return fmt.Errorf("%w: %w", transparency.ErrUncertain, errors.Join(err, ctx.Err()))
			}
		})
		reg := r.registry(f)
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		_, err := reg.Register(ctx, service, at(1))
		r.wantErr("Register", err, context.DeadlineExceeded, transparency.ErrUncertain)
		r.eventually("it is gone", r.slack(), func() bool { return len(r.list(d, service, "").Endpoints) == 0 })
	}},
	{"LO-28 WaitVisible returns when the instance can be seen", true, func(r *run) {
		f := &faulty{Driver: r.connect()}
		reg := r.registry(f)
		g := r.register(reg, 1)
		if err := g.WaitVisible(r.Context()); err != nil {
			r.Errorf("WaitVisible error = %v, want nil", err)
		}
		hidden := r.list(f, service, "")
		hidden.Version, hidden.Endpoints = "hidden", nil
		f.spoil(func() {
			f.list = func(context.Context, string, string) (location.Listing, error) { return hidden, nil }
		})
		time.AfterFunc(time.Minute, func() { f.down(nil) })
		start := time.Now()
		h := r.register(reg, 2)
		if err := h.WaitVisible(r.Context()); err != nil {
			r.Errorf("WaitVisible error = %v, want nil", err)
		}
		if took := time.Since(start); took < time.Minute || took > time.Minute+2*r.poll {
			r.Errorf("WaitVisible took %v, want about a minute", took)
		}
		f.down(errDown)
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		time.Sleep(2 * r.ttl)
		r.wantErr("WaitVisible", h.WaitVisible(ctx), context.DeadlineExceeded)
		time.AfterFunc(time.Second, func() { _ = h.Deregister(r.Context()) })
		r.wantErr("WaitVisible", h.WaitVisible(r.Context()), location.ErrDeregistered)
	}},
	{"Deregister takes only its own, once and for all", false, func(r *run) {
		d := r.connect()
		reg := r.registry(nil)
		g, h := r.register(reg, 1), r.register(reg, 2)
		ch := r.changes(g)
		r.wantChange(ch, r.slack(), location.StateRegistered)
		for range 2 {
			if err := g.Deregister(r.Context()); err != nil {
				r.Errorf("Deregister error = %v, want nil", err)
			}
		}
		r.wantChange(ch, r.slack(), location.StateDeregistered, location.ErrDeregistered)
		r.wantIDs("List", r.list(d, service, "").Endpoints, 2)
		if err := h.Err(); err != nil {
			r.Errorf("Err of the other = %v, want nil", err)
		}
		if n := reg.Stats().Registrations; n != 1 {
			r.Errorf("%d registrations are kept, want 1", n)
		}
	}},
	{"LO-27 Deregister does not wait for a registry that is down", true, func(r *run) {
		d := r.connect()
		f := &faulty{Driver: d}
		reg := r.registry(f)
		g, h := r.register(reg, 1), r.register(reg, 2)
		f.down(errDown)
		start := time.Now()
		r.wantErr("Deregister", g.Deregister(r.Context()), transparency.ErrUnavailable)
		if took := time.Since(start); took > r.slack() {
			r.Errorf("Deregister took %v", took)
		}
		r.wantErr("Err", g.Err(), location.ErrDeregistered)
		f.down(nil)
		r.eventually("it is tried again", r.ttl/2, func() bool { return len(r.list(d, service, "").Endpoints) == 1 })
		if err := g.Deregister(r.Context()); err != nil {
			r.Errorf("Deregister again error = %v, want nil", err)
		}
		f.down(errDown)
		_ = h.Deregister(r.Context())
		time.Sleep(r.ttl)
		r.wantIDs("List after the TTL", r.list(d, service, "").Endpoints)
		r.eventually("nobody tries any more", r.ttl, func() bool { return reg.Stats().Undoing == 0 })
		_ = r.register(r.registry(d), 3)
	}},
	{"registrations do not print their tokens", false, func(r *run) {
		f := &faulty{Driver: r.connect()}
		var token string
		f.spoil(func() {
			f.register = func(ctx context.Context, name string, in location.Instance, takeover bool) error {
				token = in.Token
				return f.Driver.Register(ctx, name, in, takeover)
			}
		})
		reg := r.registry(f)
		g := r.register(reg, 1)
		for _, v := range []any{g, reg, struct{ g *location.Registration }{g}, []any{g, reg}} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				if text := fmt.Sprintf(verb, v); strings.Contains(text, token) {
					r.Errorf("%s printed the token: %s", verb, text)
				}
			}
		}
	}},
}
