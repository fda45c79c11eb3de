package failure

import (
	"context"
	"slices"
	"time"
)

// A permit is one call that was let through.
type permit struct {
	phase *phase        // nil when nothing is counted
	probe *probe        // nil when it is none
	began time.Duration // of the breaker's life, if Patience or Slow is set
}

// A pass is gobreaker's leave to make a call. While closed it refuses none, and
// the end of one can be told as often as there are calls, which are counted for
// the time that the leave was given. So it is asked for when a call ends, and
// once in a hundredth of a window.
type pass struct {
	done  func(error)
	until time.Duration
}

// A probe holds one of the places in half-open. It is guarded by b.mu.
type probe struct {
	phase *phase
	done  func(error)
	due   instant // when its time is over
	ended bool
}

// halfOpenWait is the most that a caller is told to wait while probes are under
// way: they may end at any moment.
const halfOpenWait = 100 * time.Millisecond

// admit lets a call through, or says why not.
func (b *LocalBreaker) admit(ctx context.Context) (permit, error) {
	if b == nil {
		return permit{}, b.unfit()
	}
	p := b.phase.Load()
	if p == nil {
		return permit{}, b.unfit()
	}
	if err := ctx.Err(); err != nil {
		return permit{}, err
	}
	switch p.state {
	case StateClosed:
		call := permit{phase: p}
		if b.timed {
			call.began = time.Since(b.born)
		}
		return call, nil
	case StateOpen:
		if now := b.now(); !now.reached(p.until) {
			return permit{}, b.reject(now.until(p.until))
		}
	case StateForced:
		return permit{}, b.reject(0)
	case StateDisabled:
		return permit{}, nil
	}
	return b.admitSlowly()
}

// counts returns what counts a call of a closed phase that ends now, or nil if
// the phase is past.
func (b *LocalBreaker) counts(p *phase) func(error) {
	var now time.Duration
	if b.opts.Ratio > 0 {
		now = time.Since(b.born)
	}
	if pass := p.pass.Load(); pass != nil && now < pass.until {
		return pass.done
	}
	done, err := p.window.cb.Allow()
	if err != nil {
		return nil
	}
	// gobreaker may have been opened meanwhile, and is open for no time: only a
	// phase that lasts proves that the leave is one of its closed state.
	if b.phase.Load() != p {
		done(errUnused)
		return nil
	}
	p.pass.Store(&pass{done: done, until: now + b.opts.Window/100})
	return done
}

// unfit says why no call can work.
func (b *LocalBreaker) unfit() error {
	if b == nil {
		return failed("breaker", "", invalid("the breaker is nil"))
	}
	if b.err == nil {
		return failed("breaker", "", invalid("the breaker was not made by a constructor"))
	}
	return failed("breaker", b.opts.Name, b.err)
}

// admitSlowly is admit for the calls that may have to change the state.
func (b *LocalBreaker) admitSlowly() (permit, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	p := b.settle(now)
	switch p.state {
	case StateDisabled:
		return permit{}, nil
	case StateForced:
		return permit{}, b.reject(0)
	case StateOpen:
		if now.reached(p.until) { // it is the fleet's to say who probes
			b.fleet.ask()
			return permit{}, b.reject(askWait)
		}
		return permit{}, b.reject(now.until(p.until))
	}
	call := permit{phase: p, began: time.Since(b.born)}
	if p.state == StateHalfOpen {
		done, err := p.window.cb.Allow()
		if err != nil {
			return permit{}, b.reject(b.probeWait(now))
		}
		call.probe = &probe{phase: p, done: done, due: now.add(b.opts.ProbeTimeout)}
		b.probes = append(b.probes, call.probe)
	}
	return call, nil
}

// probeWait returns when another probe may pass. It requires b.mu.
func (b *LocalBreaker) probeWait(now instant) time.Duration {
	wait := halfOpenWait
	for _, e := range b.probes {
		wait = min(wait, now.until(e.due))
	}
	return max(wait, time.Millisecond)
}

func (b *LocalBreaker) reject(after time.Duration) error {
	b.stats.rejected.Add(1)
	return &Error{Policy: "breaker", Name: b.opts.Name, Reason: ErrOpen, After: after}
}

// end takes a permit back. What it reports is counted if its phase lasts.
func (b *LocalBreaker) end(p *permit, o Outcome) {
	if p.phase == nil {
		return
	}
	judged := b.opts.Slow > 0 && o != Ignored
	if p.probe == nil && o != Failed && !judged {
		if b.phase.Load() == p.phase {
			if count := b.counts(p.phase); count != nil {
				count(ends[o])
			}
		}
		return
	}
	slow := judged && b.lasted(p) > b.opts.Slow
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.probe != nil {
		b.endProbe(p.probe, o, slow)
		return
	}
	if b.phase.Load() != p.phase {
		return
	}
	count := b.counts(p.phase)
	if count == nil {
		return
	}
	if slow {
		b.stats.slow.Add(1)
	}
	if o == Failed {
		count = b.refreshed(count)
	}
	count(ends[o])
	if judged && b.phase.Load().state == StateClosed {
		b.clocked(slow)
	}
}

func (b *LocalBreaker) lasted(p *permit) time.Duration { return time.Since(b.born) - p.began }

// clocked counts a call of the present, closed phase by how long it took. It
// requires b.mu.
func (b *LocalBreaker) clocked(slow bool) {
	b.tally.add(b.now(), b.opts.Window, slow)
	if slow && b.tally.full(&b.opts) {
		b.open(b.newProbing(), 0, 0)
	}
}

// refreshed notes a failure of the present, closed window, and starts another
// window if the machine has slept through the length of this one. It requires
// b.mu.
func (b *LocalBreaker) refreshed(done func(error)) func(error) {
	p, now := b.phase.Load(), b.now()
	w := p.window
	if b.opts.Ratio > 0 && w.lastFailure != (instant{}) && w.stale(now, b.opts.Window) {
		fresh := b.newWindow()
		fresh.inRow.Store(w.inRow.Load())
		if again, err := fresh.cb.Allow(); err == nil {
			done, w = again, fresh
			b.to(&phase{window: fresh})
		}
	}
	w.lastFailure = now
	return done
}

// endProbe ends a probe, once; one that was slow has failed. It requires b.mu.
func (b *LocalBreaker) endProbe(e *probe, o Outcome, slow bool) {
	p := b.phase.Load()
	if e.ended || e.phase != p {
		return
	}
	e.ended = true
	b.probes = slices.DeleteFunc(b.probes, func(p *probe) bool { return p == e })
	if slow {
		b.stats.slow.Add(1)
		o = Failed
	}
	e.done(ends[o])
	switch {
	case o == Failed:
		b.fleet.decide(p.gen, Reopen)
		b.open(p.window, p.failed+1, p.gen)
	case o == Succeeded && p.window.closed():
		b.fleet.decide(p.gen, Close)
		b.to(&phase{window: p.window})
		b.fleet.wake()
	}
}
