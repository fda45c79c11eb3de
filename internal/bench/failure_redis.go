package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/go-transparency/transparency/failure"
	"github.com/go-transparency/transparency/internal/rediskit"
)

const (
	breakerName = "bench"
	// callers call at once where the line says so.
	callers = 4
)

// newRedisBreaker returns a breaker with defaults all through: while it is
// timed it goes on looking at Redis once a second.
func newRedisBreaker(r *rig, name string) *failure.SharedBreaker {
	return failure.NewRedisBreaker(r.client, &failure.SharedOptions{Breaker: failure.BreakerOptions{Name: name}})
}

func breakRedis(ctx context.Context, r *rig) (*side, error) {
	b := newRedisBreaker(r, breakerName)
	s := breakSide(callThrough(b), func(ctx context.Context, calls uint64) error {
		return verifyRedisBreaker(ctx, r, b, calls)
	})
	return joined(ctx, r, b, s)
}

func breakRedisParallel(ctx context.Context, r *rig) (*side, error) {
	b := newRedisBreaker(r, breakerName)
	// So many that it hardly shows how long the callers take to start, and so
	// few that all are counted between two looks at Redis.
	s := parallelSide(250, callThrough(b), func(ctx context.Context, calls uint64) error {
		return verifyRedisBreaker(ctx, r, b, calls)
	})
	return joined(ctx, r, b, s)
}

func callThrough(b failure.Breaker) func(context.Context) (*reply, error) {
	return func(ctx context.Context) (*reply, error) { return failure.Call(ctx, succeedWith, b) }
}

// parallelSide is breakSide with several callers, each making n calls in an op.
func parallelSide(n int, call func(context.Context) (*reply, error), verify func(ctx context.Context, calls uint64) error) *side {
	calls := uint64(0)
	op := func(ctx context.Context) error {
		var all sync.WaitGroup
		var errs [callers]error
		for i := range errs {
			all.Go(func() {
				for range n {
					if err := answered(call(ctx)); err != nil {
						errs[i] = err
						return
					}
				}
			})
		}
		all.Wait()
		calls += uint64(callers * n) //nolint:gosec // not negative
		return errors.Join(errs[:]...)
	}
	return &side{op: op, batch: callers * n, verify: func(ctx context.Context) error {
		if err := op(ctx); err != nil {
			return err
		}
		return verify(ctx, calls)
	}}
}

// quiet is how long a breaker must have said nothing for its next look to be
// far off.
const quiet = 100 * time.Millisecond

// joined returns s once its breaker, by a first call, belongs to the fleet: it
// hears the news, has said that it lives, and has no more to say for now. Else
// what happens once would be counted as if it happened with each call.
func joined(ctx context.Context, r *rig, b *failure.SharedBreaker, s *side) (*side, error) {
	s.close = b.Close
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := s.op(ctx)
	channel := rediskit.Key("breaker:", breakerName, ":wake")
	for last, since := uint64(0), time.Now(); err == nil; err = errors.Join(err, pause(ctx)) {
		var heard map[string]int64
		heard, err = r.client.PubSubNumSub(ctx, channel).Result()
		now := b.Stats()
		switch {
		case now.Exchanged != last || now.Live != 1 || heard[channel] != 1:
			last, since = now.Exchanged, time.Now()
		case time.Since(since) > quiet:
			return s, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("join the fleet: %w", err), b.Close())
}

func verifyRedisBreaker(ctx context.Context, r *rig, b *failure.SharedBreaker, calls uint64) error {
	s := b.Stats()
	if err := closedWith(s.Stats, calls); err != nil {
		return err
	}
	if s.Missed != 0 || s.Live != 1 {
		return fmt.Errorf("the breaker missed %d of %d exchanges, and knows of %d instances", s.Missed, s.Missed+s.Exchanged, s.Live)
	}
	other := newRedisBreaker(r, "other")
	err := opens(func() (*reply, error) { return failure.Call(ctx, breakDownWith, other) }, failure.ErrOpen)
	return errors.Join(err, other.Close())
}

// breakDistributed is one breaker in one process, which is kind to it: callers
// elsewhere would have to try for its lock until they get it.
func breakDistributed(_ context.Context, r *rig) (*side, error) {
	build := func(name string) (*gobreaker.DistributedCircuitBreaker[*reply], error) {
		settings := gobreaker.Settings{Name: name, Timeout: openFor, ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= inRow
		}}
		return gobreaker.NewDistributedCircuitBreaker[*reply](&sharedState{client: r.client}, settings)
	}
	b, err := build(breakerName)
	if err != nil {
		return nil, err
	}
	return parallelSide(5, func(context.Context) (*reply, error) {
		return b.Execute(succeed)
	}, func(_ context.Context, calls uint64) error {
		state, err := b.State()
		if err != nil {
			return err
		}
		// A call reads the counts before it has the lock, so calls at the same
		// time lose counts; there must be some.
		if c := b.Counts(); state != gobreaker.StateClosed || c.TotalSuccesses == 0 || c.TotalFailures != 0 {
			return fmt.Errorf("after %d calls gobreaker is %v with %+v", calls, state, c)
		}
		other, err := build("other")
		if err != nil {
			return err
		}
		return opens(func() (*reply, error) { return other.Execute(breakDown) }, gobreaker.ErrOpenState)
	}), nil
}

// sharedState is gobreaker's store in Redis by the least that works: four
// commands a call, and a lock that is given back without a look whether it is
// still held. Who waits does so in memory, in line, for gobreaker would sleep
// for half a second.
type sharedState struct {
	client *redis.Client
	line   sync.Mutex
}

var _ gobreaker.SharedDataStore = (*sharedState)(nil)

func (s *sharedState) Lock(name string) error {
	s.line.Lock()
	err := s.client.Do(context.Background(), "SET", name, "", "NX", "PX", (5 * time.Second).Milliseconds()).Err()
	if err != nil { // redis.Nil if it is held
		s.line.Unlock()
	}
	return err
}

func (s *sharedState) Unlock(name string) error {
	defer s.line.Unlock()
	return s.client.Del(context.Background(), name).Err()
}

func (s *sharedState) GetData(name string) ([]byte, error) {
	data, err := s.client.Get(context.Background(), name).Bytes()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return data, err
}

func (s *sharedState) SetData(name string, data []byte) error {
	return s.client.Set(context.Background(), name, data, 0).Err()
}
