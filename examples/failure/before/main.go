// Before: calling a service that fails 7 times in 10, without failure
// transparency. Every call goes to the service, waits for it, and fails with it.
//
//	go run ./examples/failure/before
//
// What is wrong with that? Each caller waits, the more the sicker the service
// is, and holds on to what it has in the meantime: a goroutine, a connection, the
// patience of somebody's user. So the fault spreads to those who call. And a
// service that has too much to do gets no less of it, so that it cannot recover.
// ../after stops asking for a while.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-transparency/transparency/examples/internal/lab"
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
	failed := 0
	for n := 1; n <= 10; n++ {
		answer, err := s.call(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed++
			answer = err.Error()
		}
		fmt.Fprintf(env.Out, "call %2d: %s\n", n, answer)
	}
	fmt.Fprintf(env.Out, "The service was asked %d times and failed %d times, and each caller waited for it.\n", s.asked, failed)
	return nil
}
