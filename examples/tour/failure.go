package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/failure"
)

var failureRow = failureOf(errSick, &failure.BreakerOptions{Failures: 3, OpenFor: 300 * time.Millisecond})

var errSick = errors.New("no answer in time")

// failureOf is the row with what is wrong with the service, and a breaker's
// options.
func failureOf(illness error, opts *failure.BreakerOptions) row {
	const calls = 10
	return row{
		name: "failure",
		done: "a service was sick for the time of ten calls, and then got well",

		without: func(ctx context.Context, _ *lab.Env) (string, error) {
			s := patient{illness: illness}
			failed := 0
			for range calls {
				if _, err := s.call(ctx); err != nil {
					failed++
				}
			}
			if failed != calls || s.asked != calls {
				return "", fmt.Errorf("%d calls failed, and the service was asked %d times", failed, s.asked)
			}
			s.illness = nil
			if _, err := s.call(ctx); err != nil {
				return "", fmt.Errorf("when it was well: %w", err)
			}
			return fmt.Sprintf("%d errors, each after a wait; the sick service was asked %d times", failed, calls), nil
		},
		with: func(ctx context.Context, _ *lab.Env) (string, error) {
			s := patient{illness: illness}
			breaker := failure.NewLocalBreaker(opts)
			refused := 0
			var last error
			for range calls {
				_, last = failure.Call(ctx, s.call, breaker)
				if errors.Is(last, transparency.ErrRejected) {
					refused++
				} else if !errors.Is(last, errSick) {
					return "", fmt.Errorf("a caller got: %w", last)
				}
			}
			asked := s.asked
			if asked != 3 || refused != calls-asked {
				return "", fmt.Errorf("the sick service was asked %d times, %d calls were refused", asked, refused)
			}
			s.illness = nil
			if err := lab.Think(ctx, failure.RetryAfter(last)); err != nil {
				return "", err
			}
			if _, err := failure.Call(ctx, s.call, breaker); err != nil || breaker.State() != failure.StateClosed {
				return "", errors.Join(fmt.Errorf("when it was well the breaker was %v", breaker.State()), err)
			}
			return fmt.Sprintf("%d such errors, then %d at once; its recovery was found by one probe", asked, refused), nil
		},
	}
}

// A patient is a service that can be sick.
type patient struct {
	illness error
	asked   int
}

func (s *patient) call(ctx context.Context) (string, error) {
	s.asked++
	if s.illness == nil {
		return "well", nil
	}
	if err := lab.Think(ctx, 10*time.Millisecond); err != nil {
		return "", err
	}
	return "", s.illness
}
