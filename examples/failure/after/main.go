// After: the service of ../before behind a failure.Breaker. It is closed, and
// lets calls through, until 3 in a row have failed; then it is open, and calls
// fail at once without the service being asked; after its recovery time it is
// half-open and lets one call through, as a probe; that one's success closes it,
// its failure opens it again.
//
//	go run ./examples/failure/after
//
// What does a caller get while the breaker is open? An error, never nothing: it
// says that the call was refused on this side (transparency.ErrRejected), so that
// it certainly did not happen, and when it is worth trying again.
//
// What stays visible, on purpose: that the service fails. A breaker makes no call
// succeed. It makes the failure quick, and leaves the sick service alone. Whether
// there is a second best answer, only the caller knows (see failure.Fallback).
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/failure"
)

func main() { lab.Main(run) }

// A service fails 7 times in 10, and takes its time.
type service struct {
	luck  *rand.Rand
	asked int
}

// seed makes every run see the same failures.
const seed = 20

func newService() *service { return &service{luck: rand.New(rand.NewPCG(seed, seed))} }

var errSick = errors.New("the service failed")

func (s *service) call(ctx context.Context) (string, error) {
	s.asked++
	if err := lab.Think(ctx, 20*time.Millisecond); err != nil {
		return "", err
	}
	if s.luck.Float64() < 0.7 {
		return "", errSick
	}
	return "paid", nil
}

func run(ctx context.Context, env *lab.Env) error {
	s := newService()
	breaker := failure.NewLocalBreaker(&failure.BreakerOptions{
		Name:       "payment",
		Failures:   3,
		OpenFor:    80 * time.Millisecond, // the recovery time
		MaxOpenFor: -1,                    // which does not grow
	})
	refused := 0
	for n := 1; n <= 14; n++ {
		before := breaker.State()
		answer, err := failure.Call(ctx, s.call, breaker)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, transparency.ErrRejected):
			refused++
			answer = "refused at once; the service was not asked"
		case err != nil:
			answer = err.Error()
		}
		fmt.Fprintf(env.Out, "call %2d, %-9v: %s\n", n, before, answer)
		if now := breaker.State(); now != before {
			fmt.Fprintf(env.Out, "         %v now\n", now)
		}
		// Who is told when to come again comes again then.
		if err := lab.Think(ctx, failure.RetryAfter(err)); err != nil {
			return err
		}
	}
	fmt.Fprintf(env.Out, "14 calls: the service was asked %d times, %d calls were refused at once.\n", s.asked, refused)
	return nil
}
