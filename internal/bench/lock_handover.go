package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const (
	// settled is how long it takes, amply, to be in line for a lock.
	settled = 3 * time.Millisecond
	// handOvers are those of one trial.
	handOvers = 10
	// patience is for how long a trial's waits may last, all together.
	patience = 30 * time.Second
)

// handOver has two Lockers with a client each, as two processes have.
func handOver(ctx context.Context, r *rig) (*side, error) {
	first, second, held, closeAll := twoLockers(r)
	return handOverSide(ctx, first, second, held, closeAll)
}

// handOverRueidislock has the settings that make it fast: one key, and no news
// of what a client has done itself. Its clients are rueidis's, with one
// connection each, which all calls share.
func handOverRueidislock(ctx context.Context, r *rig) (*side, error) {
	var lockers []rueidislock.Locker
	closeAll := func() error {
		for _, l := range lockers {
			l.Close()
		}
		return nil
	}
	opts := r.client.Options()
	for range 3 {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			KeyMajority: 1, KeyValidity: lockTTL, NoLoopTracking: true,
			ClientOption: rueidis.ClientOption{
				InitAddress: []string{opts.Addr}, ForceSingleClient: true,
				DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
					return opts.Dialer(ctx, "tcp", addr)
				},
			},
		})
		if err != nil {
			return nil, errors.Join(err, closeAll())
		}
		lockers = append(lockers, l)
	}
	return handOverSide(ctx, waitRueidislock(lockers[0]), waitRueidislock(lockers[1]), func(ctx context.Context) error {
		_, _, err := lockers[2].TryWithContext(ctx, lockKey)
		return refused("lock while held", err, rueidislock.ErrNotLocked)
	}, closeAll)
}

// waitRueidislock begins anew after a second. A waiter of rueidislock can wait
// for ever, on a busy machine: its first attempt may be over before it has been
// counted as failed, and then it is forgotten when news come. As the median
// counts, a second now and then is nothing; the allocations of the peer are six
// too many by it.
func waitRueidislock(l rueidislock.Locker) locking {
	return func(ctx context.Context) (func(context.Context) error, error) {
		for {
			attempt, cancel := context.WithCancel(ctx)
			forgotten := time.AfterFunc(time.Second, cancel)
			held, release, err := l.WithContext(attempt, lockKey)
			if forgotten.Stop() || ctx.Err() != nil {
				if err != nil {
					cancel()
					return nil, err
				}
				return func(context.Context) error {
					err := held.Err() // it is lost if the context has ended
					release()
					cancel()
					return err
				}, nil
			}
			if err == nil {
				release()
			}
			cancel()
		}
	}
}

// handOverSide passes a lock to and fro, and never leaves it free. What counts
// begins when the one gives it back, and ends when the other has it.
func handOverSide(ctx context.Context, holder, waiter locking, held func(context.Context) error, closeAll func() error) (*side, error) {
	waits, abandon := context.WithCancel(ctx)
	closeWaits := func() error {
		abandon()
		return closeAll()
	}
	unlock, err := holder(waits)
	if err != nil {
		return nil, errors.Join(err, closeWaits())
	}
	pass := func(ctx context.Context) (time.Duration, error) {
		got := wait(waits, waiter)
		if err := rest(ctx, settled); err != nil {
			return 0, errors.Join(err, (<-got).err)
		}
		begin := time.Now()
		if err := unlock(ctx); err != nil {
			return 0, err
		}
		next := <-got
		if next.err != nil {
			return 0, next.err
		}
		if next.at.Before(begin) {
			return 0, errors.New("two have the lock")
		}
		holder, waiter, unlock = waiter, holder, next.unlock
		return next.at.Sub(begin), nil
	}
	return &side{
		trial: func(ctx context.Context) (trial, error) {
			defer time.AfterFunc(patience, abandon).Stop()
			took := make([]float64, handOvers)
			for i := range took {
				d, err := pass(ctx)
				if err != nil {
					return trial{}, err
				}
				took[i] = float64(d)
			}
			return trial{ops: handOvers, samples: [][]float64{took}}, nil
		},
		verify: held,
		close: func() error {
			return errors.Join(unlock(context.WithoutCancel(ctx)), closeWaits())
		},
	}, nil
}

// An obtained is how a wait for a lock has ended, and when.
type obtained struct {
	at     time.Time
	unlock func(context.Context) error
	err    error
}

// wait waits for a lock in the background. The channel gets one obtained.
func wait(ctx context.Context, l locking) <-chan obtained {
	got := make(chan obtained, 1)
	go func() {
		unlock, err := l(ctx)
		got <- obtained{time.Now(), unlock, err}
	}()
	return got
}

// rest waits for d.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
