package failure_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// A storm is what a service at the bottom of layers gets, each of which
// retries, second by second.
type storm struct {
	input, load [30]int
}

// While a call comes each 2.5 milliseconds, the service fails from second 5 to 20.
const stormRate, stormFrom, stormTo = 400, 5, 20

// blow lets the storm pass through retries in layers.
func blow(t *testing.T, retries ...failure.Policy) (s storm) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		second := func() int { return int(time.Since(start) / time.Second) }
		var mu sync.Mutex
		call := func(context.Context) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			now := min(second(), len(s.load)-1) // the last attempts end a little later
			s.load[now]++
			if now >= stormFrom && now < stormTo {
				return 0, errDown
			}
			return 0, nil
		}
		var wg sync.WaitGroup
		for second() < len(s.input) {
			s.input[second()]++
			wg.Go(func() { _, _ = failure.Call(t.Context(), call, retries...) })
			time.Sleep(time.Second / stormRate)
		}
		wg.Wait()
	})
	return s
}

func (s *storm) sum(from, to int) (input, load int) {
	for i := from; i < to; i++ {
		input += s.input[i]
		load += s.load[i]
	}
	return input, load
}

// FA-21: three layers that retry multiply the load of a service that fails by
// 27; with a budget, and layers that heed each other, they add a tenth at most,
// and when it is over, none.
func TestRetryStorm(t *testing.T) {
	shared := failure.NewBudget(nil)
	layers := func(budget func() *failure.Budget) (p []failure.Policy) {
		for range 3 {
			p = append(p, failure.NewRetry(&failure.RetryOptions{Budget: budget()}))
		}
		return p
	}
	// What others do: each layer knows its own attempts alone.
	naive := layers(plenty)
	for i := range naive[:2] {
		naive[i] = failure.NewRetry(&failure.RetryOptions{Budget: plenty(), Retryable: func(err error) bool { return err != nil }})
	}
	kinds := []struct {
		name string
		s    storm
	}{
		{"no retries", blow(t, failure.NewRetry(&failure.RetryOptions{Attempts: 1}))},
		{"three layers, naive", blow(t, naive...)},
		{"three layers, each its budget", blow(t, layers(func() *failure.Budget { return nil })...)},
		{"three layers, one budget", blow(t, layers(func() *failure.Budget { return shared })...)},
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-30s  %8s  %8s  %8s  %8s\n", "load as a share of the input", "before", "first 5s", "fault", "after")
	for _, k := range kinds {
		fmt.Fprintf(&table, "%-30s", k.name)
		for _, part := range [][2]int{{0, stormFrom}, {stormFrom, stormFrom + 5}, {stormFrom, stormTo}, {stormTo + 5, 30}} {
			input, load := k.s.sum(part[0], part[1])
			fmt.Fprintf(&table, "  %8.2f", float64(load)/float64(input))
		}
		table.WriteString("\n")
	}
	t.Logf("a service that fails for 15 s, at %d calls/s:\n%s", stormRate, table.String())

	if input, load := kinds[1].s.sum(stormFrom, stormTo); load < 20*input {
		t.Errorf("naive: %d calls came of %d, so this test proves nothing", load, input)
	}
	for _, k := range kinds[2:] {
		if input, load := k.s.sum(0, stormFrom); load != input {
			t.Errorf("%s: before the fault %d calls came of %d", k.name, load, input)
		}
		input, load := k.s.sum(stormFrom, stormTo)
		if most := input + input/10; load > most || load <= input {
			t.Errorf("%s: %d calls came of %d, want more than that and at most %d", k.name, load, input, most)
		}
		if input, load := k.s.sum(stormTo+5, 30); load != input {
			t.Errorf("%s: after the fault %d calls came of %d", k.name, load, input)
		}
		for i, n := range k.s.input {
			if n != stormRate {
				t.Errorf("%s: %d first attempts in second %d, want all", k.name, n, i)
			}
		}
	}
}

// FA-21: the budget refills with what succeeds, so that the next fault is met
// with retries again.
func TestRetryStormRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := failure.NewRetry(&failure.RetryOptions{Base: -1})
		failing := atomic.Bool{}
		retried := func(calls int) (n int) {
			for range calls {
				_, _ = failure.Call(t.Context(), func(ctx context.Context) (int, error) {
					if failure.Attempt(ctx) > 1 {
						n++
					}
					if failing.Load() {
						return 0, transparency.ErrUnavailable
					}
					return 0, nil
				}, r)
			}
			return n
		}
		failing.Store(true)
		retried(1000)
		if n := retried(1000); n != 0 {
			t.Errorf("%d retries with a spent budget", n)
		}
		failing.Store(false)
		retried(500)
		failing.Store(true)
		if n := retried(1000); n != 50 {
			t.Errorf("%d retries after 500 successes, want 50", n)
		}
	})
}
