package location_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/location"
)

func newBalancer(t *testing.T, l location.Locator, opts *location.BalancerOptions) *location.Balancer {
	t.Helper()
	b := location.NewBalancer(l, opts)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func static(endpoints ...location.Endpoint) *location.Static {
	return location.NewStatic(map[string][]location.Endpoint{service: endpoints})
}

func mustPick(t *testing.T, b *location.Balancer) location.Picked {
	t.Helper()
	p, err := b.Pick(t.Context(), service)
	if err != nil {
		t.Fatalf("Pick error = %v", err)
	}
	return p
}

// shares picks n times, one call after another.
func shares(t *testing.T, b *location.Balancer, n int) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range n {
		p := mustPick(t, b)
		got[p.Endpoint().Host]++
		p.Done(nil)
	}
	return got
}

func TestBalancerWeights(t *testing.T) {
	b := newBalancer(t, static(
		location.Endpoint{Host: "a", Port: 80, Weight: 5}, location.Endpoint{Host: "b", Port: 80, Weight: 3},
		location.Endpoint{Host: "c", Port: 80}, location.Endpoint{Host: "d", Port: 80, Weight: 1},
		location.Endpoint{Host: "standby", Port: 80, Priority: 1, Weight: 1000},
	), nil)
	got := shares(t, b, 20000)
	for host, want := range map[string]int{"a": 10000, "b": 6000, "c": 2000, "d": 2000, "standby": 0} {
		if n := got[host]; n < want*9/10 || n > want*11/10 {
			t.Errorf("%s got %d of 20000, want about %d", host, n, want)
		}
	}
}

// Extreme weights leave the table of draws whole.
func TestBalancerExtremeWeights(t *testing.T) {
	var all []location.Endpoint
	for i := range 1000 {
		e := location.Endpoint{Host: fmt.Sprint("h", i), Port: 80}
		if i%10 == 0 {
			e.Weight = 65535
		}
		all = append(all, e)
	}
	got := shares(t, newBalancer(t, static(all...), nil), 20000)
	for i := range 100 {
		if host := fmt.Sprint("h", i*10); got[host] < 80 {
			t.Errorf("%s got %d of 20000, want about 200", host, got[host])
		}
	}
}

// The one with fewer calls under way is picked.
func TestBalancerLoad(t *testing.T) {
	b := newBalancer(t, static(at("a"), at("b")), nil)
	busy := map[string]int{}
	for range 100 {
		busy[mustPick(t, b).Endpoint().Host]++
	}
	if busy["a"] != 50 {
		t.Errorf("calls under way = %v, want 50 each", busy)
	}
	weighted := newBalancer(t, static(
		location.Endpoint{Host: "a", Port: 80, Weight: 3}, location.Endpoint{Host: "b", Port: 80},
	), nil)
	busy = map[string]int{}
	for range 400 {
		busy[mustPick(t, weighted).Endpoint().Host]++
	}
	if n := busy["a"]; n < 298 || n > 302 {
		t.Errorf("calls under way = %v, want 300 and 100", busy)
	}
}

// With power-of-two choices over many instances no one has much more than the
// others.
func TestBalancerManyInstances(t *testing.T) {
	var all []location.Endpoint
	for i := range 100 {
		all = append(all, at(fmt.Sprint("h", i)))
	}
	b := newBalancer(t, static(all...), nil)
	busy := map[string]int{}
	for range 10000 {
		busy[mustPick(t, b).Endpoint().Host]++
	}
	for host, n := range busy {
		if n > 106 {
			t.Errorf("%s has %d calls under way, want about 100", host, n)
		}
	}
}

// An instance that fails fast does not draw the load, and is tried again.
func TestBalancerFailures(t *testing.T) {
	b := newBalancer(t, static(at("bad"), at("good")), nil)
	refused := errors.New("connection refused")
	bad := 0
	for range 10000 {
		p := mustPick(t, b)
		if p.Endpoint().Host == "bad" {
			bad++
			p.Done(refused)
		} else {
			p.Done(nil)
		}
	}
	if bad < 8 || bad > 20 {
		t.Errorf("the failing one got %d of 10000, want a few", bad)
	}
	for range 5000 { // it has come back
		mustPick(t, b).Done(nil)
	}
	if got := shares(t, b, 1000); got["bad"] < 400 {
		t.Errorf("shares after it recovered = %v, want halves", got)
	}
	all := newBalancer(t, static(at("a"), at("b")), nil)
	got := map[string]int{}
	for range 1000 {
		p := mustPick(t, all)
		got[p.Endpoint().Host]++
		p.Done(refused)
	}
	if got["a"] < 200 || got["b"] < 200 {
		t.Errorf("shares where all fail = %v, want both tried", got)
	}
	one := newBalancer(t, static(at("a")), nil)
	for range 10 {
		mustPick(t, one).Done(refused)
	}
}

// What the caller gave up says nothing of the instance; a time limit does.
func TestBalancerOutcomes(t *testing.T) {
	for _, tt := range []struct {
		err  error
		sits bool
	}{
		{nil, false},
		{context.Canceled, false},
		{fmt.Errorf("get: %w", context.Canceled), false},
		{context.DeadlineExceeded, true},
		{errors.New("refused"), true},
	} {
		b := newBalancer(t, static(at("a"), at("b")), nil)
		p := mustPick(t, b)
		host := p.Endpoint().Host
		p.Done(tt.err)
		got := 0
		for range 8 { // no Done: calls of 8 at once would be 4 and 4
			if mustPick(t, b).Endpoint().Host == host {
				got++
			}
		}
		if want := map[bool]int{true: 0, false: 4}[tt.sits]; got != want {
			t.Errorf("after %v the instance got %d of 8, want %d", tt.err, got, want)
		}
	}
	var zero location.Picked
	zero.Done(nil)
	if zero.Addr() != "" || zero.Stale() {
		t.Errorf("the zero Picked = %v", zero)
	}
}

func TestBalancerErrors(t *testing.T) {
	l := location.NewStatic(map[string][]location.Endpoint{service: {at("a")}, "empty": nil})
	b := newBalancer(t, l, nil)
	for name, want := range map[string]error{
		"empty": location.ErrNoInstances, "unknown": location.ErrUnknownService, "a/b": transparency.ErrInvalid,
	} {
		for range 2 {
			_, err := b.Pick(t.Context(), name)
			wantErr(t, "Pick of "+name, err, want)
		}
	}
	if p, err := b.Pick(t.Context(), "User_Service"); err != nil || p.Addr() != "a:80" {
		t.Errorf("Pick in another spelling = %v, %v, want a:80", p.Addr(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Pick(ctx, service)
	wantErr(t, "Pick", err, context.Canceled)
	for range 2 {
		_ = b.Close()
	}
	_, err = b.Pick(t.Context(), service)
	wantErr(t, "Pick", err, location.ErrClosed)
	_, err = newBalancer(t, nil, nil).Pick(t.Context(), service)
	wantErr(t, "Pick of no locator", err, transparency.ErrInvalid)
	_, err = newBalancer(t, l, &location.BalancerOptions{MaxServices: -1}).Pick(t.Context(), service)
	wantErr(t, "Pick with bad options", err, transparency.ErrInvalid)
}

// The Balancer follows its service, keeps what it knows of an instance, and
// says what is stale.
func TestBalancerFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := location.NewMemoryDriver()
		r := location.NewRegistry(d, &location.Options{MaxStale: time.Minute})
		defer r.Close()
		b := location.NewBalancer(r, nil)
		defer b.Close()
		_, err := b.Pick(t.Context(), service)
		wantErr(t, "Pick", err, location.ErrUnknownService)
		if n := r.Stats().Watched; n != 0 {
			t.Errorf("%d services are watched, want none: it is unknown", n)
		}
		g := mustRegister(t, r, at("a"))
		busy := mustPick(t, b)
		h := mustRegister(t, r, at("b"))
		time.Sleep(time.Second)
		if p := mustPick(t, b); p.Addr() != "b:80" || p.Stale() {
			t.Errorf("Pick = %v, want b: a has a call under way", p.Addr())
		}
		busy.Done(nil)
		if err := g.Deregister(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if got := shares(t, b, 10); got["b"] != 10 {
			t.Errorf("shares = %v, want b alone", got)
		}
		d.Clear() // and nobody comes back
		if err := h.Deregister(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		if p := mustPick(t, b); p.Addr() != "b:80" || !p.Stale() {
			t.Errorf("Pick = %v, stale %v, want the last that was known", p.Addr(), p.Stale())
		}
		time.Sleep(2 * time.Minute)
		_, err = b.Pick(t.Context(), service)
		wantErr(t, "Pick after MaxStale", err, location.ErrUnknownService)
		mustRegister(t, r, at("c"))
		if p := mustPick(t, b); p.Addr() != "c:80" {
			t.Errorf("Pick = %v, want c", p.Addr())
		}
	})
}

// A first Pick waits no longer than its context lasts.
func TestBalancerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := location.NewBalancer(hanging{}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.Pick(ctx, service)
		wantErr(t, "Pick", err, context.DeadlineExceeded, transparency.ErrUnavailable)
		go func() {
			time.Sleep(time.Second)
			b.Close()
		}()
		_, err = b.Pick(t.Context(), service)
		wantErr(t, "Pick", err, location.ErrClosed)
	})
}

type hanging struct{}

func (hanging) Resolve(ctx context.Context, _ string) (location.Snapshot, error) {
	<-ctx.Done()
	return location.Snapshot{}, ctx.Err()
}

func TestBalancerBound(t *testing.T) {
	services := map[string][]location.Endpoint{}
	for i := range 20 {
		services[fmt.Sprint("s", i)] = []location.Endpoint{at(fmt.Sprint("h", i))}
	}
	r := location.NewMemory(nil)
	defer r.Close()
	for i := range 20 {
		if _, err := r.Register(t.Context(), fmt.Sprint("s", i), at(fmt.Sprint("h", i))); err != nil {
			t.Fatal(err)
		}
	}
	c := &counting{Registry: r}
	b := newBalancer(t, c, &location.BalancerOptions{MaxServices: 4})
	for round := range 3 {
		for i := range 20 {
			if p, err := b.Pick(t.Context(), fmt.Sprint("s", i)); err != nil || p.Endpoint().Host != fmt.Sprint("h", i) {
				t.Errorf("round %d: Pick of s%d = %v, %v", round, i, p.Addr(), err)
			}
			if _, err := b.Pick(t.Context(), "s0"); err != nil { // in use all along
				t.Error(err)
			}
		}
	}
	if n := c.watches.Load(); n > 3 {
		t.Errorf("the service in use was watched %d times anew, want it to stay", n)
	}
	eventually(t, "4 are watched", testkit.Limit, func() bool { return r.Stats().Watched == 4 })
}

// counting counts the watches of s0.
type counting struct {
	*location.Registry
	watches atomic.Int32
}

func (c *counting) Watch(ctx context.Context, service string) iter.Seq2[location.Snapshot, error] {
	if service == "s0" {
		c.watches.Add(1)
	}
	return c.Registry.Watch(ctx, service)
}

// The fast path: nothing is allocated.
func TestBalancerAllocations(t *testing.T) {
	b := newBalancer(t, static(at("a"), at("b"), at("c")), nil)
	mustPick(t, b).Done(nil)
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		p, err := b.Pick(ctx, service)
		if err != nil || p.Addr() == "" {
			t.Fatal(err)
		}
		p.Done(nil)
	}); n != 0 {
		t.Errorf("Pick and Done allocate %v times, want never", n)
	}
}

func TestBalancerConcurrently(t *testing.T) {
	r := location.NewMemory(nil)
	defer r.Close()
	mustRegister(t, r, at("a"))
	b := newBalancer(t, r, nil)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 500 {
				p, err := b.Pick(t.Context(), service)
				if err != nil {
					t.Errorf("Pick error = %v", err)
					return
				}
				p.Done(map[bool]error{true: errors.New("failed")}[j%7 == 0])
			}
		})
		wg.Go(func() {
			g := mustRegister(t, r, at(fmt.Sprint("h", i)))
			_ = g.Deregister(t.Context())
		})
	}
	wg.Wait()
}

func BenchmarkPick(b *testing.B) {
	var all []location.Endpoint
	for i := range 10 {
		all = append(all, at(fmt.Sprint("h", i)))
	}
	lb := location.NewBalancer(static(all...), nil)
	defer lb.Close()
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		p, err := lb.Pick(ctx, service)
		if err != nil {
			b.Fatal(err)
		}
		p.Done(nil)
	}
}
