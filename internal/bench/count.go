package main

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
)

// counted is how many operations the counts are taken over, at least. A count that is
// the same for every operation comes out as a whole number.
const counted = 100

// noCounts stand where there is nothing to count.
var noCounts = counts{math.NaN(), math.NaN(), math.NaN(), math.NaN()}

// countCommands counts the round trips and the commands of one side.
func countCommands(ctx context.Context, set setup, srv *server, c *counts) error {
	if err := srv.flush(ctx); err != nil {
		return err
	}
	w := &wire{}
	s, done, err := prepare(ctx, set, srv, w)
	if err != nil {
		return err
	}
	defer done()
	// The first operations open the connection and load the scripts.
	if _, err := repeat(ctx, s, 10); err != nil {
		return err
	}
	before, err := srv.commands(ctx)
	if err != nil {
		return err
	}
	trips, sent := w.counts()
	n, err := repeat(ctx, s, counted)
	if err != nil {
		return err
	}
	tripsAfter, sentAfter := w.counts()
	after, err := srv.commands(ctx)
	if err != nil {
		return err
	}
	if n == 0 {
		*c = noCounts
		return nil
	}
	ops := float64(n)
	c.trips = float64(tripsAfter-trips) / ops
	c.sent = float64(sentAfter-sent) / ops
	c.run = float64(after-before) / ops
	return nil
}

// countAllocs counts the allocations of one operation, on whatever goroutine,
// in the manner of testing.AllocsPerRun: on one processor, rounded down, since
// what the runtime allocates now and then is nobody's. The median of several
// rounds is taken; of a trial there is one round, which is long enough.
func countAllocs(ctx context.Context, s *side) (float64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	rounds := make([]uint64, 5)
	if s.trial != nil {
		rounds = rounds[:1]
	}
	for i := range rounds {
		runtime.GC()
		if _, err := repeat(ctx, s, 10); err != nil {
			return 0, err
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, err := repeat(ctx, s, counted)
		if err != nil {
			return 0, err
		}
		runtime.ReadMemStats(&after)
		if n == 0 {
			return noCounts.allocs, nil
		}
		rounds[i] = (after.Mallocs - before.Mallocs) / uint64(n) //nolint:gosec // not negative
	}
	slices.Sort(rounds)
	return float64(rounds[len(rounds)/2]), nil
}

// repeat does n operations, or a few more where op does several, or takes one
// trial, which has enough. It returns how many operations that were.
func repeat(ctx context.Context, s *side, n int) (done int, err error) {
	if s.trial != nil {
		t, err := s.trial(ctx)
		return t.ops, err
	}
	for done < n {
		if err := s.op(ctx); err != nil {
			return done, err
		}
		done += s.per()
	}
	return done, ctx.Err()
}
