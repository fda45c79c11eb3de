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
	unit   unit    // of what is found; time unless told
	share  float64 // the quantile of it that counts, 0 for the median
	more   []figure
}

// A figure is one more thing that the trials of a comparison find, with a line
// of its own.
type figure struct {
	name   string
	unit   unit
	share  float64
	target target
}

// lines are c itself, and c as it is for each further figure.
func (c comparison) lines() []comparison {
	all := []comparison{c}
	for _, f := range c.more {
		c.name, c.unit, c.share, c.target = f.name, f.unit, f.share, f.target
		all = append(all, c)
	}
	return all
}

// A setup makes one side of a comparison ready. The two sides get rigs that
// differ in nothing but the connections.
type setup func(context.Context, *rig) (*side, error)

// A rig is what a side works with.
type rig struct {
	client *redis.Client // nil without a redis-server
	server *server       // likewise
}

// A side is one half of a comparison, set up.
type side struct {
	// op does the operation once. It is what is timed, so it looks at no more
	// than its own answer, which must be the right one.
	op func(context.Context) error
	// batch is how many operations op does, where it takes several to do them
	// as they are meant. Zero means one.
	batch int
	// trial stands in place of op where more has to be seen than how long one
	// operation takes after another. It is a whole turn, and times itself.
	trial func(context.Context) (trial, error)
	// verify proves that op does its work. It is called before the first turn
	// and after the last, never between.
	verify func(context.Context) error
	// close, which may be nil, gives back what setup took.
	close func() error
}

// A trial is what was found in one turn.
type trial struct {
	ops     int         // that counts are divided by; of zero, there are none
	samples [][]float64 // of each figure, in its unit
}

// An effort is how much trials do.
type effort struct {
	trial       time.Duration // of a trial whose length is free
	leases      int           // held at once
	connections int           // idle at once
}

// full is the effort of this program; its tests make do with less.
var full = effort{trial: time.Second, leases: 10_000, connections: 10_000}

// per returns how many operations op does.
func (s *side) per() int { return max(s.batch, 1) }

// A target is what a comparison must reach; a zero field asks for nothing.
type target struct {
	ratio  float64       // at most so many times the peer's time
	time   time.Duration // at most so long
	most   float64       // at most so much, in the unit, where that is no time
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
	ours, peer           estimate // ns per operation, or in the unit
	ratio                estimate
	oursCount, peerCount counts
}

// missed reports whether r falls short of t.
func (t target) missed(r result) bool {
	over := func(got, most float64) bool { return most != 0 && !(got <= max(most, 0)) } // NaN is over
	return over(r.ratio.median, t.ratio) || over(r.ours.median, float64(t.time)) || over(r.ours.median, t.most) ||
		over(r.oursCount.trips, t.trips) || over(r.oursCount.sent, t.sent) || over(r.oursCount.allocs, t.allocs)
}

// perform sets c up twice: for the counts, and then, with bare connections,
// for the times. It returns a result for each line.
func perform(ctx context.Context, c comparison, srv *server, turns int) ([]result, error) {
	setups, found := []setup{c.ours}, []counts{{}}
	if c.peer != nil {
		setups, found = append(setups, c.peer), append(found, counts{})
	}
	if srv != nil {
		for i, set := range setups {
			if err := countCommands(ctx, set, srv, &found[i]); err != nil {
				return nil, err
			}
		}
		if err := srv.flush(ctx); err != nil {
			return nil, err
		}
	}

	sides := make([]*side, len(setups))
	for i, set := range setups {
		s, done, err := prepare(ctx, set, srv, nil)
		if err != nil {
			return nil, err
		}
		defer done()
		if found[i].allocs, err = countAllocs(ctx, s); err != nil {
			return nil, err
		}
		sides[i] = s
	}
	trials, err := alternate(ctx, sides, turns)
	if err != nil {
		return nil, err
	}
	for _, s := range sides {
		if err := s.verify(ctx); err != nil {
			return nil, fmt.Errorf("verify after the last turn: %w", err)
		}
	}
	results := make([]result, 0, 1)
	for i, l := range c.lines() {
		r, err := resultOf(l.share, i, trials)
		if err != nil {
			return nil, err
		}
		r.oursCount, r.peerCount = noCounts, noCounts
		if i == 0 {
			r.oursCount, r.peerCount = found[0], found[len(found)-1]
		}
		results = append(results, r)
	}
	return results, nil
}

// prepare sets a side up and verifies that it works. With a wire, its
// connections are counted there.
func prepare(ctx context.Context, set setup, srv *server, w *wire) (*side, func(), error) {
	r, done := &rig{}, func() {}
	if srv != nil {
		r.client, r.server = redis.NewClient(srv.options(w)), srv
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
