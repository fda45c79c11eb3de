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
		if got := rank(n, 0.5); got != want {
			t.Errorf("rank(%d) = %d, want %d", n, got, want)
		}
	}
	// Far out, where 2^-n is no float64 any more, the normal approximation holds.
	const n = 5000
	if got, want := rank(n, 0.5), n/2-0.98*math.Sqrt(n); math.Abs(float64(got)-want) > 1.5 {
		t.Errorf("rank(%d) = %d, want about %.1f", n, got, want)
	}
}

func TestBinomial(t *testing.T) {
	if got := binomial(10, 3, 0.5); math.Abs(got-120.0/1024) > 1e-12 {
		t.Errorf("binomial(10, 3, 0.5) = %v, want 120/1024", got)
	}
	sum := 0.0
	for k := range 2001 {
		sum += binomial(2000, k, 0.5)
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("sum of binomial(2000, k, 0.5) = %v, want 1", sum)
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

// Another quantile has an interval of its own, which ends at the last sample
// where there are few.
func TestEstimateQuantile(t *testing.T) {
	ordered := make([]float64, 1000)
	for i := range ordered {
		ordered[len(ordered)-1-i] = float64(i + 1)
	}
	for _, tt := range []struct {
		samples []float64
		share   float64
		want    estimate
	}{
		{ordered, 0, estimate{500.5, 469, 532}},
		{ordered, 0.5, estimate{500.5, 469, 532}},
		{ordered, 0.99, estimate{990, 983, 997}},
		{ordered[:50], 0.99, estimate{1000, 998, 1000}},
		{ordered, 1, estimate{1000, 1000, 1000}},
		{[]float64{7}, 0.99, estimate{7, 7, 7}},
	} {
		if got := estimateQuantile(tt.samples, tt.share); got != tt.want {
			t.Errorf("estimateQuantile of %d samples at %v = %v, want %v", len(tt.samples), tt.share, got, tt.want)
		}
	}
}

// The figure is of all samples together, the ratio of the turns by pairs.
func TestResultOf(t *testing.T) {
	ours := []trial{{samples: [][]float64{{9}, {1, 2, 3}}}, {samples: [][]float64{{9}, {4, 5, 60}}}, {samples: [][]float64{{9}, {7, 8, 9}}}}
	peer := []trial{{samples: [][]float64{{3}, {1, 1, 1}}}, {samples: [][]float64{{3}, {5, 5, 5}}}, {samples: [][]float64{{3}, {2, 4, 8}}}}
	r, err := resultOf(0, 1, [][]trial{ours, peer})
	if err != nil || r.ours.median != 5 || r.peer.median != 4 || r.ratio.median != 2 {
		t.Errorf("resultOf the second figure = %+v, %v, want 5, 4 and 2", r, err)
	}
	if r, err = resultOf(1, 1, [][]trial{ours}); err != nil || r.ours.median != 60 {
		t.Errorf("resultOf at most = %+v, %v, want 60", r, err)
	}
	if _, err = resultOf(0, 2, [][]trial{ours, peer}); err == nil {
		t.Error("resultOf a figure that no turn has = nil, want an error")
	}
}
