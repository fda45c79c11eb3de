package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// turnLength is how long one turn of one side is meant to take: long enough
// for the clock, short enough that the machine is the same for both of a pair.
const turnLength = 4 * time.Millisecond

// long is how many times fewer turns there are of trials: they take about a
// second, where other turns take some milliseconds.
const long = 10

// alternate lets the sides take turns, in an order that is drawn anew for each
// round, and returns what was found in each turn. The first rounds warm up and
// are thrown away.
func alternate(ctx context.Context, sides []*side, turns int) ([][]trial, error) {
	// A collection in a turn would charge it with the garbage of others, so
	// collections happen before turns, outside their time.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	warmUp := max(3, turns/20)
	ops := make([]int, len(sides))
	found := make([][]trial, len(sides))
	if slices.ContainsFunc(sides, func(s *side) bool { return s.trial != nil }) {
		turns, warmUp = max(minTurns, turns/long), 1
	}
	for i, s := range sides {
		var err error
		if ops[i], err = calibrate(ctx, s); err != nil {
			return nil, err
		}
		found[i] = make([]trial, 0, turns)
	}
	order := rand.New(rand.NewPCG(1, 2)) // shuffled, and the same in every run
	for n := range warmUp + turns {
		for _, i := range order.Perm(len(sides)) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			t, err := take(ctx, sides[i], ops[i])
			if err != nil {
				return nil, err
			}
			if n >= warmUp {
				found[i] = append(found[i], t)
			}
		}
	}
	return found, nil
}

// take takes one turn: a trial, or n times op.
func take(ctx context.Context, s *side, n int) (trial, error) {
	if s.trial != nil {
		runtime.GC()
		return s.trial(ctx)
	}
	took, err := turn(ctx, s, n)
	if err == nil && took <= 0 {
		err = errors.New("a turn took no time by the clock")
	}
	ops := n * s.per()
	return trial{ops: ops, samples: [][]float64{{float64(took) / float64(ops)}}}, err
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

// calibrate returns how many times op fills a turn. A trial does once.
func calibrate(ctx context.Context, s *side) (int, error) {
	if s.trial != nil {
		return 1, nil
	}
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
