package failure

import (
	"sync"
	"sync/atomic"
	"time"
)

// What zero fields of [BudgetOptions] mean.
const (
	DefaultBudgetRatio     = 0.1
	DefaultBudgetPerSecond = 1
)

// BudgetOptions configures a [Budget]. Nil is fine.
type BudgetOptions struct {
	// Ratio is how many retries each call earns that succeeds at once. Zero
	// means [DefaultBudgetRatio]; negative means none.
	Ratio float64

	// PerSecond is how many retries there are in any case, so that a service
	// which is seldom called is retried too. Zero means
	// [DefaultBudgetPerSecond]; negative means none.
	PerSecond float64
}

// A Budget bounds how much load retries add to a service, so that they cannot
// keep it down (Beyer et al., "Site Reliability Engineering", 2016, chapter
// 21). It is a bucket of tokens: a retry takes one when it is scheduled, and a
// call that succeeds at once puts a part of one in. Calls as such are never
// held up. A Budget is safe for concurrent use, and to be shared by all that
// call one service.
//
// It holds what ten seconds of PerSecond give when it is new, and never more
// than a hundred tokens or those; between two retries PerSecond gives no more
// than that, or one token. The zero Budget never has any. Of several policies
// that share it each puts in for what it has seen succeed.
type Budget struct {
	err       error // why no retry can work
	ratio     int64 // in parts of a token
	perSecond float64
	most      int64

	tokens atomic.Int64

	mu   sync.Mutex // guards last
	last time.Time  // up to which PerSecond was given; zero means never
}

const (
	tokenParts   = 1_000_000
	savedTokens  = 100
	savedSeconds = 10
)

// NewBudget returns a Budget. An option that makes no sense is an error of
// every call of a [Retry] with it, wrapping
// [github.com/go-transparency/transparency.ErrInvalid].
func NewBudget(opts *BudgetOptions) *Budget {
	var o BudgetOptions
	if opts != nil {
		o = *opts
	}
	orDefault(&o.Ratio, DefaultBudgetRatio)
	orDefault(&o.PerSecond, DefaultBudgetPerSecond)
	b := &Budget{}
	switch {
	case o.Ratio > 1 || o.Ratio != o.Ratio:
		b.err = invalid("the ratio of the budget is %v, not from 0 to 1", o.Ratio)
		return b
	case o.PerSecond > 1e6 || o.PerSecond != o.PerSecond:
		b.err = invalid("the retries per second are %v, more than a million", o.PerSecond)
		return b
	}
	b.ratio = int64(max(o.Ratio, 0) * tokenParts)
	b.perSecond = max(o.PerSecond, 0) * tokenParts
	start := int64(b.perSecond * savedSeconds)
	b.most = max(start, savedTokens*tokenParts)
	b.tokens.Store(start)
	return b
}

// credit puts in what a call earns that succeeded at once.
func (b *Budget) credit() {
	if b.ratio > 0 && b.tokens.Load() < b.most {
		b.tokens.Add(b.ratio) // a few too many at the brim do no harm
	}
}

// spend takes a token, and reports whether there was one.
func (b *Budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.last.IsZero() {
		b.last = now
	}
	// What is less than the smallest part is earned later. A rest earns no more
	// than what the budget begins with, or one token.
	if earned := int64(min(b.perSecond*now.Sub(b.last).Seconds(), max(b.perSecond*savedSeconds, tokenParts))); earned > 0 {
		b.last = now
		if room := b.most - b.tokens.Load(); room > 0 {
			b.tokens.Add(min(earned, room))
		}
	}
	if b.tokens.Load() < tokenParts {
		return false
	}
	b.tokens.Add(-tokenParts)
	return true
}
