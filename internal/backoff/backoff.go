// Package backoff spreads repeated attempts over time.
//
// Clients that failed together must not come back together. Of the schemes compared by Brooker,
// "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015), full jitter is used: each delay
// is uniform between zero and a ceiling that doubles with every attempt. It finishes contended
// work with about the fewest calls, and keeps no state between attempts.
package backoff

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// What zero fields of a [Policy] mean.
const (
	DefaultBase = 50 * time.Millisecond
	DefaultMax  = 2 * time.Second
)

// Policy says how long to wait between attempts. The zero value is ready to use, and a Policy is
// safe for concurrent use.
type Policy struct {
	// Base is the ceiling of the first delay. Zero means [DefaultBase]; negative means no delay at all.
	Base time.Duration
	// Max is the ceiling of every delay. Zero means [DefaultMax]; negative means none.
	Max time.Duration
}

// Delay returns a random time to wait after the failed attempt of that number, which counts from
// zero: uniform in (0, min(Max, Base<<attempt)]. It is never zero unless Base is negative, so that
// a loop cannot spin. A negative attempt counts as zero, and no attempt is too large.
func (p Policy) Delay(attempt int) time.Duration {
	if p.Base < 0 {
		return 0
	}
	return time.Duration(rand.Int64N(int64(p.ceiling(attempt)))) + 1
}

func (p Policy) ceiling(attempt int) time.Duration {
	base, limit := p.Base, p.Max
	if base == 0 {
		base = DefaultBase
	}
	switch {
	case limit == 0:
		limit = DefaultMax
	case limit < 0:
		limit = math.MaxInt64
	}
	shift := max(attempt, 0)
	// limit>>shift is zero for any shift past 62, so the left shift below cannot overflow.
	if base > limit>>shift {
		return limit
	}
	return base << shift
}

// Sleep waits for d and returns nil, or returns ctx.Err() as soon as ctx ends. A context that has
// ended already wins over any d; a d of zero or less does not wait.
func Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
