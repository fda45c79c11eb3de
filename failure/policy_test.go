package failure_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

var errBoom = errors.New("boom")

// policy is a Policy by a function.
type policy func(ctx context.Context, next failure.Next) (any, error)

func (p policy) Do(ctx context.Context, next failure.Next) (any, error) { return p(ctx, next) }

func TestCallOrder(t *testing.T) {
	var order []string
	layer := func(name string) failure.Policy {
		return policy(func(ctx context.Context, next failure.Next) (any, error) {
			order = append(order, name)
			return next(ctx)
		})
	}
	got, err := failure.Call(t.Context(), func(context.Context) (int, error) {
		order = append(order, "call")
		return 7, errBoom
	}, layer("outer"), layer("middle"), layer("inner"))
	if got != 7 || err != errBoom {
		t.Errorf("Call = %d, %v, want the value and the error of the function", got, err)
	}
	if got := strings.Join(order, " "); got != "outer middle inner call" {
		t.Errorf("order %q", got)
	}
	if got, err := failure.Call(t.Context(), func(context.Context) (int, error) { return 7, nil }); got != 7 || err != nil {
		t.Errorf("Call without policies = %d, %v", got, err)
	}
}

func TestCallTypes(t *testing.T) {
	pass := policy(func(ctx context.Context, next failure.Next) (any, error) { return next(ctx) })
	if r, err := failure.Call(t.Context(), func(context.Context) (io.Reader, error) { return nil, nil }, pass); r != nil || err != nil {
		t.Errorf("Call of a nil interface = %v, %v, want nil, nil", r, err)
	}
	if p, err := failure.Call(t.Context(), func(context.Context) (*int, error) { return nil, nil }, pass); p != nil || err != nil {
		t.Errorf("Call of a nil pointer = %v, %v, want nil, nil", p, err)
	}
	never := func(context.Context) (int, error) { t.Error("called"); return 0, nil }
	for name, policies := range map[string][]failure.Policy{
		"another type": {policy(func(context.Context, failure.Next) (any, error) { return "seven", nil })},
		"nothing":      {policy(func(context.Context, failure.Next) (any, error) { return nil, nil })},
		"outer nil":    {nil, pass},
		"inner nil":    {pass, nil},
	} {
		if _, err := failure.Call(t.Context(), never, policies...); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("Call with a policy of %s: error = %v, want ErrInvalid", name, err)
		}
	}
	if _, err := failure.Call[int](t.Context(), nil, pass); !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("Call(nil) error = %v, want ErrInvalid", err)
	}
	if _, err := failure.Call(t.Context(), never, policy(func(context.Context, failure.Next) (any, error) { return "x", errBoom })); err != errBoom {
		t.Errorf("Call error = %v, want the policy's own", err)
	}
}

// Options that make no sense are told from the first call, which is not made.
func TestInvalidOptions(t *testing.T) {
	nan := 0.0
	nan /= nan
	type O = failure.BreakerOptions
	named := func(o O) O { o.Name = "x"; return o }
	policies := map[string]failure.Policy{
		"no time":           failure.NewTimeout(0, nil),
		"negative time":     failure.NewTimeout(-time.Second, &failure.TimeoutOptions{Abandon: true}),
		"base over max":     failure.NewRetry(&failure.RetryOptions{Base: time.Minute, Max: time.Second}),
		"budget over one":   failure.NewRetry(&failure.RetryOptions{Budget: failure.NewBudget(&failure.BudgetOptions{Ratio: 1.1})}),
		"budget NaN":        failure.NewRetry(&failure.RetryOptions{Budget: failure.NewBudget(&failure.BudgetOptions{PerSecond: nan})}),
		"budget endless":    failure.NewRetry(&failure.RetryOptions{Budget: failure.NewBudget(&failure.BudgetOptions{PerSecond: 1e7})}),
		"no fallback":       failure.NewFallback[int](nil, nil),
		"no driver":         failure.NewSharedBreaker(nil, &failure.SharedOptions{Breaker: O{Name: "x"}}),
		"nil Redis driver":  failure.NewSharedBreaker((*failure.RedisDriver)(nil), &failure.SharedOptions{Breaker: O{Name: "x"}}),
		"nil memory driver": failure.NewSharedBreaker((*failure.MemoryDriver)(nil), &failure.SharedOptions{Breaker: O{Name: "x"}}),
		"no client":         failure.NewRedisBreaker(nil, &failure.SharedOptions{Breaker: O{Name: "x"}}),
	}
	for name, o := range map[string]O{
		"both rules off":    {Failures: -1, Ratio: -1},
		"ratio over one":    {Ratio: 1.5},
		"ratio NaN":         {Ratio: nan},
		"negative calls":    {MinCalls: -1},
		"negative window":   {Window: -1},
		"tiny window":       {Window: time.Millisecond},
		"negative open":     {OpenFor: -time.Second},
		"shrinking open":    {OpenFor: time.Minute, MaxOpenFor: time.Second},
		"negative probes":   {Probes: -1},
		"endless probe":     {ProbeTimeout: -1},
		"negative patience": {Patience: -1},
	} {
		policies[name] = failure.NewLocalBreaker(&o)
		policies["shared, "+name] = failure.NewSharedBreaker(failure.NewMemoryDriver(), &failure.SharedOptions{Breaker: named(o)})
	}
	for name, o := range map[string]failure.SharedOptions{
		"no name":          {},
		"negative quorum":  {Breaker: O{Name: "x"}, Quorum: -1},
		"quorum over one":  {Breaker: O{Name: "x"}, QuorumRatio: 2},
		"quorum NaN":       {Breaker: O{Name: "x"}, QuorumRatio: nan},
		"negative poll":    {Breaker: O{Name: "x"}, Poll: -1},
		"negative timeout": {Breaker: O{Name: "x"}, Timeout: -1},
	} {
		policies[name] = failure.NewSharedBreaker(failure.NewMemoryDriver(), &o)
	}
	policies["nil shared"] = failure.NewSharedBreaker(failure.NewMemoryDriver(), nil)
	for name, p := range policies {
		for range 2 {
			_, err := failure.Call(t.Context(), func(context.Context) (int, error) {
				t.Errorf("%s: the call was made", name)
				return 0, nil
			}, p)
			if !errors.Is(err, transparency.ErrInvalid) || !strings.HasPrefix(err.Error(), "failure: ") {
				t.Errorf("%s: Call error = %v, want ErrInvalid", name, err)
			}
		}
		b, ok := p.(failure.Breaker)
		if !ok {
			continue
		}
		if permit, err := b.Allow(t.Context()); permit != nil || !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("%s: Allow = %v, %v, want nil, ErrInvalid", name, permit, err)
		}
		b.State()
		if s, ok := p.(*failure.SharedBreaker); ok {
			s.ForceOpen()
			s.Reset()
			_ = s.Stats()
			_ = s.Close()
		}
	}
}

func TestFallback(t *testing.T) {
	second := failure.NewFallback(func(_ context.Context, err error) (string, error) { return "instead of " + err.Error(), nil }, nil)
	call := func(ctx context.Context, err error, p failure.Policy) (string, error) {
		return failure.Call(ctx, func(context.Context) (string, error) { return "first", err }, p)
	}
	if got, err := call(t.Context(), nil, second); got != "first" || err != nil {
		t.Errorf("Call of a success = %q, %v", got, err)
	}
	if got, err := call(t.Context(), errBoom, second); got != "instead of boom" || err != nil {
		t.Errorf("Call of a failure = %q, %v, want the fallback's answer", got, err)
	}
	for _, hard := range []error{transparency.ErrInvalid, transparency.ErrDenied} {
		if _, err := call(t.Context(), hard, second); err != hard {
			t.Errorf("Call error = %v, want %v as it was", err, hard)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := call(ctx, errBoom, second); err != errBoom {
		t.Errorf("Call with a cancelled context: error = %v, want the call's own", err)
	}
	ctx, cancel = context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if got, _ := call(ctx, context.DeadlineExceeded, second); got != "instead of context deadline exceeded" {
		t.Errorf("Call after its deadline = %q, want the fallback's answer", got)
	}
	picky := failure.NewFallback(func(context.Context, error) (string, error) { return "", io.EOF },
		&failure.FallbackOptions{When: func(err error) bool { return err != errBoom }})
	if _, err := call(t.Context(), errBoom, picky); err != errBoom {
		t.Errorf("Call error = %v, want boom: When said no", err)
	}
	if _, err := call(t.Context(), transparency.ErrDenied, picky); !errors.Is(err, io.EOF) || !errors.Is(err, transparency.ErrDenied) {
		t.Errorf("Call error = %v, want both errors", err)
	}
}

func TestErrorText(t *testing.T) {
	for want, e := range map[string]*failure.Error{
		`failure: breaker "pay": rejected on this side: breaker open, try again in 1.5s`: {Policy: "breaker", Name: "pay", Reason: failure.ErrOpen, After: 1500 * time.Millisecond},
		`failure: retry: attempts used up after 3 attempts: boom`:                        {Policy: "retry", Reason: failure.ErrAttempts, Attempts: 3, Last: errBoom},
		`failure: retry: no time for another attempt: boom`:                              {Policy: "retry", Reason: failure.ErrNoTime, Attempts: 1, Last: errBoom},
		`failure: timeout`: {Policy: "timeout"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("Error = %q, want %q", got, want)
		}
	}
	if failure.WithRetryAfter(nil, time.Second) != nil || failure.RetryAfter(nil) != 0 || failure.RetryAfter(errBoom) != 0 {
		t.Error("RetryAfter of what has none is not zero")
	}
	err := failure.WithRetryAfter(errBoom, 2*time.Second)
	if got := failure.RetryAfter(errors.Join(io.EOF, err)); got != 2*time.Second || !errors.Is(err, errBoom) || err.Error() != "boom" {
		t.Errorf("RetryAfter = %v of %v, want 2s of boom", got, err)
	}
	if got := failure.RetryAfter(failure.WithRetryAfter(errBoom, -1)); got != 0 {
		t.Errorf("RetryAfter = %v, want 0", got)
	}
}
