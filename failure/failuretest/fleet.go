package failuretest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// instance starts a process: a breaker over a connection of its own.
func (r *run) instance(d failure.Driver) *failure.SharedBreaker {
	b := failure.NewSharedBreaker(d, &failure.SharedOptions{Breaker: r.options(), Poll: r.unit, Timeout: 10 * r.unit})
	r.Cleanup(func() { _ = b.Close() })
	return b
}

// fleet starts n processes that have heard of each other.
func (r *run) fleet(n int, connect func() failure.Driver) []*failure.SharedBreaker {
	r.Helper()
	fleet := make([]*failure.SharedBreaker, n)
	for i := range fleet {
		fleet[i] = r.instance(connect())
		r.succeed(fleet[i], 1)
	}
	r.eventually("all have been heard of", 30*r.unit+r.slack(), func() bool {
		return count(fleet, func(b *failure.SharedBreaker) bool { return b.Stats().Live == n }) == n
	})
	return fleet
}

func count(fleet []*failure.SharedBreaker, f func(*failure.SharedBreaker) bool) int {
	n := 0
	for _, b := range fleet {
		if f(b) {
			n++
		}
	}
	return n
}

func open(b *failure.SharedBreaker) bool   { return b.State() == failure.StateOpen }
func closed(b *failure.SharedBreaker) bool { return b.State() == failure.StateClosed }

// opens opens the fleet by the failures of two.
func (r *run) opens(fleet []*failure.SharedBreaker, within time.Duration) {
	r.Helper()
	r.fail(fleet[0], 3)
	r.fail(fleet[1], 3)
	r.eventually("all are open", within, func() bool { return count(fleet, open) == len(fleet) })
}

var fleetChecks = []check{
	{name: "FA-11 one with a broken network opens alone", fn: func(r *run) {
		fleet := r.fleet(20, r.connect)
		r.fail(fleet[0], 3)
		r.eventually("its vote is heard of", 3*r.unit+r.slack(), func() bool { return fleet[1].Stats().Votes == 1 })
		time.Sleep(2 * r.unit)
		r.refused(fleet[0])
		if n := count(fleet[1:], closed); n != 19 {
			r.Errorf("%d of the others are closed, want 19", n)
		}
		for _, b := range fleet[1:] {
			r.succeed(b, 1)
		}
	}},
	{name: "FA-11 a quorum opens all", fn: func(r *run) {
		fleet := r.fleet(5, r.connect)
		r.opens(fleet, r.slack())
		for _, b := range fleet {
			if wait := r.refused(b); wait <= 0 || wait > 5*r.unit {
				r.Errorf("asked to wait for %v, want up to %v", wait, 5*r.unit)
			}
		}
	}},
	{name: "FA-11 a quorum opens all though no news is heard", fn: func(r *run) {
		fleet := r.fleet(5, func() failure.Driver {
			return &faulty{Driver: r.connect(), listen: func(ctx context.Context, _ string, _ func()) error {
				<-ctx.Done()
				return ctx.Err()
			}}
		})
		r.opens(fleet, r.unit+r.slack())
	}},
	{name: "FA-12 one of the fleet probes, and a good probe closes all", fn: func(r *run) {
		fleet := r.fleet(5, r.connect)
		r.opens(fleet, r.slack())
		r.over()
		prober, permit := r.prober(fleet, 2*r.unit+r.slack())
		for range 20 {
			for i, b := range fleet {
				if made, _ := r.call(b, nil); made {
					r.Fatalf("instance %d made a call while %d probed", i, prober)
				}
			}
			time.Sleep(r.unit / 20)
		}
		permit.Done(nil)
		r.eventually("all are closed", r.unit+r.slack(), func() bool { return count(fleet, closed) == len(fleet) })
		for _, b := range fleet {
			r.succeed(b, 1)
		}
	}},
	{name: "FA-12 a failed probe opens all for longer", fn: func(r *run) {
		fleet := r.fleet(5, r.connect)
		r.opens(fleet, r.slack())
		r.over()
		_, permit := r.prober(fleet, 2*r.unit+r.slack())
		permit.Done(errBoom)
		time.Sleep(r.unit + r.slack())
		for i, b := range fleet {
			if wait := r.refused(b) + r.unit + r.slack(); wait <= 8*r.unit || wait > 10*r.unit+r.slack() {
				r.Errorf("instance %d asks to wait for %v in all, want %v", i, wait, 10*r.unit)
			}
		}
	}},
	{name: "FA-12 a prober that is gone is followed by another", fn: func(r *run) {
		fleet := r.fleet(3, r.connect)
		r.opens(fleet, r.slack())
		r.over()
		prober, lost := r.prober(fleet, 2*r.unit+r.slack())
		_ = fleet[prober].Close() // its process is killed
		rest := append(append([]*failure.SharedBreaker{}, fleet[:prober]...), fleet[prober+1:]...)
		start := time.Now()
		_, permit := r.prober(rest, 5*r.unit+r.slack())
		if took := time.Since(start); took < 3*r.unit-r.slack() {
			r.Errorf("another probed after %v, while the first could", took)
		}
		lost.Done(errBoom)
		permit.Done(nil)
		r.eventually("the rest are closed", r.unit+r.slack(), func() bool { return count(rest, closed) == len(rest) })
	}},
	{name: "FA-13 the open time ends for all at once", fn: func(r *run) {
		fleet := r.fleet(5, r.connect)
		r.opens(fleet, r.slack())
		time.Sleep(r.unit) // all have polled since
		least, most := 5*r.unit, time.Duration(0)
		for _, b := range fleet {
			wait := r.refused(b)
			least, most = min(least, wait), max(most, wait)
		}
		if most-least > r.slack() {
			r.Errorf("asked to wait for %v to %v, want the same end for all", least, most)
		}
	}},
	{name: "by hand it is this instance's alone", fn: func(r *run) {
		fleet := r.fleet(3, r.connect)
		fleet[2].ForceOpen()
		r.opens(fleet[:2], r.slack())
		time.Sleep(2 * r.unit)
		r.state(fleet[2], failure.StateForced)
		fleet[2].Disable()
		time.Sleep(2 * r.unit)
		r.succeed(fleet[2], 10)
		fleet[2].Reset()
		r.eventually("it is open with the others", r.unit+r.slack(), func() bool { return open(fleet[2]) })
	}},
	{name: "after Close it is alone", fn: func(r *run) {
		fleet := r.fleet(3, r.connect)
		r.opens(fleet, r.slack())
		for range 2 {
			if err := fleet[0].Close(); err != nil {
				r.Errorf("Close error = %v", err)
			}
		}
		r.refused(fleet[0])
		r.over()
		r.succeed(fleet[0], 1)
		r.state(fleet[0], failure.StateClosed)
	}},
}

// prober waits until one of the fleet may probe.
func (r *run) prober(fleet []*failure.SharedBreaker, within time.Duration) (int, failure.Permit) {
	r.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for i, b := range fleet {
			if p, err := b.Allow(r.Context()); err == nil {
				return i, p
			}
		}
	}
	r.Fatalf("nobody may probe within %v", within)
	return 0, nil
}

// A faulty driver passes on to another what it is not told to spoil.
type faulty struct {
	failure.Driver
	mu       sync.Mutex // guards exchange
	exchange func(ctx context.Context, name string, r failure.Report) (failure.View, error)
	listen   func(ctx context.Context, name string, wake func()) error
}

func (f *faulty) Exchange(ctx context.Context, name string, r failure.Report) (failure.View, error) {
	f.mu.Lock()
	exchange := f.exchange
	f.mu.Unlock()
	if exchange == nil {
		exchange = f.Driver.Exchange
	}
	return exchange(ctx, name, r)
}

func (f *faulty) Listen(ctx context.Context, name string, wake func()) error {
	if f.listen != nil {
		return f.listen(ctx, name, wake)
	}
	return f.Driver.Listen(ctx, name, wake)
}

// spoil makes the driver act otherwise from now on; nil mends it.
func (f *faulty) spoil(exchange func(ctx context.Context, name string, r failure.Report) (failure.View, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.exchange = exchange
}

var errStore = transparency.ErrUnavailable

func refuse(context.Context, string, failure.Report) (failure.View, error) {
	return failure.View{}, errStore
}

// deaf connects a process whose exchange can be spoiled.
func (r *run) deaf() *faulty { return &faulty{Driver: r.connect()} }

var faultChecks = []check{
	{name: "FA-10 a store that hangs or errs is nobody's trouble", fn: func(r *run) {
		for _, hang := range []bool{true, false} {
			f := r.deaf()
			release := make(chan struct{})
			f.spoil(func(ctx context.Context, name string, rep failure.Report) (failure.View, error) {
				if hang {
					<-release
				}
				return failure.View{}, errStore
			})
			b := r.instance(f)
			start := time.Now()
			r.succeed(b, 100)
			r.fail(b, 3)
			for range 100 {
				r.refused(b)
			}
			if took := time.Since(start); took > r.slack() {
				r.Errorf("203 calls took %v", took)
			}
			r.over()
			r.probe(b, r.slack()).Done(nil)
			r.state(b, failure.StateClosed)
			close(release)
		}
	}},
	{name: "FA-10 a fleet whose store is lost while open probes one by one", fn: func(r *run) {
		a := r.deaf()
		fleet := []*failure.SharedBreaker{r.instance(a), r.instance(r.connect()), r.instance(r.connect())}
		r.succeed(fleet[2], 1)
		r.opens(fleet, 2*r.unit+r.slack())
		a.spoil(refuse)
		r.over()
		p := r.probe(fleet[0], r.unit+r.slack())
		p.Done(nil)
		r.state(fleet[0], failure.StateClosed)
		r.succeed(fleet[0], 5)
		// It hears again, and that the fleet is open: the other has not probed.
		a.spoil(nil)
		r.eventually("it is open with the others", 12*r.unit+10*time.Second, func() bool { return open(fleet[0]) })
		r.probe(fleet[1], 6*r.unit).Done(nil)
		r.eventually("all are closed", r.unit+r.slack(), func() bool { return count(fleet, closed) == 3 })
	}},
	{name: "FA-10 a store that forgets keeps nobody open, and closes nobody early", fn: func(r *run) {
		f := r.deaf()
		fleet := []*failure.SharedBreaker{r.instance(f), r.instance(r.connect()), r.instance(r.connect())}
		r.succeed(fleet[2], 1)
		r.opens(fleet, 2*r.unit+r.slack())
		f.spoil(func(context.Context, string, failure.Report) (failure.View, error) { return failure.View{Live: 1}, nil })
		time.Sleep(2 * r.unit)
		r.refused(fleet[0])
		r.over()
		r.probe(fleet[0], r.slack()).Done(nil)
		r.state(fleet[0], failure.StateClosed)
	}},
	{name: "FA-12 what comes twice, late or out of order changes nothing", fakeTime: true, fn: func(r *run) {
		f := r.deaf()
		var past []failure.View
		f.spoil(func(ctx context.Context, name string, rep failure.Report) (failure.View, error) {
			v, err := f.Driver.Exchange(ctx, name, rep)
			past = append(past, v)
			return v, err
		})
		fleet := []*failure.SharedBreaker{r.instance(f), r.instance(r.connect()), r.instance(r.connect())}
		r.succeed(fleet[2], 1)
		r.opens(fleet, 2*r.unit)
		r.over()
		_, p := r.prober(fleet, 6*r.unit)
		p.Done(nil)
		r.eventually("all are closed", 2*r.unit, func() bool { return count(fleet, closed) == 3 })
		i := 0
		f.spoil(func(context.Context, string, failure.Report) (failure.View, error) {
			i++
			return past[i%(len(past)-1)], nil
		})
		for range 50 {
			fleet[0].Reset() // so that it asks
			time.Sleep(time.Millisecond)
			r.succeed(fleet[0], 1)
		}
	}},
	{name: "errors of the store are not told to callers", fn: func(r *run) {
		f := r.deaf()
		f.spoil(refuse)
		b := r.instance(f)
		r.succeed(b, 1)
		r.eventually("it is missed", 2*r.unit+r.slack(), func() bool { return b.Stats().Missed > 0 })
		if _, err := r.call(b, errBoom); !errors.Is(err, errBoom) || errors.Is(err, errStore) {
			r.Errorf("Call error = %v, want the call's own", err)
		}
		r.fail(b, 2)
		if _, err := r.call(b, nil); errors.Is(err, errStore) {
			r.Errorf("Call error = %v, want nothing of the store", err)
		}
	}},
	{name: "a call sends nothing", fakeTime: true, fn: func(r *run) {
		f := r.deaf()
		var sent atomic.Int64
		f.spoil(func(ctx context.Context, name string, rep failure.Report) (failure.View, error) {
			sent.Add(1)
			return f.Driver.Exchange(ctx, name, rep)
		})
		b := r.instance(f)
		r.succeed(b, 1)
		time.Sleep(r.unit / 2)
		before := sent.Load()
		r.succeed(b, 10_000)
		if n := sent.Load() - before; n != 0 {
			r.Errorf("10,000 calls made %d exchanges, want none", n)
		}
	}},
}
