package failure

import (
	"context"
	"time"
)

// DefaultLimit is the time limit of each attempt through [NewStandard].
const DefaultLimit = 10 * time.Second

// A Standard is a [Policy] that puts others in the order of its fields, the
// outermost first, which is right for most calls; the package page tells why.
// Those that are nil are left out, so the zero Standard only calls. It must not
// be changed after its first use. A [Fallback] stands outside of it.
type Standard struct {
	Whole     *Timeout
	Retry     *Retry
	Hedge     *Hedge
	Breaker   Breaker
	RateLimit *RateLimit
	Timeout   *Timeout
	Bulkhead  *Bulkhead
}

// NewStandard returns a Standard of that name with a Retry, a LocalBreaker, a
// Timeout of [DefaultLimit] and a Bulkhead, all with their default options.
// Fields can be replaced before its first use.
func NewStandard(name string) *Standard {
	return &Standard{
		Retry:    NewRetry(nil),
		Breaker:  NewLocalBreaker(&BreakerOptions{Name: name}),
		Timeout:  NewTimeout(DefaultLimit, nil),
		Bulkhead: NewBulkhead(&BulkheadOptions{Name: name}),
	}
}

var _ Policy = (*Standard)(nil)

// Do implements [Policy].
func (s *Standard) Do(ctx context.Context, next Next) (any, error) {
	if s == nil || next == nil {
		return nil, unusable("standard", next)
	}
	var room [7]Policy
	return through(ctx, s.inner(s.outer(room[:0])), next)
}

// outer appends the policies around an attempt, and inner those of each.
func (s *Standard) outer(to []Policy) []Policy {
	if s.Whole != nil {
		to = append(to, s.Whole)
	}
	if s.Retry != nil {
		to = append(to, s.Retry)
	}
	return to
}

func (s *Standard) inner(to []Policy) []Policy {
	if s.Hedge != nil {
		to = append(to, s.Hedge)
	}
	if s.Breaker != nil {
		to = append(to, s.Breaker)
	}
	if s.RateLimit != nil {
		to = append(to, s.RateLimit)
	}
	if s.Timeout != nil {
		to = append(to, s.Timeout)
	}
	if s.Bulkhead != nil {
		to = append(to, s.Bulkhead)
	}
	return to
}
