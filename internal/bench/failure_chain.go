package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

func retryOnce(context.Context, *rig) (*side, error) {
	retry := failure.NewRetry(nil)
	return retrySide(func(ctx context.Context, fn guarded) (*reply, error) { return failure.Call(ctx, fn, retry) }), nil
}

// retryBackoff has no options, which cost by the call.
func retryBackoff(context.Context, *rig) (*side, error) {
	return retrySide(func(ctx context.Context, fn guarded) (*reply, error) {
		return backoff.Retry(ctx, func() (*reply, error) { return fn(ctx) })
	}), nil
}

// A guarded is a call that policies are put around.
type guarded = func(context.Context) (*reply, error)

func retrySide(call func(context.Context, guarded) (*reply, error)) *side {
	return &side{
		op:     func(ctx context.Context) error { return answered(call(ctx, succeedWith)) },
		verify: func(ctx context.Context) error { return repeats(ctx, call) },
	}
}

// repeats proves that a call which fails is made again.
func repeats(ctx context.Context, call func(context.Context, guarded) (*reply, error)) error {
	made := 0
	err := answered(call(ctx, func(context.Context) (*reply, error) {
		if made++; made == 1 {
			return nil, transparency.ErrUnavailable
		}
		return answer, nil
	}))
	if err == nil && made != 2 {
		err = fmt.Errorf("a call that failed once was made %d times", made)
	}
	return err
}

// A chain is a retry, a breaker, a time limit and a bulkhead around a call, from
// the outside.
type chain struct {
	call                 func(context.Context, guarded) (*reply, error)
	open, timedOut, full error
	closed               func(calls uint64) error
}

const (
	chainLimit  = failure.DefaultLimit
	chainPlaces = failure.DefaultPlaces
)

// chainSide calls through a chain of defaults; others of the same making, with
// less time and fewer places, prove that each policy is one.
func chainSide(build func(limit time.Duration, places int) chain) *side {
	c := build(chainLimit, chainPlaces)
	return breakSide(func(ctx context.Context) (*reply, error) {
		return c.call(ctx, succeedWith)
	}, func(ctx context.Context, calls uint64) error {
		if err := c.closed(calls); err != nil {
			return err
		}
		if err := repeats(ctx, build(chainLimit, chainPlaces).call); err != nil {
			return err
		}
		c := build(chainLimit, chainPlaces)
		if err := opens(func() (*reply, error) { return c.call(ctx, breakDownWith) }, c.open); err != nil {
			return err
		}
		c = build(5*time.Millisecond, chainPlaces)
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := c.call(bounded, func(ctx context.Context) (*reply, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if err := refused("call that hangs", err, c.timedOut); err != nil {
			return err
		}
		c = build(chainLimit, 1)
		var within error
		err = answered(c.call(ctx, func(ctx context.Context) (*reply, error) {
			if within == nil {
				_, within = c.call(ctx, succeedWith)
			}
			return answer, nil
		}))
		return errors.Join(err, refused("call without a place", within, c.full))
	})
}

func chainStandard(context.Context, *rig) (*side, error) {
	return chainSide(func(limit time.Duration, places int) chain {
		breaker := failure.NewLocalBreaker(nil)
		bounds := failure.BulkheadOptions{Places: places}
		if places < chainPlaces {
			bounds.Queue = -1 // nobody waits in vain
		}
		policies := &failure.Standard{
			Retry:    failure.NewRetry(nil),
			Breaker:  breaker,
			Timeout:  failure.NewTimeout(limit, nil),
			Bulkhead: failure.NewBulkhead(&bounds),
		}
		return chain{
			call:   func(ctx context.Context, fn guarded) (*reply, error) { return failure.Call(ctx, fn, policies) },
			open:   failure.ErrOpen,
			closed: func(calls uint64) error { return closedWith(breaker.Stats(), calls) },
			full:   failure.ErrFull, timedOut: failure.ErrTimeout,
		}
	}), nil
}

// chainFailsafe gets the context of the caller, and gives the call its own, as
// the time limit needs. It has the rules that cost failsafe-go least: failures in a row, no
// pause between attempts, and nobody who waits for a place.
func chainFailsafe(context.Context, *rig) (*side, error) {
	return chainSide(func(limit time.Duration, places int) chain {
		breaker := circuitbreaker.NewBuilder[*reply]().WithFailureThreshold(inRow).WithDelay(openFor).Build()
		executor := failsafe.With(
			retrypolicy.NewBuilder[*reply]().WithMaxAttempts(failure.DefaultAttempts).Build(),
			breaker,
			timeout.New[*reply](limit),
			bulkhead.New[*reply](uint(places)), //nolint:gosec // not negative
		)
		return chain{
			call: func(ctx context.Context, fn guarded) (*reply, error) {
				return executor.WithContext(ctx).GetWithExecution(func(e failsafe.Execution[*reply]) (*reply, error) {
					return fn(e.Context())
				})
			},
			open: circuitbreaker.ErrOpen, timedOut: timeout.ErrExceeded, full: bulkhead.ErrFull,
			closed: func(calls uint64) error {
				if m := breaker.Metrics(); !breaker.IsClosed() || m.Successes() == 0 || m.Failures() != 0 {
					return fmt.Errorf("after %d calls failsafe-go is %v with %d successes, %d failures", calls, breaker.State(), m.Successes(), m.Failures())
				}
				return nil
			},
		}
	}), nil
}
