package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A comparison is one line of the report: an operation of this module against
// the one of a peer that a user would otherwise take.
type comparison struct {
	name   string // begins with the package
	versus string // what the peer does; empty for an absolute line, which has no peer
	redis  bool   // whether it needs a redis-server
	ours   setup
	peer   setup // nil for an absolute line
	target target
}

// A setup makes one side of a comparison ready. The two sides get rigs that
// differ in nothing but the connections.
type setup func(context.Context, *rig) (*side, error)

// A rig is what a side works with.
type rig struct {
	client *redis.Client // nil without a redis-server
}

// A side is one half of a comparison, set up.
type side struct {
	// op does the operation once. It is what is timed, so it looks at no more
	// than its own answer, which must be the right one.
	op func(context.Context) error
	// batch is how many operations op does, where it takes several to do them
	// as they are meant. Zero means one.
	batch int
	// verify proves that op does its work. It is called before the first turn
	// and after the last, never between.
	verify func(context.Context) error
	// close, which may be nil, gives back what setup took.
	close func() error
}

// per returns how many operations op does.
func (s *side) per() int { return max(s.batch, 1) }

// A target is what a comparison must reach; a zero field asks for nothing.
type target struct {
	ratio  float64       // at most so many times the peer's time
	time   time.Duration // at most so long
	trips  float64       // at most so many round trips, or none
	sent   float64       // at most so many commands sent, or none
	allocs float64       // at most so many allocations, or none
}

// none as a target says that there must be none at all.
const none = -1

// counts are averages per operation.
type counts struct {
	trips  float64 // round trips
	sent   float64 // commands sent by the client
	run    float64 // commands run by the server, those of scripts included
	allocs float64
}

// A result is what was found for one comparison.
type result struct {
	ours, peer           estimate // ns per operation
	ratio                estimate
	oursCount, peerCount counts
}

// missed reports whether r falls short of t.
func (t target) missed(r result) bool {
	over := func(got, most float64) bool { return most != 0 && !(got <= max(most, 0)) } // NaN is over
	return over(r.ratio.median, t.ratio) || over(r.ours.median, float64(t.time)) ||
		over(r.oursCount.trips, t.trips) || over(r.oursCount.sent, t.sent) || over(r.oursCount.allocs, t.allocs)
}

// perform sets c up twice: for the counts, and then, with bare connections,
// for the times.
func perform(ctx context.Context, c comparison, srv *server, turns int) (result, error) {
	var r result
	setups, found := []setup{c.ours}, []*counts{&r.oursCount}
	if c.peer != nil {
		setups, found = append(setups, c.peer), append(found, &r.peerCount)
	}
	if srv != nil {
		for i, set := range setups {
			if err := countCommands(ctx, set, srv, found[i]); err != nil {
				return r, err
			}
		}
		if err := srv.flush(ctx); err != nil {
			return r, err
		}
	}

	sides := make([]*side, len(setups))
	for i, set := range setups {
		s, done, err := prepare(ctx, set, srv, nil)
		if err != nil {
			return r, err
		}
		defer done()
		if found[i].allocs, err = countAllocs(ctx, s); err != nil {
			return r, err
		}
		sides[i] = s
	}
	samples, err := alternate(ctx, sides, turns)
	if err != nil {
		return r, err
	}
	for _, s := range sides {
		if err := s.verify(ctx); err != nil {
			return r, fmt.Errorf("verify after the last turn: %w", err)
		}
	}
	r.ours = estimateMedian(samples[0])
	if c.peer != nil {
		r.peer = estimateMedian(samples[1])
		r.ratio = estimateMedian(ratios(samples[0], samples[1]))
	}
	return r, nil
}

// prepare sets a side up and verifies that it works. With a wire, its
// connections are counted there.
func prepare(ctx context.Context, set setup, srv *server, w *wire) (*side, func(), error) {
	r, done := &rig{}, func() {}
	if srv != nil {
		r.client = redis.NewClient(srv.options(w))
		done = func() { _ = r.client.Close() }
	}
	s, err := set(ctx, r)
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("set up: %w", err)
	}
	all := func() {
		if s.close != nil {
			_ = s.close()
		}
		done()
	}
	if err := s.verify(ctx); err != nil {
		all()
		return nil, nil, fmt.Errorf("verify: %w", err)
	}
	return s, all, nil
}

// pause waits a moment, for what happens in the background.
func pause(ctx context.Context) error {
	select {
	case <-time.After(time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refused returns nil when got, the error of what was done, is the one that is
// wanted: a verification that something does not work.
func refused(what string, got, want error) error {
	if errors.Is(got, want) {
		return nil
	}
	return fmt.Errorf("%s: want %w, got %s", what, want, fmt.Sprint(got))
}
