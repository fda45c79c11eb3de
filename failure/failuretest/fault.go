package failuretest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
)

// A Fault is what a call meets. The zero Fault is none. Of several fields that
// are set, those count first that come first.
type Fault struct {
	// Delay passes before anything else. If the context ends meanwhile the call
	// is not made, and its error is that of the context.
	Delay time.Duration

	// Hang makes the call last until its context ends. It is not made.
	Hang bool

	// Panic, if not nil, is what the call panics with. It is not made.
	Panic any

	// Refused, if not nil, is the error of the call, which is not made: of
	// transparency.ErrUnavailable, say.
	Refused error

	// Status, if not zero, is what a request is answered with, beside Header
	// and a short body. It is not sent. Calls of [Inject] have no status.
	Status int
	Header map[string]string

	// Lost, if not nil, is the error of the call, which is made: of
	// transparency.ErrUncertain, say. What comes of it is lost.
	Lost error

	// Cut, if not zero, is after how many bytes the body of a response ends
	// with io.ErrUnexpectedEOF; negative cuts it before the first.
	Cut int
}

// Faults says which Fault the call of number n meets, counting from zero. It is
// called by several goroutines at once. Nil is no faults.
type Faults func(n int) Fault

func (f Faults) of(n int64) Fault {
	if f == nil {
		return Fault{}
	}
	return f(int(n))
}

// Script returns Faults that come in turn, once, and are followed by none.
func Script(faults ...Fault) Faults {
	faults = slices.Clone(faults)
	return func(n int) Fault {
		if n < len(faults) {
			return faults[n]
		}
		return Fault{}
	}
}

// Random returns Faults that a share of the calls meet, from 0 to 1, each one of
// these. What the call of number n meets depends on the seed and on n alone.
func Random(seed uint64, share float64, faults ...Fault) Faults {
	faults = slices.Clone(faults)
	return func(n int) Fault {
		rng := rand.New(rand.NewPCG(seed, uint64(n))) //nolint:gosec // a number, as it is
		if len(faults) == 0 || rng.Float64() >= share {
			return Fault{}
		}
		return faults[rng.IntN(len(faults))]
	}
}

// Inject returns fn with faults. It counts its calls, so that each meets its
// own.
func Inject[T any](faults Faults, fn func(context.Context) (T, error)) func(context.Context) (T, error) {
	var calls atomic.Int64
	return func(ctx context.Context) (T, error) {
		var zero T
		fault := faults.of(calls.Add(1) - 1)
		if err := fault.before(ctx); err != nil {
			return zero, err
		}
		if fn == nil {
			return zero, fmt.Errorf("failuretest: %w: the function is nil", transparency.ErrInvalid)
		}
		result, err := fn(ctx)
		if fault.Lost != nil {
			return zero, fault.Lost
		}
		return result, err
	}
}

// before is what happens before the call, or instead of it.
func (f *Fault) before(ctx context.Context) error {
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if f.Hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.Panic != nil {
		panic(f.Panic)
	}
	return f.Refused
}
