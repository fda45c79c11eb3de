package failure_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// A breaker that is nil, or that no constructor made, or whose options make no
// sense, is an error of every call and of nothing else.
func TestUnfitBreaker(t *testing.T) {
	type breaker interface {
		failure.Breaker
		ForceOpen()
		Disable()
		Reset()
	}
	for name, b := range map[string]breaker{
		"nil local":          (*failure.LocalBreaker)(nil),
		"zero local":         &failure.LocalBreaker{},
		"bad local":          failure.NewLocalBreaker(&failure.BreakerOptions{Ratio: 2}),
		"nil shared":         (*failure.SharedBreaker)(nil),
		"zero shared":        &failure.SharedBreaker{},
		"bad shared":         failure.NewSharedBreaker(failure.NewMemoryDriver(), nil),
		"nil driver":         failure.NewSharedBreaker(nil, &failure.SharedOptions{Breaker: failure.BreakerOptions{Name: "pay"}}),
		"nil memory driver":  failure.NewSharedBreaker((*failure.MemoryDriver)(nil), &failure.SharedOptions{Breaker: failure.BreakerOptions{Name: "pay"}}),
		"nil client":         failure.NewRedisBreaker(nil, &failure.SharedOptions{Breaker: failure.BreakerOptions{Name: "pay"}}),
		"bad quorum of many": failure.NewSharedBreaker(failure.NewMemoryDriver(), &failure.SharedOptions{Breaker: failure.BreakerOptions{Name: "pay"}, QuorumRatio: 2}),
	} {
		t.Run(name, func(t *testing.T) {
			b.ForceOpen()
			b.Disable()
			b.Reset()
			for range 2 {
				if calls, err := try(t.Context(), b); calls != 0 || !errors.Is(err, transparency.ErrInvalid) {
					t.Errorf("Call = %d calls, %v, want none, and ErrInvalid", calls, err)
				}
			}
			if p, err := b.Allow(t.Context()); p != nil || !errors.Is(err, transparency.ErrInvalid) {
				t.Errorf("Allow = %v, %v, want ErrInvalid", p, err)
			}
			if got := b.State(); got != failure.StateClosed {
				t.Errorf("State = %v, want that of no other than closed", got)
			}
			_ = fmt.Sprintf("%v %+v %#v", b, b, b)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			switch b := b.(type) {
			case *failure.LocalBreaker:
				if s := b.Stats(); s != (failure.Stats{}) {
					t.Errorf("Stats = %+v, want nothing counted", s)
				}
				for c := range b.Changes(ctx) {
					t.Errorf("a change: %+v", c)
				}
			case *failure.SharedBreaker:
				if s := b.Stats(); s != (failure.SharedStats{}) {
					t.Errorf("Stats = %+v, want nothing counted", s)
				}
				for c := range b.Changes(ctx) {
					t.Errorf("a change: %+v", c)
				}
				for range 2 {
					if err := b.Close(); err != nil {
						t.Errorf("Close error = %v", err)
					}
				}
			}
		})
	}
}

// A breaker that is asked to call nothing says so, and counts nothing.
func TestBreakerCallsNothing(t *testing.T) {
	b := failure.NewLocalBreaker(nil)
	if _, err := b.Do(t.Context(), nil); !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("Do error = %v, want ErrInvalid", err)
	}
	if s := b.Stats(); s != (failure.Stats{}) {
		t.Errorf("Stats = %+v, want nothing counted", s)
	}
}

func TestUnfitDriver(t *testing.T) {
	for name, d := range map[string]failure.Driver{
		"nil memory": (*failure.MemoryDriver)(nil),
		"nil Redis":  (*failure.RedisDriver)(nil),
		"zero Redis": &failure.RedisDriver{},
		"nil client": failure.NewRedisDriver(nil, nil),
	} {
		_, err := d.Exchange(t.Context(), "pay", failure.Report{Instance: "i", TTL: time.Second})
		if !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("%s: Exchange error = %v, want ErrInvalid", name, err)
		}
		if err := d.Listen(t.Context(), "pay", func() {}); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("%s: Listen error = %v, want ErrInvalid", name, err)
		}
		_ = fmt.Sprintf("%v %#v", d, d)
	}
}

// The zero MemoryDriver is an empty store.
func TestZeroMemoryDriver(t *testing.T) {
	var d failure.MemoryDriver
	v, err := d.Exchange(t.Context(), "pay", failure.Report{Instance: "i", TTL: time.Second})
	if want := (failure.View{Live: 1}); v != want || err != nil {
		t.Errorf("Exchange = %+v, %v, want %+v", v, err, want)
	}
	var heard failure.MemoryDriver
	ctx, cancel := context.WithCancel(t.Context())
	if err := heard.Listen(ctx, "pay", cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("Listen error = %v, want Canceled", err)
	}
}

// Options that make no sense are told, and extremes of those that do are taken.
func TestBreakerOptions(t *testing.T) {
	nan := 0.0
	nan /= nan
	for _, bad := range []failure.BreakerOptions{
		{Failures: -1, Ratio: -1},
		{Failures: -1, Ratio: -1, Slow: time.Second, SlowRatio: -1},
		{Ratio: 1.1}, {Ratio: nan},
		{Slow: time.Second, SlowRatio: 1.1}, {SlowRatio: nan},
		{MinCalls: -1},
		{Window: -1}, {Window: time.Millisecond},
		{OpenFor: -1}, {OpenFor: time.Second, MaxOpenFor: time.Millisecond},
		{Probes: -1}, {Probes: 1 << 30},
		{ProbeTimeout: -1}, {Patience: -1},
	} {
		if _, err := try(t.Context(), failure.NewLocalBreaker(&bad)); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("Call with %+v error = %v, want ErrInvalid", bad, err)
		}
	}
	for _, good := range []failure.BreakerOptions{
		{Failures: -1, Ratio: -1, Slow: time.Second},
		{Slow: -1, SlowRatio: -1}, {Slow: 1}, {Slow: 1 << 62, Window: 1 << 62, Patience: 1 << 62},
		{Failures: 1 << 40, MinCalls: 1 << 40, Ratio: 1, SlowRatio: 1, Slow: 1},
		{MaxOpenFor: -1},
	} {
		b := failure.NewLocalBreaker(&good)
		if calls, err := try(t.Context(), b); calls != 1 || err != nil {
			t.Errorf("Call with %+v = %d calls, %v", good, calls, err)
		}
		fail(t, b, 1)
	}
}
