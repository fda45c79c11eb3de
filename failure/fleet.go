package failure

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency/internal/backoff"
)

// A fleet is what a gate has to tell the other instances. It is guarded by
// the gate's mutex; a nil fleet has nobody to tell.
type fleet struct {
	kick    chan struct{}
	asked   bool // a call wants to probe
	verdict Verdict
	gen     uint64 // of the verdict
	seen    uint64 // the greatest generation seen
	lost    bool   // the store does not answer
}

// askWait is what a caller is told to wait for the leave to probe.
const askWait = 50 * time.Millisecond

// wake makes the exchange happen now.
func (f *fleet) wake() {
	if f == nil {
		return
	}
	select {
	case f.kick <- struct{}{}:
	default: // it has been told
	}
}

// ask asks for the leave to probe.
func (f *fleet) ask() {
	if f != nil && !f.asked {
		f.asked = true
		f.wake()
	}
}

// decide notes how probing ended.
func (f *fleet) decide(gen uint64, v Verdict) {
	if f != nil && gen != 0 {
		f.verdict, f.gen = v, gen
	}
}

var missPolicy = backoff.Policy{Base: 100 * time.Millisecond, Max: 2 * time.Second}

// exchange tells the fleet and hears from it, when there is news and else once
// in a Poll, until ctx ends.
func (s *SharedBreaker) exchange(ctx context.Context) {
	// An exchange is not cut short: the driver bounds it, and one that is left
	// behind would outlive Close.
	unbroken := context.WithoutCancel(ctx)
	timer := time.NewTimer(s.opts.Poll)
	defer timer.Stop()
	for misses := 0; ; {
		sent, r := s.local.report()
		r.Instance, r.TTL = s.id, 3*s.opts.Poll+s.opts.Timeout
		r.Quorum, r.QuorumRatio = s.opts.Quorum, s.opts.QuorumRatio
		view, err := s.driver.Exchange(unbroken, s.opts.Breaker.Name, r)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.missed.Add(1)
			if misses == 0 {
				s.opts.Logger.Warn("failure: the fleet cannot be reached, the breaker is on its own",
					"breaker", s.opts.Breaker.Name, "error", err)
			}
			s.local.leave()
			if backoff.Sleep(ctx, missPolicy.Delay(misses)) != nil {
				return
			}
			misses++
			continue
		}
		s.exchanged.Add(1)
		s.live.Store(int64(view.Live))
		s.votes.Store(int64(view.Votes))
		if misses > 0 {
			misses = 0
			s.opts.Logger.Info("failure: the fleet is reached again", "breaker", s.opts.Breaker.Name)
		}
		s.local.adopt(sent, r, view)
		timer.Reset(s.opts.Poll)
		select {
		case <-timer.C:
		case <-s.local.fleet.kick:
		case <-ctx.Done():
			return
		}
	}
}

// listen hears the news that save the wait for a poll.
func (s *SharedBreaker) listen(ctx context.Context) {
	var heard atomic.Bool
	for failures := 0; ; failures++ {
		err := s.driver.Listen(ctx, s.opts.Breaker.Name, func() {
			heard.Store(true)
			s.local.fleet.wake()
		})
		if ctx.Err() != nil {
			return
		}
		if heard.Swap(false) {
			failures = 0
		}
		s.opts.Logger.Debug("failure: news of the fleet is not heard, polling", "breaker", s.opts.Breaker.Name, "error", err)
		if backoff.Sleep(ctx, missPolicy.Delay(failures)) != nil {
			return
		}
	}
}

// report returns what there is to say, and the moment.
func (b *LocalBreaker) report() (instant, Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, now := b.fleet, b.now()
	p := b.settle(now)
	r := Report{
		Vote:    p.gen == 0 && p.own && (p.state == StateOpen || p.state == StateHalfOpen),
		Gen:     f.seen,
		OpenFor: b.opts.OpenFor, MaxOpenFor: b.opts.MaxOpenFor,
	}
	switch {
	case f.verdict != NoVerdict:
		r.Gen, r.Verdict = f.gen, f.verdict
	case f.asked:
		r.Probe = b.opts.ProbeTimeout
	}
	return now, r
}

// adopt makes the fleet's view this instance's own. sent is when the report
// that it answers was sent.
func (b *LocalBreaker) adopt(sent instant, r Report, v View) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.fleet
	if r.Verdict == f.verdict && r.Gen == f.gen {
		f.verdict = NoVerdict
	}
	if f.lost = false; r.Probe > 0 || !v.Open {
		f.asked = false
	} else if f.asked { // meanwhile
		f.wake()
	}
	p, now := b.phase.Load(), b.now()
	switch {
	case p.state == StateForced || p.state == StateDisabled:
	case v.Gen < f.seen:
		// The store has lost what it knew.
		f.verdict = NoVerdict
		b.stray()
	case f.verdict != NoVerdict:
		// What came of the probe is not in this view yet.
	case v.Open && v.Granted:
		if p.state == StateHalfOpen && p.gen == v.Gen && !now.reached(p.until) {
			break
		}
		// The lease is counted from before it was asked for, so that it ends
		// here before another can get it.
		b.to(&phase{state: StateHalfOpen, window: b.probing(p), failed: p.failed, gen: v.Gen, own: p.own, until: sent.add(min(v.Probing, b.opts.ProbeTimeout))})
	case v.Open:
		wait := v.Remaining
		if wait == 0 && v.Probing > 0 {
			wait = min(v.Probing, askWait)
		}
		b.to(&phase{state: StateOpen, window: b.probing(p), failed: p.failed, gen: v.Gen, own: p.own, until: now.add(wait)})
	case p.gen != 0 && p.gen < v.Gen:
		b.to(&phase{window: b.newWindow()})
	}
	f.seen = max(f.seen, v.Gen)
}

// probing returns the window of p if that is open, and so ready for probes, or
// a new one that is.
func (b *LocalBreaker) probing(p *phase) *window {
	if p.state == StateOpen {
		return p.window
	}
	return b.newProbing()
}

// leave lets the gate go on alone until the store answers again.
func (b *LocalBreaker) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fleet.asked, b.fleet.lost = false, true
}

// stray makes the phase one of this instance alone, and returns it. It
// requires b.mu.
func (b *LocalBreaker) stray() *phase {
	from := b.phase.Load()
	if from.gen == 0 {
		return from
	}
	p, probes := from.as(from.state, from.window), b.probes
	p.gen, p.own = 0, false
	b.to(p)
	if p.state == StateHalfOpen { // they go on, in this phase
		for _, e := range probes {
			e.phase = p
		}
		b.probes = probes
	}
	return p
}
