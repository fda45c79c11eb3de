package failure_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency/failure"
)

// A service that is seldom called is retried too.
func TestBudgetOfSeldomCalls(t *testing.T) {
	for perSecond, want := range map[float64]int{1: 100, 0.02: 99} { // that begins with less than a token
		synctest.Test(t, func(t *testing.T) {
			r := failure.NewRetry(&failure.RetryOptions{
				Attempts: 2, Base: -1, Budget: failure.NewBudget(&failure.BudgetOptions{PerSecond: perSecond, Ratio: -1}),
			})
			retries := 0
			for range 100 {
				calls, _ := try(t.Context(), r, errDown, errDown)
				retries += calls - 1
				time.Sleep(time.Minute)
			}
			if retries != want {
				t.Errorf("%v a second: %d retries of 100 calls, one a minute, want %d", perSecond, retries, want)
			}
		})
	}
}

// A rest earns a burst as that of a new budget, and no longer one.
func TestBudgetRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := failure.NewRetry(&failure.RetryOptions{
			Attempts: -1, Base: -1, Budget: failure.NewBudget(&failure.BudgetOptions{PerSecond: 2, Ratio: -1}),
		})
		for range 3 {
			retries := -1
			_, _ = failure.Call(t.Context(), func(context.Context) (int, error) { retries++; return 0, errDown }, r)
			if retries != 20 {
				t.Errorf("%d retries in a row, want those of ten seconds", retries)
			}
			time.Sleep(time.Hour)
		}
	})
}
