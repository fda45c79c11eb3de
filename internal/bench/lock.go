package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/go-transparency/transparency/lock"
)

// lockComparisons are of a key nobody else wants first, and then of one that
// others want too, of a Redis that pauses, and of many keys.
var lockComparisons = []comparison{
	{name: "lock/cycle", versus: "redislock Obtain, Release", redis: true,
		ours: lockRedis, peer: lockRedislock, target: target{ratio: 1.30, trips: 2}},
	{name: "lock/cycle-redsync", versus: "redsync LockContext, UnlockContext", redis: true,
		ours: lockRedis, peer: lockRedsync},
	{name: "lock/memory", ours: lockMemory, target: target{time: time.Microsecond}},

	{name: "lock/handover", versus: "rueidislock, majority 1", redis: true,
		ours: handOver, peer: handOverRueidislock, target: target{ratio: 1.2}},
	contended("lock/contended-8", 8, 0, target{ratio: 1 / 0.94, trips: 3, sent: 6},
		figure{name: "lock/contended-8-fair", unit: inTimes, target: target{most: 1.1}},
		figure{name: "lock/contended-8-wait", share: 0.99, target: target{ratio: 0.15}}),
	contended("lock/contended-32", 32, 0, target{trips: 3, sent: 6},
		figure{name: "lock/contended-32-fair", unit: inTimes},
		figure{name: "lock/contended-32-wait", share: 0.99}),
	contended("lock/contended-pause", 8, 20*time.Millisecond, target{ratio: 1 / 1.15}),

	// The worst of all pauses; obtained is the lock after each, or there is no
	// line.
	{name: "lock/pause-free", redis: true, ours: pauseFree, share: 1, target: target{time: 100 * time.Millisecond}},
	{name: "lock/pause-waited", redis: true, ours: pauseWaited, share: 1, target: target{time: 100 * time.Millisecond}},
	{name: "lock/renewals", redis: true, ours: renewMany, unit: inNumber, target: target{most: 1, trips: 0.1},
		more: []figure{{name: "lock/renewals-most", unit: inNumber}}},
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
	with := func(c *redislock.Client) locking {
		return func(ctx context.Context) (func(context.Context) error, error) {
			l, err := c.Obtain(ctx, lockKey, lockTTL, nil)
			if err != nil {
				return nil, err
			}
			return l.Release, nil
		}
	}
	return with(client).cycle(with(other), redislock.ErrNotObtained), nil
}

// lockRedsync makes a mutex for each cycle, as it is meant to be used.
func lockRedsync(_ context.Context, r *rig) (*side, error) {
	rs := redsync.New(goredis.NewPool(r.client))
	take := locking(func(ctx context.Context) (func(context.Context) error, error) {
		m := rs.NewMutex(lockKey, redsync.WithExpiry(lockTTL), redsync.WithTries(1))
		if err := m.LockContext(ctx); err != nil {
			if taken, ok := errors.AsType[*redsync.ErrTaken](err); ok {
				err = fmt.Errorf("%w: %w", redsync.ErrFailed, taken)
			}
			return nil, err
		}
		return func(ctx context.Context) error {
			ok, err := m.UnlockContext(ctx)
			if err == nil && !ok {
				err = errors.New("nothing to unlock")
			}
			return err
		}, nil
	})
	return take.cycle(take, redsync.ErrFailed), nil
}

// A locking takes a lock of one client, in whatever way, and returns what gives
// it back.
type locking func(context.Context) (unlock func(context.Context) error, err error)

// leasing takes leases of m, whose fences must rise; fence is written by who has
// the lock, and read by the next.
func leasing(m lock.Mutex, fence *atomic.Uint64) locking {
	return func(ctx context.Context) (func(context.Context) error, error) {
		lease, err := m.Lock(ctx)
		if err != nil {
			return nil, err
		}
		if last := fence.Swap(lease.Fence()); lease.Fence() <= last {
			return nil, fmt.Errorf("fence %d after %d", lease.Fence(), last)
		}
		return lease.Unlock, nil
	}
}

// twoLockers are two processes, as it were: Lockers with a client each, and
// their views of one lock. heldElsewhere proves that another has it.
func twoLockers(r *rig) (first, second locking, heldElsewhere func(context.Context) error, closeAll func() error) {
	opts := &lock.Options{TTL: lockTTL}
	client := newClient(r)
	a, b, c := lock.NewRedis(r.client, opts), lock.NewRedis(client, opts), lock.NewRedis(r.client, opts)
	fence := new(atomic.Uint64)
	return leasing(a.Mutex(lockKey, nil), fence), leasing(b.Mutex(lockKey, nil), fence),
		func(ctx context.Context) error {
			_, err := c.Mutex(lockKey, nil).TryLock(ctx)
			return refused("lock while held", err, lock.ErrHeld)
		}, func() error { return errors.Join(a.Close(), b.Close(), c.Close(), client.Close()) }
}

// cycle is a side that takes the lock and gives it back; other is the same lock,
// seen from another client, which does not wait.
func (l locking) cycle(other locking, held error) *side {
	once := func(ctx context.Context, l locking) error {
		unlock, err := l(ctx)
		if err != nil {
			return err
		}
		return unlock(ctx)
	}
	return &side{
		op: func(ctx context.Context) error { return once(ctx, l) },
		verify: func(ctx context.Context) error {
			unlock, err := l(ctx)
			if err != nil {
				return err
			}
			_, err = other(ctx)
			if err := refused("lock while held", err, held); err != nil {
				return err
			}
			if err := unlock(ctx); err != nil {
				return err
			}
			if err := once(ctx, other); err != nil {
				return fmt.Errorf("lock after unlock: %w", err)
			}
			return nil
		},
	}
}
