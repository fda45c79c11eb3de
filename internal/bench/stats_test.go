package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The ranks of the 95 % interval, as tables of the sign test give them (its
// critical value plus one).
func TestRank(t *testing.T) {
	for n, want := range map[int]int{
		1: 1, 5: 1, 6: 1, 8: 1, 9: 2, 10: 2, 12: 3, 15: 4, 20: 6, 25: 8, 30: 10, 40: 14, 50: 18, 100: 40,
	} {
		if got := rank(n); got != want {
			t.Errorf("rank(%d) = %d, want %d", n, got, want)
		}
	}
	// Far out, where 2^-n is no float64 any more, the normal approximation holds.
	const n = 5000
	if got, want := rank(n), n/2-0.98*math.Sqrt(n); math.Abs(float64(got)-want) > 1.5 {
		t.Errorf("rank(%d) = %d, want about %.1f", n, got, want)
	}
}

func TestBinomialHalf(t *testing.T) {
	if got := binomialHalf(10, 3); math.Abs(got-120.0/1024) > 1e-12 {
		t.Errorf("binomialHalf(10, 3) = %v, want 120/1024", got)
	}
	sum := 0.0
	for k := range 2001 {
		sum += binomialHalf(2000, k)
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("sum of binomialHalf(2000, k) = %v, want 1", sum)
	}
}

func TestEstimateMedian(t *testing.T) {
	for _, tt := range []struct {
		samples []float64
		want    estimate
	}{
		{[]float64{7}, estimate{7, 7, 7}},
		{[]float64{3, 1}, estimate{2, 1, 3}},
		{[]float64{9, 1, 5}, estimate{5, 1, 9}},
		{[]float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, estimate{5.5, 2, 9}},
		{[]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1000}, estimate{1, 1, 1}},
	} {
		before := slices.Clone(tt.samples)
		if got := estimateMedian(tt.samples); got != tt.want {
			t.Errorf("estimateMedian(%v) = %v, want %v", tt.samples, got, tt.want)
		}
		if !slices.Equal(tt.samples, before) {
			t.Errorf("estimateMedian changed its samples from %v to %v", before, tt.samples)
		}
	}
	if got := estimateMedian(nil); !math.IsNaN(got.median) {
		t.Errorf("estimateMedian(nil) = %v, want NaN", got)
	}
	if got := (estimate{median: 5, low: 4, high: 8}).err(); got != 3 {
		t.Errorf("err() = %v, want 3, the longer side", got)
	}
}

// The interval contains the true median as often as it says, whatever the
// distribution: here a skewed one, whose median is ln 2.
func TestIntervalCovers(t *testing.T) {
	const runs = 4000
	for _, n := range []int{10, 30, 301} {
		r := rand.New(rand.NewPCG(3, uint64(n)))
		covered := 0
		for range runs {
			samples := make([]float64, n)
			for i := range samples {
				samples[i] = r.ExpFloat64()
			}
			if e := estimateMedian(samples); e.low <= math.Ln2 && math.Ln2 <= e.high {
				covered++
			}
		}
		if got := float64(covered) / runs; got < confidence-0.01 || got > confidence+0.035 {
			t.Errorf("of %d samples the interval covers the median in %.3f of runs, want %.2f or a little more", n, got, confidence)
		}
	}
}

func TestRatios(t *testing.T) {
	if got := ratios([]float64{2, 9}, []float64{1, 3}); !slices.Equal(got, []float64{2, 3}) {
		t.Errorf("ratios = %v, want [2 3]", got)
	}
}
