package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"

	"github.com/go-transparency/transparency/failure"
)

// failureComparisons are of a call that does nothing and succeeds, through
// policies that have nothing to do for it, or of a request to a server nearby;
// and of how soon a fleet hears that its breaker is open.
var failureComparisons = []comparison{
	{name: "failure/breaker", versus: "gobreaker Execute",
		ours: breakLocal, peer: breakGobreaker, target: target{ratio: 1.6, allocs: 2}},
	{name: "failure/breaker-failsafe", versus: "failsafe-go Executor.Get",
		ours: breakLocal, peer: breakFailsafe, target: target{ratio: 0.6, allocs: 2}},
	{name: "failure/redis-breaker", versus: "LocalBreaker", redis: true,
		ours: breakRedis, peer: breakLocal, target: target{ratio: 1.5, sent: none}},
	{name: "failure/redis-parallel", versus: "gobreaker distributed, 4 callers", redis: true,
		ours: breakRedisParallel, peer: breakDistributed, target: target{ratio: 1.0 / 200}},
	{name: "failure/retry", versus: "cenkalti/backoff Retry",
		ours: retryOnce, peer: retryBackoff, target: target{ratio: 0.6}},
	{name: "failure/chain", versus: "failsafe-go, the same policies",
		ours: chainStandard, peer: chainFailsafe, target: target{ratio: 0.6}},
	{name: "failure/transport", versus: "http.Client, http.Transport",
		ours: sendThrough, peer: sendBare, target: target{ratio: 1.1}},
	{name: "failure/spread", redis: true, share: 0.99,
		ours: spreadNews, target: target{time: 50 * time.Millisecond}},
}

// The rules of all breakers that have them; what a LocalBreaker has by itself.
const (
	inRow       = failure.DefaultFailures
	failedRatio = failure.DefaultRatio
	minCalls    = failure.DefaultMinCalls
	window      = failure.DefaultWindow
	openFor     = failure.DefaultOpenFor
)

// A reply is what a call answers.
type reply struct{ _ int }

// answer is the only reply. None but the call that was guarded can give it.
var answer = new(reply)

var errBroken = errors.New("broken")

func succeed() (*reply, error)                      { return answer, nil }
func succeedWith(context.Context) (*reply, error)   { return answer, nil }
func breakDown() (*reply, error)                    { return nil, errBroken }
func breakDownWith(context.Context) (*reply, error) { return nil, errBroken }

func answered(got *reply, err error) error {
	if err == nil && got != answer {
		err = errors.New("the call was not made")
	}
	return err
}

// breakSide calls through a breaker; verify is told how many calls there were.
func breakSide(call func(context.Context) (*reply, error), verify func(ctx context.Context, calls uint64) error) *side {
	calls := uint64(0)
	op := func(ctx context.Context) error {
		calls++
		return answered(call(ctx))
	}
	return &side{op: op, verify: func(ctx context.Context) error {
		if err := op(ctx); err != nil {
			return err
		}
		return verify(ctx, calls)
	}}
}

// opens proves that a new breaker of the same making is one: when all calls
// fail, it refuses.
func opens(fail func() (*reply, error), refusal error) error {
	for range max(inRow, minCalls) {
		if _, err := fail(); err == nil {
			return errors.New("a call that failed had no error")
		}
	}
	_, err := fail()
	return refused("call through an open breaker", err, refusal)
}

func breakLocal(context.Context, *rig) (*side, error) {
	b := failure.NewLocalBreaker(nil)
	return breakSide(func(ctx context.Context) (*reply, error) {
		return failure.Call(ctx, succeedWith, b)
	}, func(ctx context.Context, calls uint64) error {
		if err := closedWith(b.Stats(), calls); err != nil {
			return err
		}
		b := failure.NewLocalBreaker(nil)
		return opens(func() (*reply, error) { return failure.Call(ctx, breakDownWith, b) }, failure.ErrOpen)
	}), nil
}

// closedWith proves that a breaker is closed and has counted so many calls.
func closedWith(s failure.Stats, calls uint64) error {
	if s.State != failure.StateClosed || s.Succeeded != calls || s.Failed+s.Ignored+s.Rejected != 0 {
		return fmt.Errorf("after %d calls the breaker says %+v", calls, s)
	}
	return nil
}

// gobreakerSettings are the rules of a LocalBreaker.
func gobreakerSettings(name string) gobreaker.Settings {
	return gobreaker.Settings{
		Name:         name,
		Interval:     window,
		BucketPeriod: window / 10,
		Timeout:      openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			judged := c.TotalSuccesses + c.TotalFailures
			return c.ConsecutiveFailures >= inRow || judged >= minCalls && float64(c.TotalFailures) >= failedRatio*float64(judged)
		},
	}
}

func breakGobreaker(context.Context, *rig) (*side, error) {
	b := gobreaker.NewCircuitBreaker[*reply](gobreakerSettings("bench"))
	return breakSide(func(context.Context) (*reply, error) {
		return b.Execute(succeed)
	}, func(_ context.Context, calls uint64) error {
		// The window moves on, so it need not have them all.
		if c := b.Counts(); b.State() != gobreaker.StateClosed || c.TotalSuccesses == 0 || c.TotalFailures != 0 {
			return fmt.Errorf("after %d calls gobreaker is %v with %+v", calls, b.State(), c)
		}
		b := gobreaker.NewCircuitBreaker[*reply](gobreakerSettings("other"))
		return opens(func() (*reply, error) { return b.Execute(breakDown) }, gobreaker.ErrOpenState)
	}), nil
}

// breakFailsafe has failures in a row alone, for failsafe-go takes one rule, and
// this is the one that costs it least.
func breakFailsafe(context.Context, *rig) (*side, error) {
	build := func() (circuitbreaker.CircuitBreaker[*reply], failsafe.Executor[*reply]) {
		b := circuitbreaker.NewBuilder[*reply]().WithFailureThreshold(inRow).WithDelay(openFor).Build()
		return b, failsafe.With(b)
	}
	b, executor := build()
	return breakSide(func(context.Context) (*reply, error) {
		return executor.Get(succeed)
	}, func(_ context.Context, calls uint64) error {
		// It remembers as many calls as its rule looks at.
		if m := b.Metrics(); !b.IsClosed() || m.Successes() == 0 || m.Failures() != 0 {
			return fmt.Errorf("after %d calls failsafe-go is %v with %d successes, %d failures", calls, b.State(), m.Successes(), m.Failures())
		}
		_, executor := build()
		return opens(func() (*reply, error) { return executor.Get(breakDown) }, circuitbreaker.ErrOpen)
	}), nil
}
