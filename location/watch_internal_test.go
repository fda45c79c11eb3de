package location

import (
	"math"
	"testing"
	"time"
)

func TestJittered(t *testing.T) {
	for _, mean := range []time.Duration{time.Millisecond, DefaultPoll, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64} {
		least := min(mean, math.MaxInt64/2) * 2 / 3
		for range 100 {
			if got := jittered(mean); got < least || got-least > mean {
				t.Fatalf("jittered(%v) = %v, want from two thirds to five thirds of it", mean, got)
			}
		}
	}
}
