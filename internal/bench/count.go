package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
)

// counted is how many operations the counts are taken over. A count that is
// the same for every operation comes out as a whole number.
const counted = 100

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
	if err := repeat(ctx, s, 10); err != nil {
		return err
	}
	before, err := srv.commands(ctx)
	if err != nil {
		return err
	}
	trips, sent := w.counts()
	if err := repeat(ctx, s, counted); err != nil {
		return err
	}
	tripsAfter, sentAfter := w.counts()
	after, err := srv.commands(ctx)
	if err != nil {
		return err
	}
	ops := float64(counted * s.per())
	c.trips = float64(tripsAfter-trips) / ops
	c.sent = float64(sentAfter-sent) / ops
	c.run = float64(after-before) / ops
	return nil
}

// countAllocs counts the allocations of one operation, on whatever goroutine,
// in the manner of testing.AllocsPerRun: on one processor, rounded down, since
// what the runtime allocates now and then is nobody's. The median of several
// rounds is taken.
func countAllocs(ctx context.Context, s *side) (float64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	rounds := make([]uint64, 5)
	for i := range rounds {
		runtime.GC()
		if err := repeat(ctx, s, 10); err != nil {
			return 0, err
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := repeat(ctx, s, counted); err != nil {
			return 0, err
		}
		runtime.ReadMemStats(&after)
		rounds[i] = (after.Mallocs - before.Mallocs) / uint64(counted*s.per()) //nolint:gosec // not negative
	}
	slices.Sort(rounds)
	return float64(rounds[len(rounds)/2]), nil
}

func repeat(ctx context.Context, s *side, n int) error {
	for range n {
		if err := s.op(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}
