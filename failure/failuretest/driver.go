package failuretest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency/failure"
)

const name = "payments"

var driverChecks = append(append([]check{
	{name: "a store that knows nothing", fn: func(r *run) {
		v := r.exchange(r.connect(), r.report("a"))
		if want := (failure.View{Live: 1}); v != want {
			r.Errorf("Exchange = %+v, want %+v", v, want)
		}
	}},
	{name: "a quorum of votes opens it", fn: func(r *run) {
		d, e := r.connect(), r.connect()
		r.vote(d, "a", 1)
		r.vote(d, "a", 1) // one instance has one vote
		v := r.exchange(e, r.voting("b"))
		if !v.Open || v.Gen == 0 || v.Votes != 0 || v.Live != 2 {
			r.Errorf("Exchange of the second vote = %+v, want open, the votes used", v)
		}
		if v.Remaining <= 4*r.unit || v.Remaining > 5*r.unit {
			r.Errorf("open for %v, want up to %v", v.Remaining, 5*r.unit)
		}
		again := r.exchange(d, r.voting("a"))
		if !again.Open || again.Gen != v.Gen || again.Votes != 1 {
			r.Errorf("Exchange of a vote while open = %+v, want the same generation, %d", again, v.Gen)
		}
	}},
	{name: "the quorum is a share of the living", fn: func(r *run) {
		d := r.connect()
		for i := range 10 {
			r.exchange(d, r.report(fmt.Sprint("live", i)))
		}
		for i := range 4 {
			rep := r.voting(fmt.Sprint("live", i))
			rep.QuorumRatio = 0.5
			if v := r.exchange(d, rep); v.Open || v.Votes != i+1 || v.Live != 10 {
				r.Fatalf("Exchange of vote %d of 10 = %+v, want it closed", i+1, v)
			}
		}
		rep := r.voting("live9")
		rep.QuorumRatio = 0.5
		if v := r.exchange(d, rep); !v.Open {
			r.Errorf("Exchange of vote 5 of 10 = %+v, want it open", v)
		}
	}},
	{name: "votes are withdrawn and expire", fn: func(r *run) {
		d := r.connect()
		r.vote(d, "a", 1)
		if v := r.exchange(d, r.report("a")); v.Votes != 0 {
			r.Errorf("Exchange without a vote leaves %d votes", v.Votes)
		}
		r.vote(d, "a", 1)
		time.Sleep(r.report("").TTL + r.slack())
		if v := r.exchange(d, r.voting("b")); v.Open || v.Votes != 1 || v.Live != 1 {
			r.Errorf("Exchange after another's TTL = %+v, want one vote of one instance", v)
		}
	}},
	{name: "FA-12 one probes, after the open time, for a time", fn: func(r *run) {
		d, e := r.connect(), r.connect()
		gen := r.opened(d)
		if v := r.exchange(d, r.probing("a", gen)); v.Granted || v.Probing != 0 {
			r.Fatalf("Exchange within the open time = %+v, want nothing granted", v)
		}
		r.over()
		if v := r.exchange(d, r.probing("a", gen-1)); v.Granted || v.Remaining != 0 {
			r.Errorf("Exchange about another generation = %+v, want nothing granted", v)
		}
		v := r.exchange(d, r.probing("a", gen))
		if !v.Granted || v.Probing <= 3*r.unit || v.Probing > 4*r.unit {
			r.Errorf("Exchange = %+v, want %v granted", v, 4*r.unit)
		}
		if v := r.exchange(e, r.probing("b", gen)); v.Granted || v.Probing <= 0 {
			r.Errorf("Exchange of another = %+v, want nothing granted", v)
		}
		if v := r.exchange(e, r.report("a")); !v.Granted {
			r.Errorf("Exchange of the same again = %+v, want it still granted", v)
		}
		time.Sleep(4*r.unit + r.slack()) // a crashed
		if v := r.exchange(e, r.probing("b", gen)); !v.Granted {
			r.Errorf("Exchange of another after the time = %+v, want it granted", v)
		}
		late := r.verdict("a", gen, failure.Close)
		if v := r.exchange(d, late); !v.Open || v.Gen != gen {
			r.Errorf("Exchange of a late verdict = %+v, want it without effect", v)
		}
	}},
	{name: "FA-12 a verdict counts once, for its generation", fn: func(r *run) {
		d := r.connect()
		gen := r.opened(d)
		if v := r.exchange(d, r.verdict("a", gen, failure.Close)); !v.Open || v.Gen != gen {
			r.Errorf("Exchange of a verdict without leave = %+v, want it without effect", v)
		}
		r.over()
		r.exchange(d, r.probing("a", gen))
		for _, rep := range []failure.Report{
			r.verdict("b", gen, failure.Close), r.verdict("a", gen-1, failure.Close), r.verdict("a", gen+1, failure.Reopen),
		} {
			if v := r.exchange(d, rep); !v.Open || v.Gen != gen {
				r.Errorf("Exchange of %+v = %+v, want it without effect", rep, v)
			}
		}
		reopen := r.verdict("a", gen, failure.Reopen)
		v := r.exchange(d, reopen)
		if !v.Open || v.Gen <= gen || v.Probing != 0 || v.Remaining <= 9*r.unit || v.Remaining > 10*r.unit {
			r.Fatalf("Exchange of a failed probe = %+v, want a new generation, open for %v", v, 10*r.unit)
		}
		again := r.exchange(d, reopen)
		closing := r.exchange(d, r.verdict("a", gen, failure.Close))
		for _, w := range []failure.View{again, closing} {
			if !w.Open || w.Gen != v.Gen || w.Remaining > v.Remaining {
				r.Errorf("Exchange of what is past = %+v, want %+v", w, v)
			}
		}
		gen = v.Gen
		time.Sleep(5 * r.unit)
		r.over()
		r.exchange(d, r.probing("b", gen))
		closing = r.exchange(d, r.verdict("b", gen, failure.Close))
		if closing.Open || closing.Gen <= gen {
			r.Errorf("Exchange of a good probe = %+v, want it closed in a new generation", closing)
		}
		if v := r.exchange(d, r.verdict("b", gen, failure.Reopen)); v.Open || v.Gen != closing.Gen {
			r.Errorf("Exchange of what is past = %+v, want it still closed", v)
		}
		if gen := r.opened(d); gen <= closing.Gen {
			r.Errorf("generation %d after %d", gen, closing.Gen)
		}
		if v := r.exchange(d, r.report("a")); v.Remaining > 5*r.unit {
			r.Errorf("open for %v after it was closed, want up to %v", v.Remaining, 5*r.unit)
		}
	}},
	{name: "the open time grows to its bound", fn: func(r *run) {
		d := r.connect()
		gen := r.opened(d)
		r.over()
		for _, units := range []time.Duration{10, 12, 12} {
			if v := r.exchange(d, r.probing("a", gen)); !v.Granted {
				r.Fatalf("Exchange = %+v, want it granted", v)
			}
			v := r.exchange(d, r.verdict("a", gen, failure.Reopen))
			if v.Remaining <= (units-1)*r.unit || v.Remaining > units*r.unit {
				r.Errorf("open for %v, want %v", v.Remaining, units*r.unit)
			}
			gen = v.Gen
			time.Sleep(v.Remaining + 2*time.Millisecond)
		}
	}},
	{name: "generations rise above what is known", fn: func(r *run) {
		d := r.connect()
		const far = 1 << 52 // years ahead of any clock in µs, and exact in a double
		r.vote(d, "a", 1)
		rep := r.voting("b")
		rep.Gen = far
		if v := r.exchange(d, rep); v.Gen != far+1 {
			r.Errorf("Exchange = %+v, want generation %d", v, uint64(far+1))
		}
	}},
	{name: "breakers of other names are others", fn: func(r *run) {
		d := r.connect()
		r.opened(d)
		for _, other := range []string{"payment", "payments:live", "{payments}", "pay}ments", "%", "pay ments\x00\xff"} {
			v, err := d.Exchange(r.Context(), other, r.report("a"))
			if err != nil || v != (failure.View{Live: 1}) {
				r.Errorf("Exchange(%q) = %+v, %v, want what nothing is known of", other, v, err)
			}
		}
	}},
	{name: "an ended context exchanges nothing", fn: func(r *run) {
		d := r.connect()
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		if _, err := d.Exchange(ctx, name, r.voting("a")); err == nil {
			r.Errorf("Exchange with an ended context was answered")
		}
		r.vote(d, "b", 1)
	}},
	{name: "new generations are told", fn: func(r *run) {
		d, e := r.connect(), r.connect()
		ctx, cancel := context.WithCancel(r.Context())
		var woken atomic.Int64
		ended := make(chan error, 1)
		go func() { ended <- e.Listen(ctx, name, func() { woken.Add(1) }) }()
		defer func() {
			cancel()
			if err := <-ended; err == nil {
				r.Errorf("Listen = nil after its context ended, want an error")
			}
		}()
		r.eventually("Listen hears", 10*r.slack(), func() bool { return woken.Load() == 1 })
		gen := r.opened(d)
		r.eventually("the opening", r.slack(), func() bool { return woken.Load() == 2 })
		r.over()
		r.exchange(d, r.probing("a", gen))
		r.exchange(d, r.verdict("a", gen, failure.Close))
		r.eventually("the closing", r.slack(), func() bool { return woken.Load() == 3 })
	}},
}, fleetChecks...), faultChecks...)

func (r *run) report(instance string) failure.Report {
	return failure.Report{
		Instance: instance, TTL: 12 * r.unit, Quorum: 2, QuorumRatio: 0.3,
		OpenFor: 5 * r.unit, MaxOpenFor: 12 * r.unit,
	}
}

func (r *run) voting(instance string) failure.Report {
	rep := r.report(instance)
	rep.Vote = true
	return rep
}

func (r *run) probing(instance string, gen uint64) failure.Report {
	rep := r.report(instance)
	rep.Gen, rep.Probe = gen, 4*r.unit
	return rep
}

func (r *run) verdict(instance string, gen uint64, v failure.Verdict) failure.Report {
	rep := r.report(instance)
	rep.Gen, rep.Verdict = gen, v
	return rep
}

func (r *run) exchange(d failure.Driver, rep failure.Report) failure.View {
	r.Helper()
	v, err := d.Exchange(r.Context(), name, rep)
	if err != nil {
		r.Fatalf("Exchange(%+v) error = %v", rep, err)
	}
	return v
}

// vote votes, and wants so many votes then and a closed breaker.
func (r *run) vote(d failure.Driver, instance string, votes int) {
	r.Helper()
	if v := r.exchange(d, r.voting(instance)); v.Open || v.Votes != votes {
		r.Fatalf("Exchange of a vote of %q = %+v, want %d votes and it closed", instance, v, votes)
	}
}

// opened opens the breaker and returns the generation.
func (r *run) opened(d failure.Driver) uint64 {
	r.Helper()
	r.exchange(d, r.voting("a"))
	v := r.exchange(d, r.voting("b"))
	if !v.Open {
		r.Fatalf("Exchange of two votes = %+v, want it open", v)
	}
	return v.Gen
}

// over lets the first open time pass.
func (r *run) over() { time.Sleep(5*r.unit + 2*time.Millisecond) }
