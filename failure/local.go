package failure

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A LocalBreaker is the [Breaker] of one process. It stands on
// [github.com/sony/gobreaker/v2], which counts, behind a gate of its own: see
// the package page for what the gate adds.
type LocalBreaker struct {
	opts BreakerOptions
	err  error            // why no call can work
	wall func() time.Time // the wall clock; nil means that of time.Now

	born  time.Time
	timed bool // the moment at which a call begins is asked for

	phase   atomic.Pointer[phase] // changed under mu
	stats   counters
	changes changes

	mu     sync.Mutex // guards what follows
	probes []*probe   // those under way in this phase
	tally  tally      // of this phase, for the rule of slow calls
	fleet  *fleet     // nil when the breaker is not shared
}

// A phase is a stretch of one state. It does not change, and is told from
// others by its address.
type phase struct {
	state  State
	window *window
	pass   atomic.Pointer[pass] // of a closed one; nil before the first call
	until  instant              // the end of the open time, or of a lease to probe
	failed int                  // probes in a row, which make the open time grow
	gen    uint64               // of the fleet's opening; zero when it is our own
	own    bool                 // opened by our own calls
}

// as returns the phase that follows p by time alone.
func (p *phase) as(s State, w *window) *phase {
	return &phase{state: s, window: w, until: p.until, failed: p.failed, gen: p.gen, own: p.own}
}

type counters struct {
	succeeded, failed, ignored, slow, rejected, opened atomic.Uint64
}

// NewLocalBreaker returns a closed breaker.
func NewLocalBreaker(opts *BreakerOptions) *LocalBreaker {
	b := &LocalBreaker{born: time.Now()}
	b.opts, b.err = opts.withDefaults()
	b.timed = b.opts.Slow > 0 || b.opts.Patience > 0
	if b.err == nil {
		b.phase.Store(&phase{window: b.newWindow()})
	}
	return b
}

// refuse makes every call fail with err, if it is one. It requires that there
// was none yet.
func (b *LocalBreaker) refuse(err error) {
	if err != nil && b.err == nil {
		b.err = err
		b.phase.Store(nil)
	}
}

var _ Breaker = (*LocalBreaker)(nil)

// Do implements [Policy]; see [Breaker].
func (b *LocalBreaker) Do(ctx context.Context, next Next) (any, error) {
	if next == nil {
		return nil, failed("breaker", "", invalid("the function is nil"))
	}
	p, err := b.admit(ctx)
	if err != nil {
		return nil, err
	}
	// Nothing is recovered: a panic keeps its stack, and Goexit is served too.
	ended := false
	defer func() {
		if !ended {
			b.end(&p, Ignored)
		}
	}()
	result, err := next(ctx)
	o := b.judge(ctx, &p, err)
	ended = true
	b.end(&p, o)
	return result, err
}

// Allow implements [Breaker].
func (b *LocalBreaker) Allow(ctx context.Context) (Permit, error) {
	p, err := b.admit(ctx)
	if err != nil {
		return nil, err
	}
	return &twoStep{permit: p, b: b, ctx: ctx}, nil
}

type twoStep struct {
	permit
	b     *LocalBreaker
	ctx   context.Context
	ended atomic.Bool
}

func (s *twoStep) Done(err error) {
	if !s.ended.CompareAndSwap(false, true) {
		return
	}
	o := Ignored // if Classify panics
	defer func() { s.b.end(&s.permit, o) }()
	o = s.b.judge(s.ctx, &s.permit, err)
}

// judge returns what a call that ended with err says.
func (b *LocalBreaker) judge(ctx context.Context, p *permit, err error) Outcome {
	if err == nil {
		return Succeeded
	}
	for _, answer := range b.opts.Answers {
		if errors.Is(err, answer) {
			return Succeeded
		}
	}
	o := b.opts.Classify(ctx, err)
	if o == Failed && b.opts.Patience > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) && b.lasted(p) < b.opts.Patience {
		return Ignored
	}
	return min(o, Ignored)
}

// State implements [Breaker].
func (b *LocalBreaker) State() State {
	if b == nil || b.phase.Load() == nil {
		return StateClosed
	}
	p := b.phase.Load()
	if (p.state == StateOpen || p.state == StateHalfOpen) && b.now().reached(p.until) {
		b.mu.Lock()
		defer b.mu.Unlock()
		p = b.settle(b.now())
	}
	return p.state
}

// ForceOpen stops all calls until Reset.
func (b *LocalBreaker) ForceOpen() { b.set(StateForced) }

// Disable lets all calls pass uncounted until Reset.
func (b *LocalBreaker) Disable() { b.set(StateDisabled) }

// Reset closes the breaker and forgets what was counted.
func (b *LocalBreaker) Reset() { b.set(StateClosed) }

func (b *LocalBreaker) set(s State) {
	if b == nil || b.phase.Load() == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to(&phase{state: s, window: b.newWindow()})
	b.tally = tally{}
}

// Changes returns the changes of state after this call, in order, as they
// come. It ends with ctx, or when the loop is left: nothing comes after that.
// The loop may do anything with the breaker, and be slow: the last 64 changes
// are kept for it, and calls do not wait.
func (b *LocalBreaker) Changes(ctx context.Context) iter.Seq[Change] {
	if b == nil || b.phase.Load() == nil { // there will be none
		return func(func(Change) bool) {}
	}
	return b.changes.all(ctx)
}

// Stats counts what a breaker has done.
type Stats struct {
	State State // of this moment

	Succeeded, Failed, Ignored uint64 // calls, as they were counted
	Slow                       uint64 // of those that succeeded or failed
	Rejected                   uint64 // calls that were not let through
	Opened                     uint64 // times that the breaker opened
	Probing                    int    // probes under way
}

// Stats returns the counts since the start. Calls that ended too late to count
// are in none of them.
func (b *LocalBreaker) Stats() Stats {
	if b == nil {
		return Stats{}
	}
	s := Stats{
		State:     b.State(),
		Succeeded: b.stats.succeeded.Load(),
		Failed:    b.stats.failed.Load(),
		Ignored:   b.stats.ignored.Load(),
		Slow:      b.stats.slow.Load(),
		Rejected:  b.stats.rejected.Load(),
		Opened:    b.stats.opened.Load(),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Probing = len(b.probes)
	return s
}

// to enters a phase, and returns it. It requires b.mu, and calls nothing that
// could want it, for a failure gets here under gobreaker's mutex too.
func (b *LocalBreaker) to(p *phase) *phase {
	from := b.phase.Swap(p)
	b.probes = nil // gobreaker drops what still comes of them
	if from.state != p.state {
		b.tally = tally{}
		if p.state == StateOpen {
			b.stats.opened.Add(1)
		}
		b.changes.add(from.state, p.state, time.Now())
	}
	return p
}

// open opens the breaker after so many failed probes. It requires b.mu, and a
// window that has been open, or is as soon as the caller returns to gobreaker.
func (b *LocalBreaker) open(w *window, failed int, gen uint64) {
	b.to(&phase{
		state: StateOpen, window: w, failed: failed, gen: gen, own: true,
		until: b.now().add(b.openTime(failed)),
	})
	b.fleet.wake()
}

func (b *LocalBreaker) openTime(failed int) time.Duration {
	d := b.opts.OpenFor
	for ; failed > 0 && d < b.opts.MaxOpenFor; failed-- {
		d = min(2*d, b.opts.MaxOpenFor)
	}
	return d - time.Duration(rand.Float64()*openCut*float64(d))
}

// settle does what time has made due, and returns the phase. It requires b.mu.
func (b *LocalBreaker) settle(now instant) *phase {
	p := b.phase.Load()
	over := now.reached(p.until)
	if p.state == StateHalfOpen {
		if p.gen == 0 || !over {
			for _, e := range slices.Clone(b.probes) {
				if now.reached(e.due) {
					b.endProbe(e, Ignored, false)
				}
			}
			return p
		}
		// The lease is over, and a probe that goes on is nobody's.
		p = b.to(p.as(StateOpen, b.newProbing()))
	}
	if p.state == StateOpen && over {
		if p.gen != 0 && b.fleet.lost {
			p = b.stray()
		}
		if p.gen == 0 {
			p = b.to(p.as(StateHalfOpen, p.window))
		}
	}
	return p
}
