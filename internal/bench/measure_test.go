package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Twice the work takes about twice the time, on whatever machine and however
// busy it is.
func TestRatioOfKnownWork(t *testing.T) {
	for _, tt := range []struct {
		ours, peer int
		want       float64
	}{{20_000, 10_000, 2}, {10_000, 10_000, 1}, {5_000, 20_000, 0.25}} {
		results, err := perform(t.Context(), comparison{ours: fake(tt.ours), peer: fake(tt.peer)}, nil, 60)
		if err != nil || len(results) != 1 {
			t.Fatalf("perform = %d results, %v, want one", len(results), err)
		}
		r := results[0]
		if got := r.ratio.median; got < 0.75*tt.want || got > 1.33*tt.want {
			t.Errorf("ratio of %d to %d spins = %v, want about %v", tt.ours, tt.peer, r.ratio, tt.want)
		}
		if r.ratio.low > r.ratio.median || r.ratio.median > r.ratio.high || r.ours.median <= 0 {
			t.Errorf("result = %+v, want a median within its interval and a time", r)
		}
	}
}

// Either side comes first about as often as the other, and each has one turn
// a pair.
func TestTurnsAreShuffled(t *testing.T) {
	const turns = 40
	var order []int
	log := func(i int) *side {
		s, _ := fake(1_000_000)(t.Context(), nil) // one operation or a few fill a turn
		spin := s.op
		s.op = func(ctx context.Context) error {
			if len(order) == 0 || order[len(order)-1] != i {
				order = append(order, i)
			}
			return spin(ctx)
		}
		return s
	}
	found, err := alternate(t.Context(), []*side{log(0), log(1)}, turns)
	if err != nil || len(found[0]) != turns || len(found[1]) != turns {
		t.Fatalf("alternate = %d and %d turns, %v, want %d of each", len(found[0]), len(found[1]), err, turns)
	}
	// Two turns of one side in a row appear as one, so a strict alternation
	// would show all of them and a shuffle shows about three quarters.
	if n := len(order); n < turns || n >= 2*turns {
		t.Errorf("the sides changed %d times in %d pairs, want a shuffle", n, turns)
	}
}

// An operation that takes as long as it should is done as often as fills a turn,
// and one that is held up, on a busy machine, less often.
func TestCalibrateFillsATurn(t *testing.T) {
	const most = 40
	s := &side{op: func(context.Context) error {
		for begin := time.Now(); time.Since(begin) < turnLength/most; {
		}
		return nil
	}}
	best := 0
	for tries := 0; tries < 100 && best < most/2; tries++ {
		n, err := calibrate(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		best = max(best, n)
	}
	if best < most/2 || best > most {
		t.Errorf("calibrate = %d at best, want %d to %d", best, most/2, most)
	}
}

// What an op of several operations took and left behind is divided among them.
func TestBatch(t *testing.T) {
	batch := func(n int) setup {
		return func(ctx context.Context, r *rig) (*side, error) {
			s, err := fake(1000)(ctx, r)
			one := s.op
			s.batch = n
			s.op = func(ctx context.Context) error {
				for range n {
					if err := one(ctx); err != nil {
						return err
					}
					sink = make([]byte, 16)
				}
				return nil
			}
			return s, err
		}
	}
	results, err := perform(t.Context(), comparison{ours: batch(8), peer: batch(1)}, nil, 60)
	if err != nil {
		t.Fatal(err)
	}
	r := results[0]
	if got := r.ratio.median; got < 0.75 || got > 1.33 {
		t.Errorf("ratio of the same work by eight = %v, want about 1", r.ratio)
	}
	if r.oursCount.allocs != 1 || r.peerCount.allocs != 1 {
		t.Errorf("allocs = %v and %v, want 1 and 1", r.oursCount.allocs, r.peerCount.allocs)
	}
}

func TestTurnStopsAtTheFirstFailure(t *testing.T) {
	calls, bad := 0, errors.New("bad")
	s := &side{op: func(context.Context) error {
		if calls++; calls == 5 {
			return bad
		}
		return nil
	}}
	if _, err := turn(t.Context(), s, 100); err != bad || calls != 5 {
		t.Errorf("turn = %v after %d operations, want the error at the 5th", err, calls)
	}
}

var sink []byte

func TestAllocsAreExact(t *testing.T) {
	for _, want := range []int{0, 1, 7} {
		s := &side{op: func(context.Context) error {
			for i := range want {
				sink = make([]byte, 16+i)
			}
			return nil
		}}
		if got, err := countAllocs(t.Context(), s); err != nil || got != float64(want) {
			t.Errorf("countAllocs = %v, %v, want %d", got, err, want)
		}
	}
}
