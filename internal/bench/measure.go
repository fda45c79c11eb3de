package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"
)

// turnLength is how long one turn of one side is meant to take: long enough
// for the clock, short enough that the machine is the same for both of a pair.
const turnLength = 4 * time.Millisecond

// alternate lets the sides take turns, in an order that is drawn anew for each
// round, and returns what one operation took in each turn, in nanoseconds. The
// first rounds warm up and are thrown away.
func alternate(ctx context.Context, sides []*side, turns int) ([][]float64, error) {
	// A collection in a turn would charge it with the garbage of others, so
	// collections happen before turns, outside their time.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	ops := make([]int, len(sides))
	samples := make([][]float64, len(sides))
	for i, s := range sides {
		var err error
		if ops[i], err = calibrate(ctx, s); err != nil {
			return nil, err
		}
		samples[i] = make([]float64, 0, turns)
	}
	warmUp := max(3, turns/20)
	order := rand.New(rand.NewPCG(1, 2)) // shuffled, and the same in every run
	for n := range warmUp + turns {
		for _, i := range order.Perm(len(sides)) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			took, err := turn(ctx, sides[i], ops[i])
			if err != nil {
				return nil, err
			}
			if took <= 0 {
				return nil, errors.New("a turn took no time by the clock")
			}
			if n >= warmUp {
				samples[i] = append(samples[i], float64(took)/float64(ops[i]*sides[i].per()))
			}
		}
	}
	return samples, nil
}

// turn does op n times and returns how long that took.
func turn(ctx context.Context, s *side, n int) (time.Duration, error) {
	runtime.GC()
	// One operation refills what the collection emptied and is not timed.
	if err := s.op(ctx); err != nil {
		return 0, err
	}
	begin := time.Now()
	for range n {
		if err := s.op(ctx); err != nil {
			return 0, err
		}
	}
	return time.Since(begin), nil
}

// calibrate returns how many times op fills a turn.
func calibrate(ctx context.Context, s *side) (int, error) {
	for n := 1; ; n *= 2 {
		took, err := turn(ctx, s, n)
		if err != nil {
			return 0, err
		}
		if took < turnLength/2 {
			continue
		}
		again, err := turn(ctx, s, n)
		if err != nil {
			return 0, err
		}
		// The quicker of the two was disturbed less.
		fill := float64(turnLength) / float64(max(1, min(took, again)))
		return max(1, int(float64(n)*fill)), nil
	}
}
