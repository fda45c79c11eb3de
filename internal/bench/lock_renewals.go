package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/go-transparency/transparency/lock"
)

// renewMany holds many leases by one Locker. A trial lasts until as many renewals
// were made, and the counts are of one renewal. What counts is how many
// goroutines the Locker has for all of them: the fewest, between renewals, and
// the most.
func renewMany(ctx context.Context, r *rig) (*side, error) {
	before := runtime.NumGoroutine()
	locker := lock.NewRedis(r.client, &lock.Options{TTL: 3 * max(full.trial, time.Second)})
	other := lock.NewRedis(r.client, nil)
	closeAll := func() error { return errors.Join(locker.Close(), other.Close()) }
	leases := make([]*lock.Lease, full.leases)
	if err := each(len(leases), func(i int) (err error) {
		leases[i], err = locker.Mutex("many:"+strconv.Itoa(i), nil).Lock(ctx)
		return err
	}); err != nil {
		return nil, errors.Join(err, closeAll())
	}
	return &side{
		trial: func(ctx context.Context) (trial, error) {
			begun, fewest, most := locker.Stats(), len(leases), 0
			for {
				now := locker.Stats()
				if now.Lost > 0 || now.RenewalsFailed > 0 || now.Held != len(leases) {
					return trial{}, fmt.Errorf("renewing %d leases, the locker says %+v", len(leases), now)
				}
				n := runtime.NumGoroutine() - before
				fewest, most = min(fewest, n), max(most, n)
				if n := int(now.Renewed - begun.Renewed); n >= len(leases) { //nolint:gosec // not negative
					return trial{ops: n, samples: [][]float64{{float64(fewest)}, {float64(most)}}}, nil
				}
				if err := pause(ctx); err != nil {
					return trial{}, err
				}
			}
		},
		verify: func(ctx context.Context) error {
			for _, i := range []int{0, len(leases) / 2, len(leases) - 1} {
				if err := leases[i].Err(); err != nil {
					return err
				}
				_, err := other.Mutex(leases[i].Key(), nil).TryLock(ctx)
				if err := refused("lock while held", err, lock.ErrHeld); err != nil {
					return err
				}
			}
			return nil
		},
		close: closeAll,
	}, nil
}
