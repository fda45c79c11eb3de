package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/backoff"
)

// How attempts follow one another.
const (
	// maxPoll is how long a waiter goes without asking, whatever it has been
	// told: wake-ups are a hint and this is the guarantee.
	maxPoll = time.Second
	// tripsPerTTL is how many round trips a TTL must have room for, so that a
	// renewal can be tried more than once.
	tripsPerTTL = 6
)

// margin is what is taken off a TTL for clocks that run at different rates and
// for a timer that fires late: a tenth, at most a second, and at least a
// millisecond where there is room for it.
func margin(ttl time.Duration) time.Duration {
	return min(max(ttl/10, min(ttl/2, time.Millisecond)), time.Second)
}

func (l *Locker) acquire(ctx context.Context, m *request, wait bool) (*Lease, error) {
	if m.err != nil {
		return nil, m.err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := l.enter(ctx, slotName{m.key, m.permits > 0}, wait)
	if err != nil {
		return nil, err
	}
	defer l.calls.Done()
	c := contest{l: l, slot: s, wait: wait, claim: Claim{
		Key: m.key, Token: newToken(l.owner), TTL: m.ttl, Permits: m.permits, Holder: l.opts.Holder,
	}}
	lease, err := c.run(ctx)
	if err != nil {
		l.mu.Lock()
		c.stopWaiting()
		if s != nil {
			l.pass(s)
		}
		l.unlock()
		return nil, err
	}
	return lease, nil
}

// A contest is one call's way to a lease, once it has the slot.
type contest struct {
	l       *Locker
	slot    *slot // nil when the call does without
	claim   Claim
	wait    bool
	inLine  bool       // the token stands in the store's line, or did
	waiting bool       // counted, and listening
	held    *HeldError // the store's last no
	answer  instant    // when it came
	slow    int        // grants in a row that came too late
	failed  int        // attempts in a row that were not answered
}

func (c *contest) run(ctx context.Context) (*Lease, error) {
	l := c.l
	for {
		l.attempts.Add(1)
		start := l.now()
		grant, err := l.driver.Acquire(ctx, c.claim, c.wait)
		err = classed(err)
		now := l.now()

		var pause time.Duration
		switch {
		case err != nil:
			c.retire(err)
			if !c.patient(ctx, err, now) {
				return nil, c.because(err)
			}
			pause = retryPolicy.Delay(c.failed)
			c.failed++

		case grant.Fence == 0:
			c.held, c.answer = &HeldError{Remaining: max(grant.Remaining, 0), Holder: grant.Holder}, now
			c.failed, c.slow = 0, 0
			if !c.wait {
				return nil, c.held
			}
			l.mu.Lock()
			c.slot.told, c.slot.since = c.held, now
			l.unlock()
			c.inLine = true
			// A little later than the end, and not all at once. What is being
			// handed over does not end with its grace.
			pause = maxPoll
			if !grant.Passing {
				pause = min(c.held.Remaining+time.Millisecond+rand.N(5*time.Millisecond), maxPoll)
			}

		case ctx.Err() != nil:
			c.drop()
			return nil, c.because(ctx.Err())

		case tripsPerTTL*now.since(start) > c.claim.TTL:
			// Validity counts from the sending, and too little of it is left
			// to renew in. A pause of the network may be the reason, so ask
			// again: a key that is this token's is granted anew.
			if c.slow++; c.slow > 1 {
				c.drop()
				return nil, fmt.Errorf("%w: the store took %v to answer, too long for a TTL of %v",
					transparency.ErrUnavailable, now.since(start).Round(time.Microsecond), c.claim.TTL)
			}
			continue

		default:
			if lease := c.lease(ctx, start, grant.Fence); lease != nil {
				return lease, nil
			}
			c.drop()
			return nil, ErrClosed
		}
		if err := c.pause(ctx, pause); err != nil {
			if c.inLine {
				c.drop()
			}
			return nil, c.because(err)
		}
	}
}

// lease makes the lease that was granted to an attempt sent at start, or nil
// when the Locker has been closed since.
func (c *contest) lease(ctx context.Context, start instant, fence uint64) *Lease {
	l, ttl := c.l, c.claim.TTL
	lease := &Lease{
		l: l, claim: c.claim, fence: fence, slot: c.slot, parent: ctx, index: -1,
		valid: start.add(ttl - margin(ttl)),
		due:   start.add(ttl / 3),
	}
	l.mu.Lock()
	defer l.unlock()
	if l.closed {
		return nil
	}
	c.stopWaiting() // before the lease can end, and the slot be another's
	if c.slot != nil {
		c.slot.told, c.slot.lease = nil, lease
		if c.claim.Permits > 0 {
			l.leave(lease) // there may be more permits
		}
	}
	l.stats.Acquired++
	l.keep(lease)
	return lease
}

// retire ends the use of a token whose last attempt failed: it may have been
// executed, or be executed later, and must then be freed without harm to a
// lease of a later attempt.
func (c *contest) retire(err error) {
	if unknown := uncertain(err); unknown || c.inLine {
		c.l.mu.Lock()
		c.l.undo(&undoing{claim: c.claim, again: unknown})
		c.l.unlock()
	}
	c.inLine = false
	c.claim.Token = newToken(c.l.owner)
}

// drop frees what the token has got, or takes it out of the line.
func (c *contest) drop() {
	c.l.mu.Lock()
	c.l.undo(&undoing{claim: c.claim})
	c.l.unlock()
}

// uncertain reports whether the request behind err may have been executed.
func uncertain(err error) bool {
	for _, known := range [...]error{
		transparency.ErrUnavailable, transparency.ErrRejected, transparency.ErrDenied, transparency.ErrInvalid,
	} {
		if errors.Is(err, known) && !errors.Is(err, transparency.ErrUncertain) {
			return false
		}
	}
	return true
}

// classed gives an error that a driver put into no class the one that it
// counts as.
func classed(err error) error {
	if err == nil || !uncertain(err) || errors.Is(err, transparency.ErrUncertain) {
		return err
	}
	return fmt.Errorf("%w: %w", transparency.ErrUncertain, err)
}

// patient reports whether to go on after an attempt that failed. Who has been
// told to wait sits out the trouble that a holder sits out, which is a TTL;
// who has not been told anything wants to know of the trouble.
func (c *contest) patient(ctx context.Context, err error, now instant) bool {
	return c.wait && c.held != nil && ctx.Err() == nil &&
		(transparency.Retryable(err) || errors.Is(err, transparency.ErrUncertain)) &&
		now.since(c.answer) < c.claim.TTL
}

var retryPolicy = backoff.Policy{Base: 20 * time.Millisecond, Max: maxPoll}

// because joins why a call ended with what it had been waiting for.
func (c *contest) because(err error) error {
	if c.held == nil || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", c.held, err)
}

// pause waits for d, or until there is news of the key.
func (c *contest) pause(ctx context.Context, d time.Duration) error {
	l, s := c.l, c.slot
	if !c.waiting {
		c.waiting = true
		l.mu.Lock()
		s.wake = make(chan struct{}, 1)
		if s.woken { // between the attempt and now
			s.wake <- struct{}{}
		}
		l.waiting++
		l.listen()
		l.unlock()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.wake:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
		return ErrClosed
	}
}

// stopWaiting requires l.mu.
func (c *contest) stopWaiting() {
	if !c.waiting {
		return
	}
	c.waiting = false
	c.slot.wake, c.slot.woken = nil, false
	c.l.waiting--
	c.l.unlisten()
}
