package main

import (
	"math"
	"slices"
)

// confidence is the probability that an interval of this program contains the
// median it is given for.
const confidence = 0.95

// minTurns is the smallest number of samples whose range is such an interval.
const minTurns = 6

// An estimate is the median of a sample and a confidence interval around it.
type estimate struct {
	median, low, high float64
}

// err returns the larger distance from the median to an end of the interval,
// which is what is printed after ±.
func (e estimate) err() float64 { return max(e.high-e.median, e.median-e.low) }

// estimateMedian returns the median of samples, which it leaves as they are,
// with the distribution-free interval of order statistics: from the k-th
// smallest to the k-th largest sample. With fewer than [minTurns] samples the
// interval is their range and means less.
func estimateMedian(samples []float64) estimate {
	s := slices.Sorted(slices.Values(samples))
	n := len(s)
	if n == 0 {
		return estimate{math.NaN(), math.NaN(), math.NaN()}
	}
	k := rank(n)
	return estimate{median: (s[(n-1)/2] + s[n/2]) / 2, low: s[k-1], high: s[n-k]}
}

// rank returns the largest k for which the k-th smallest and the k-th largest
// of n samples enclose the median with at least [confidence]. Each sample lies
// below the median with probability 1/2, so the k-th smallest lies above it
// when fewer than k do: a tail of the binomial distribution.
func rank(n int) int {
	tail := 0.0
	for k := range n {
		tail += binomialHalf(n, k)
		if tail > (1-confidence)/2 {
			return max(k, 1)
		}
	}
	return 1
}

// binomialHalf is the probability of k heads in n throws of a fair coin.
func binomialHalf(n, k int) float64 {
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	return math.Exp(lg(n) - lg(k) - lg(n-k) - float64(n)*math.Ln2)
}

// ratios divides ours by peer, pair by pair.
func ratios(ours, peer []float64) []float64 {
	out := make([]float64, len(ours))
	for i := range ours {
		out[i] = ours[i] / peer[i]
	}
	return out
}
