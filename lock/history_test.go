package lock_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/lock"
)

// A step of a history of holders: a lease of this fence begins, or ends.
type step struct {
	begins bool
	fence  uint64
}

// fencedMutex is what a lock is: one lease at a time, each with a greater
// fence than all before.
var fencedMutex = porcupine.Model{
	Init: func() any { return [2]uint64{} }, // the holder's fence, the greatest fence
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.([2]uint64), input.(step)
		if in.begins {
			return s[0] == 0 && in.fence > s[1], [2]uint64{in.fence, in.fence}
		}
		return s[0] == in.fence, [2]uint64{0, s[1]}
	},
}

// deaf is a driver whose renewals can be cut off, as a crash does.
type deaf struct {
	lock.Driver
	crashed atomic.Bool
}

func (d *deaf) Renew(ctx context.Context, claims []lock.Claim) []error {
	if !d.crashed.Load() {
		return d.Driver.Renew(ctx, claims)
	}
	results := make([]error, len(claims))
	for i := range results {
		results[i] = transparency.ErrUnavailable
	}
	return results
}

// lacks reports whether there are fewer than most yet, and time for more.
func lacks(start time.Time, count func() int, most int) bool {
	return count() < most && time.Since(start) < testkit.Limit/2
}

// LK-29: the history of holders is linearizable, with waiting, giving up,
// crashing and coming back late.
func checkHistory(t *testing.T, connect func() lock.Driver, ttl time.Duration) {
	const processes, rounds = 5, 12
	base := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	note := func(client int, s step, call, ret int64) {
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: client, Input: s, Call: call, Return: ret})
	}
	var wg sync.WaitGroup
	for client := range processes {
		d := &deaf{Driver: connect()}
		l := lock.New(d, &lock.Options{TTL: ttl})
		t.Cleanup(func() { _ = l.Close() })
		m := l.Mutex("k", nil)
		wg.Go(func() {
			// More on a busy machine, where many waits end in vain.
			for n := 0; n < rounds || lacks(base, func() int { mu.Lock(); defer mu.Unlock(); return len(history) }, processes*rounds/2); n++ {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(ttl*2))
				call := int64(time.Since(base))
				lease, err := m.Lock(ctx)
				cancel()
				if err != nil {
					if !errors.Is(err, lock.ErrHeld) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, transparency.ErrUnavailable) {
						t.Errorf("Lock error = %v", err)
					}
					continue
				}
				note(client, step{true, lease.Fence()}, call, int64(time.Since(base)))
				if rand.IntN(4) == 0 { // crash, and come back late
					d.crashed.Store(true)
					<-lease.Context().Done()
					d.crashed.Store(false)
				} else {
					time.Sleep(rand.N(ttl / 10))
				}
				call = int64(time.Since(base))
				err = lease.Unlock(t.Context())
				ret := int64(time.Since(base))
				if err != nil && !errors.Is(err, lock.ErrLost) {
					t.Errorf("Unlock error = %v", err)
				}
				if err != nil {
					// It ended by itself, at this instant or later.
					call, ret = int64(lease.ValidUntil().Sub(base)), math.MaxInt64
				}
				note(client, step{false, lease.Fence()}, call, ret)
			}
		})
	}
	wg.Wait()
	if len(history) < processes {
		t.Errorf("the history is short: %d steps", len(history))
	}
	if result := porcupine.CheckOperationsTimeout(fencedMutex, history, 20*time.Second); result != porcupine.Ok {
		t.Errorf("history of %d steps: %v", len(history), result)
	}
}

func TestHistoryMemory(t *testing.T) {
	t.Parallel()
	d := lock.NewMemoryDriver()
	checkHistory(t, func() lock.Driver { return d }, 100*time.Millisecond)
}

func TestHistoryRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	checkHistory(t, func() lock.Driver {
		return lock.NewRedisDriver(s.Client(t), &lock.Options{Prefix: s.Prefix()})
	}, 300*time.Millisecond)
}

// With a server that stands still now and then.
func TestHistoryPauses(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(20*time.Millisecond + rand.N(200*time.Millisecond))
			s.Pause()
			time.Sleep(rand.N(120 * time.Millisecond))
			s.Resume()
		}
	})
	checkHistory(t, func() lock.Driver { return lock.NewRedisDriver(s.Client(t), nil) }, 400*time.Millisecond)
	cancel()
	wg.Wait()
}

// The model refuses what it is there for.
func TestHistoryModel(t *testing.T) {
	op := func(s step, call, ret int64) porcupine.Operation {
		return porcupine.Operation{Input: s, Call: call, Return: ret}
	}
	for name, history := range map[string][]porcupine.Operation{
		"two holders":   {op(step{true, 1}, 0, 1), op(step{true, 2}, 2, 3), op(step{false, 1}, 4, 5)},
		"an old fence":  {op(step{true, 2}, 0, 1), op(step{false, 2}, 2, 3), op(step{true, 1}, 4, 5)},
		"the same":      {op(step{true, 2}, 0, 1), op(step{false, 2}, 2, 3), op(step{true, 2}, 4, 5)},
		"lost too late": {op(step{true, 1}, 0, 1), op(step{true, 2}, 2, 3), op(step{false, 1}, 4, math.MaxInt64)},
	} {
		if porcupine.CheckOperations(fencedMutex, history) {
			t.Errorf("%s: the model accepts it", name)
		}
	}
}
