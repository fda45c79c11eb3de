package failure

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// What zero fields of [HedgeOptions] mean.
const (
	DefaultHedgeAttempts = 2
	DefaultHedgeShare    = 0.95
)

// minHedgeDelay is the least delay that is learned.
const minHedgeDelay = time.Millisecond

// HedgeOptions configures a [Hedge]. Nil is fine.
type HedgeOptions struct {
	// Idempotent says that all calls may be made twice. [WithIdempotent] says
	// it of one. Others are made once, as if there were no Hedge.
	Idempotent bool

	// Attempts is how many attempts there are at most, the first included. Zero
	// means [DefaultHedgeAttempts].
	Attempts int

	// Delay is how long an attempt has before the next begins. Zero means that
	// it is learned: it is what the share Share of the last calls did not
	// exceed, and a millisecond at least. There is no hedging before it is
	// known, which takes a few dozen calls.
	Delay time.Duration

	// Share is from 0 to 1. Zero means [DefaultHedgeShare].
	Share float64

	// Budget bounds the attempts after the first, and may be that of a [Retry].
	// Nil means one of its own with the default options.
	Budget *Budget

	// Discard is given the results that came too late, to close what has to be
	// closed. It runs in the goroutine of the attempt.
	Discard func(result any)

	// Logger is told of a panic of an attempt that came too late: it has no
	// caller left to be passed to. Nil discards.
	Logger *slog.Logger
}

// A Hedge is a [Policy] that makes a call which takes long a second time,
// beside the first, and takes the answer that comes first. This cuts the
// slowest calls short, for a few percent more of them (Dean and Barroso, "The
// Tail at Scale", 2013). It is for calls that may be made twice.
type Hedge struct {
	opts HedgeOptions
	err  error // why no call can work
	away awayer

	took latency

	begun, won atomic.Uint64
}

// NewHedge returns a Hedge. An option that makes no sense is an error of every
// call, wrapping [github.com/go-transparency/transparency.ErrInvalid].
func NewHedge(opts *HedgeOptions) *Hedge {
	h := &Hedge{}
	if opts != nil {
		h.opts = *opts
	}
	orDefault(&h.opts.Attempts, DefaultHedgeAttempts)
	orDefault(&h.opts.Share, DefaultHedgeShare)
	if h.opts.Budget == nil {
		h.opts.Budget = NewBudget(nil)
	}
	h.away = newAwayer(h.opts.Discard, h.opts.Logger)
	switch {
	case h.opts.Budget.err != nil:
		h.err = h.opts.Budget.err
	case h.opts.Attempts < 0:
		h.err = invalid("the number of attempts is %d", h.opts.Attempts)
	case h.opts.Delay < 0:
		h.err = invalid("the delay is %v", h.opts.Delay)
	case !(h.opts.Share > 0 && h.opts.Share <= 1):
		h.err = invalid("the share is %v, not from 0 to 1", h.opts.Share)
	}
	return h
}

// Do implements [Policy]. It returns the first success, at once, and ends the
// contexts of the attempts, that of the winner too: a result must not need it.
// An attempt that fails so that it may be repeated lets the next begin without
// delay; if all fail, Do returns when the last has ended, an [*Error] which has
// their errors. If the context ends, Do does not wait for attempts either, and
// the error wraps its error and
// [github.com/go-transparency/transparency.ErrUncertain].
//
// Attempts run in goroutines of their own, but for the calls before the delay is
// known. A panic or runtime.Goexit of one ends Do with it.
func (h *Hedge) Do(ctx context.Context, next Next) (any, error) {
	if h == nil || h.opts.Budget == nil || next == nil {
		return nil, unusable("hedge", next)
	}
	if h.err != nil {
		return nil, failed("hedge", "", h.err)
	}
	if h.opts.Attempts < 2 || !h.opts.Idempotent && !isIdempotent(ctx) {
		return next(ctx)
	}
	start := time.Now()
	delay := h.delay()
	if delay == 0 {
		result, err := next(ctx)
		if err == nil {
			h.took.add(time.Since(start), h.opts.Share)
			h.opts.Budget.credit()
		}
		return result, err
	}
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	return h.race(ctx, next, start, delay)
}

// delay returns how long an attempt has before the next, or zero if that is
// not known yet.
func (h *Hedge) delay() time.Duration {
	if h.opts.Delay > 0 {
		return h.opts.Delay
	}
	learned := time.Duration(h.took.slow.Load())
	if learned == 0 {
		return 0
	}
	return max(learned, minHedgeDelay)
}

// race makes the attempts.
func (h *Hedge) race(ctx context.Context, next Next, start time.Time, delay time.Duration) (any, error) {
	attempts, cancel := context.WithCancel(ctx)
	defer cancel()
	endings := make(chan ending) // received from until left is closed
	left := make(chan struct{})
	defer close(left)
	timer := time.NewTimer(delay)
	defer timer.Stop()

	begun, running := 0, 0
	begin := func() {
		begun++
		running++
		go h.away.call(attempts, next, begun, endings, left, nil)
		timer.Reset(delay)
	}
	again := func() {
		if begun < h.opts.Attempts && h.opts.Budget.spend() {
			h.begun.Add(1)
			begin()
		}
	}
	begin()
	var lost []error
	for {
		var e ending
		select {
		case <-timer.C:
			again()
			continue
		case e = <-endings:
		case <-ctx.Done():
			select {
			case e = <-endings:
			default:
				return nil, &Error{Policy: "hedge", Reason: ended(ctx), Attempts: begun, Last: errGoesOn}
			}
		}
		running--
		result, err := e.settle()
		if err == nil {
			// Of a first attempt that lost it is known that it takes longer.
			h.took.add(time.Since(start), h.opts.Share)
			if begun == 1 {
				h.opts.Budget.credit()
			}
			if e.attempt > 1 {
				h.won.Add(1)
			}
			return result, nil
		}
		lost = append(lost, err)
		if ctx.Err() == nil && !gaveUp(err) && repeatable(err, true) {
			again()
		}
		if running == 0 {
			return result, h.lost(lost)
		}
	}
}

// lost returns the error of a call whose attempts have all failed.
func (h *Hedge) lost(errs []error) error {
	err := errs[0]
	if len(errs) == 1 {
		return err
	}
	for _, other := range errs[1:] {
		err = fmt.Errorf("%w; another attempt: %w", err, other)
	}
	return &Error{Policy: "hedge", Attempts: len(errs), Last: err}
}

// HedgeStats counts what a [Hedge] does.
type HedgeStats struct {
	Begun, Won uint64        // attempts after the first, since the start
	Delay      time.Duration // of this moment; zero if it is not known yet
}

// Stats returns the counts of this moment.
func (h *Hedge) Stats() HedgeStats {
	if h == nil {
		return HedgeStats{}
	}
	return HedgeStats{Begun: h.begun.Load(), Won: h.won.Load(), Delay: h.delay()}
}
