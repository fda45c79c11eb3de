package main

import (
	"context"
	"errors"
	"time"
)

// pauseLength is longer than the time in which who is handed a lock has to take
// it.
const pauseLength = 60 * time.Millisecond

// pauseFree has a lock asked for while Redis pauses; what counts is the time
// from the end of the pause.
func pauseFree(ctx context.Context, r *rig) (*side, error) {
	return pauseSide(ctx, r, func(ctx context.Context, _, second locking) (time.Duration, error) {
		if err := r.server.freeze(); err != nil {
			return 0, err
		}
		got := wait(ctx, second)
		thawed, err := r.server.thawAfter(ctx, pauseLength)
		next := <-got
		if err := errors.Join(err, next.err); err != nil {
			return 0, err
		}
		return next.at.Sub(thawed), next.unlock(ctx)
	})
}

// pauseWaited has a lock waited for, and Redis pauses about when it is given
// back: a bit before, so that the release has to wait, or a bit after, so that
// the wake-up, or the waiter who was woken, has to. The time is that from the
// end of the pause again.
func pauseWaited(ctx context.Context, r *rig) (*side, error) {
	const tenth = 50 * time.Microsecond
	n := 0
	return pauseSide(ctx, r, func(ctx context.Context, first, second locking) (time.Duration, error) {
		for range 1000 {
			n++
			after := time.Duration(n%10-2) * tenth // the unlock
			took, caught, err := pauseHandOver(ctx, r.server, first, second, after)
			if caught || err != nil {
				return took, err
			}
		}
		return 0, errors.New("no pause came between an unlock and the next lock")
	})
}

// pauseHandOver pauses the server so long after an unlock, and reports whether
// the pause came before the other had the lock.
func pauseHandOver(ctx context.Context, srv *server, first, second locking, after time.Duration) (took time.Duration, caught bool, err error) {
	unlock, err := first(ctx)
	if err != nil {
		return 0, false, err
	}
	got := wait(ctx, second)
	if err := rest(ctx, settled); err != nil {
		return 0, false, errors.Join(err, unlock(ctx), (<-got).err)
	}
	released := make(chan error, 1)
	release := func() { go func() { released <- unlock(ctx) }() }
	if after >= 0 {
		release()
		for begin := time.Now(); time.Since(begin) < after; { // too short to sleep
		}
	}
	err = srv.freeze()
	if after < 0 {
		release()
	}
	thawed, late := srv.thawAfter(ctx, pauseLength)
	next := <-got
	if err := errors.Join(err, late, next.err, <-released); err != nil {
		return 0, false, err
	}
	took = next.at.Sub(thawed)
	return max(took, 0), took >= 0, next.unlock(ctx)
}

func pauseSide(ctx context.Context, r *rig, pause func(ctx context.Context, first, second locking) (time.Duration, error)) (*side, error) {
	first, second, held, closeAll := twoLockers(r)
	s := &side{
		trial: func(ctx context.Context) (trial, error) {
			took, err := pause(ctx, first, second)
			return trial{ops: 1, samples: [][]float64{{float64(took)}}}, err
		},
		verify: func(ctx context.Context) error {
			for _, l := range []locking{first, second} {
				unlock, err := l(ctx)
				if err != nil {
					return err
				}
				if err := errors.Join(held(ctx), unlock(ctx)); err != nil {
					return err
				}
			}
			return nil
		},
		close: closeAll,
	}
	// Scripts are loaded and connections open before the first pause.
	if err := s.verify(ctx); err != nil {
		return nil, errors.Join(err, closeAll())
	}
	return s, nil
}

// thawAfter ends a freeze once d has passed, or ctx has ended, and returns when
// that was.
func (s *server) thawAfter(ctx context.Context, d time.Duration) (time.Time, error) {
	err := rest(ctx, d)
	at := time.Now()
	return at, errors.Join(err, s.thaw())
}
