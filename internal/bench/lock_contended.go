package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"

	"github.com/go-transparency/transparency/lock"
)

const (
	// section is how long each holder keeps a lock that others want.
	section = time.Millisecond
	// polling is how often the peer asks.
	polling = 10 * time.Millisecond
)

// contended is a comparison of clients that all want one key, each with
// connections of its own, as processes have: the time of a cycle of all by
// the cycles of all; how often the quickest had the lock by the slowest; and
// how long they waited.
func contended(name string, clients int, pause time.Duration, t target, more ...figure) comparison {
	return comparison{name: name, versus: "redislock, polling at 10 ms", redis: true, target: t, more: more,
		ours: func(_ context.Context, r *rig) (*side, error) { return contendRedis(r, clients, pause), nil },
		peer: func(_ context.Context, r *rig) (*side, error) { return contendRedislock(r, clients, pause), nil }}
}

func contendRedis(r *rig, clients int, pause time.Duration) *side {
	fence := new(atomic.Uint64)
	all, closes := make([]locking, clients), make([]func() error, 0, 2*clients)
	for i := range all {
		client := newClient(r)
		locker := lock.NewRedis(client, &lock.Options{TTL: lockTTL})
		closes = append(closes, locker.Close, client.Close)
		all[i] = leasing(locker.Mutex(lockKey, nil), fence)
	}
	return contendSide(all, pause, closes)
}

func contendRedislock(r *rig, clients int, pause time.Duration) *side {
	all, closes := make([]locking, clients), make([]func() error, 0, clients)
	opts := &redislock.Options{RetryStrategy: redislock.LinearBackoff(polling)}
	for i := range all {
		client := newClient(r)
		closes = append(closes, client.Close)
		locker := redislock.New(client)
		all[i] = func(ctx context.Context) (func(context.Context) error, error) {
			l, err := locker.Obtain(ctx, lockKey, lockTTL, opts)
			if err != nil {
				return nil, err
			}
			return l.Release, nil
		}
	}
	return contendSide(all, pause, closes)
}

func contendSide(all []locking, pause time.Duration, closes []func() error) *side {
	return &side{
		trial: func(ctx context.Context) (trial, error) { return contend(ctx, all, pause, full.trial) },
		verify: func(ctx context.Context) error {
			unlock, err := all[0](ctx)
			if err != nil {
				return err
			}
			early, cancel := context.WithTimeout(ctx, 5*polling)
			defer cancel()
			if _, err := all[1](early); err == nil {
				return errors.New("lock while held: want to wait in vain")
			}
			return unlock(ctx)
		},
		close: func() error {
			var errs []error
			for _, c := range closes {
				errs = append(errs, c())
			}
			return errors.Join(errs...)
		},
	}
}

// contend lets all of them lock, keep and unlock for a while.
func contend(ctx context.Context, all []locking, pause, length time.Duration) (trial, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		running sync.WaitGroup
		inside  atomic.Int64
		errs    = make([]error, len(all))
		waits   = make([][]float64, len(all))
		last    = make([]time.Duration, len(all)) // when a cycle ended
		start   = time.Now()
	)
	for i, l := range all {
		running.Go(func() {
			for errs[i] == nil && time.Since(start) < length {
				asked := time.Now()
				unlock, err := l(ctx)
				if errs[i] = err; err != nil {
					cancel()
					return
				}
				waited := time.Since(asked)
				if n := inside.Add(1); n != 1 {
					errs[i] = fmt.Errorf("%d have the lock", n)
				}
				time.Sleep(section)
				inside.Add(-1)
				errs[i] = errors.Join(errs[i], unlock(ctx))
				waits[i], last[i] = append(waits[i], float64(waited)), time.Since(start)
				time.Sleep(pause)
			}
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return trial{}, err
	}
	fewest, most := len(waits[0]), 0
	for _, w := range waits {
		fewest, most = min(fewest, len(w)), max(most, len(w))
	}
	samples := slices.Concat(waits...)
	n := len(samples)
	return trial{ops: n, samples: [][]float64{
		{float64(slices.Max(last)) / float64(n)},
		{float64(most) / float64(max(fewest, 1))},
		samples,
	}}, nil
}
