package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"

	"github.com/go-transparency/transparency/lock"
)

// lockComparisons are of one caller that locks and unlocks a key nobody else
// wants.
var lockComparisons = []comparison{
	{name: "lock/cycle", versus: "redislock Obtain, Release", redis: true,
		ours: lockRedis, peer: lockRedislock, target: target{ratio: 1.30, trips: 2}},
	{name: "lock/memory", ours: lockMemory, target: target{time: time.Microsecond}},
}

const (
	lockKey = "bench"
	lockTTL = 10 * time.Second
)

// lockRedis has all that a lease has: a fence, renewal, a place in line. The
// first renewal comes after a third of lockTTL, so a cycle ends before it.
func lockRedis(_ context.Context, r *rig) (*side, error) {
	locker := lock.NewRedis(r.client, &lock.Options{TTL: lockTTL})
	other := lock.NewRedis(r.client, &lock.Options{TTL: lockTTL})
	return lockSide(locker, other.Mutex(lockKey, nil), func() error {
		return errors.Join(locker.Close(), other.Close())
	}), nil
}

func lockMemory(context.Context, *rig) (*side, error) {
	driver := lock.NewMemoryDriver()
	locker := lock.New(driver, &lock.Options{TTL: lockTTL})
	other := lock.New(driver, &lock.Options{TTL: lockTTL})
	return lockSide(locker, other.Mutex(lockKey, nil), func() error {
		return errors.Join(locker.Close(), other.Close())
	}), nil
}

// lockSide cycles through a lock of locker; other is the same lock, seen from
// another Locker.
func lockSide(locker *lock.Locker, other lock.Mutex, closeAll func() error) *side {
	m, fence := locker.Mutex(lockKey, nil), uint64(0)
	take := func(ctx context.Context, m lock.Mutex) (*lock.Lease, error) {
		lease, err := m.Lock(ctx)
		if err != nil {
			return nil, err
		}
		if lease.Fence() <= fence {
			return nil, fmt.Errorf("fence %d after %d", lease.Fence(), fence)
		}
		fence = lease.Fence()
		return lease, nil
	}
	return &side{
		op: func(ctx context.Context) error {
			lease, err := take(ctx, m)
			if err != nil {
				return err
			}
			return lease.Unlock(ctx)
		},
		verify: func(ctx context.Context) error {
			lease, err := take(ctx, m)
			if err != nil {
				return err
			}
			_, err = other.TryLock(ctx)
			if err := refused("lock while held", err, lock.ErrHeld); err != nil {
				return err
			}
			if held := locker.Stats().Held; held != 1 {
				return fmt.Errorf("the locker renews %d leases, not 1", held)
			}
			if err := lease.Unlock(ctx); err != nil {
				return err
			}
			if lease, err = take(ctx, other); err != nil {
				return fmt.Errorf("lock after unlock: %w", err)
			}
			return lease.Unlock(ctx)
		},
		close: closeAll,
	}
}

func lockRedislock(_ context.Context, r *rig) (*side, error) {
	client, other := redislock.New(r.client), redislock.New(r.client)
	take := func(ctx context.Context, c *redislock.Client) (*redislock.Lock, error) {
		return c.Obtain(ctx, lockKey, lockTTL, nil)
	}
	return &side{
		op: func(ctx context.Context) error {
			l, err := take(ctx, client)
			if err != nil {
				return err
			}
			return l.Release(ctx)
		},
		verify: func(ctx context.Context) error {
			l, err := take(ctx, client)
			if err != nil {
				return err
			}
			_, err = take(ctx, other)
			if err := refused("lock while held", err, redislock.ErrNotObtained); err != nil {
				return err
			}
			if err := l.Release(ctx); err != nil {
				return err
			}
			if l, err = take(ctx, other); err != nil {
				return fmt.Errorf("lock after unlock: %w", err)
			}
			return l.Release(ctx)
		},
	}, nil
}
