package backoff_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency/internal/backoff"
)

const draws = 2000

func TestDelayStaysUnderItsCeiling(t *testing.T) {
	tests := []struct {
		name    string
		policy  backoff.Policy
		attempt int
		ceiling time.Duration
	}{
		{"first", backoff.Policy{Base: time.Second, Max: time.Minute}, 0, time.Second},
		{"doubles", backoff.Policy{Base: time.Second, Max: time.Minute}, 3, 8 * time.Second},
		{"capped", backoff.Policy{Base: time.Second, Max: time.Minute}, 6, time.Minute},
		{"max below base", backoff.Policy{Base: time.Second, Max: time.Millisecond}, 0, time.Millisecond},
		{"zero policy", backoff.Policy{}, 0, backoff.DefaultBase},
		{"zero policy, late", backoff.Policy{}, 100, backoff.DefaultMax},
		{"negative attempt", backoff.Policy{Base: time.Second, Max: time.Minute}, -5, time.Second},
		{"no maximum", backoff.Policy{Base: time.Second, Max: -1}, 20, time.Second << 20},
		{"no maximum, would overflow", backoff.Policy{Base: time.Second, Max: -1}, 40, math.MaxInt64},
		{"largest shift", backoff.Policy{Base: 1, Max: -1}, 62, 1 << 62},
		{"past the sign bit", backoff.Policy{Base: 1, Max: -1}, 63, math.MaxInt64},
		{"largest attempt", backoff.Policy{Base: 1, Max: time.Hour}, math.MaxInt, time.Hour},
		{"one nanosecond", backoff.Policy{Base: 1, Max: 1}, 9, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var largest time.Duration
			for range draws {
				d := tt.policy.Delay(tt.attempt)
				if d <= 0 || d > tt.ceiling {
					t.Fatalf("%+v.Delay(%d) = %v, want in (0, %v]", tt.policy, tt.attempt, d, tt.ceiling)
				}
				largest = max(largest, d)
			}
			// 2000 uniform draws all under 90 % of the ceiling: chance 1e-92.
			if largest < tt.ceiling/10*9 {
				t.Errorf("largest of %d draws of %+v.Delay(%d) = %v, want near %v", draws, tt.policy, tt.attempt, largest, tt.ceiling)
			}
		})
	}
}

func TestDelayIsUniform(t *testing.T) {
	p := backoff.Policy{Base: time.Second, Max: time.Second}
	var tenths [10]int
	for range 10 * draws {
		tenths[int((p.Delay(0)-1)*10/time.Second)]++
	}
	for i, n := range tenths {
		// Mean 2000, standard deviation 42: seven of them are 1e-12.
		if n < draws-300 || n > draws+300 {
			t.Errorf("tenth %d of the range was drawn %d times of %d, want about %d", i, n, 10*draws, draws)
		}
	}
}

func TestNegativeBaseIsOff(t *testing.T) {
	if d := (backoff.Policy{Base: -1}).Delay(7); d != 0 {
		t.Errorf("Delay with a negative Base = %v, want 0", d)
	}
}

func TestSleep(t *testing.T) {
	tests := []struct {
		name    string
		timeout time.Duration // of the context; zero means ended before the call
		d       time.Duration
		want    error
		elapsed time.Duration
	}{
		{"whole", time.Hour, time.Minute, nil, time.Minute},
		{"cut short", time.Second, time.Minute, context.DeadlineExceeded, time.Second},
		{"ended before", 0, time.Minute, context.DeadlineExceeded, 0},
		{"ended before, nothing to wait for", 0, -time.Minute, context.DeadlineExceeded, 0},
		{"zero", time.Hour, 0, nil, 0},
		{"negative", time.Hour, -time.Second, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
				defer cancel()
				start := time.Now()
				err := backoff.Sleep(ctx, tt.d)
				if !errors.Is(err, tt.want) || (tt.want == nil && err != nil) {
					t.Errorf("Sleep(%v) error = %v, want %v", tt.d, err, tt.want)
				}
				if got := time.Since(start); got != tt.elapsed {
					t.Errorf("Sleep(%v) took %v, want %v", tt.d, got, tt.elapsed)
				}
			})
		})
	}
}
