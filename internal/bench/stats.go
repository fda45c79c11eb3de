package main

import (
	"fmt"
	"math"
	"slices"
)

// confidence is the probability that an interval of this program contains the
// median it is given for.
const confidence = 0.95

// minTurns is the smallest number of samples whose range is such an interval.
const minTurns = 6

// An estimate is the median of a sample, or another quantile where that is
// what counts, and a confidence interval around it.
type estimate struct {
	median, low, high float64
}

// err returns the larger distance from the median to an end of the interval,
// which is what is printed after ±.
func (e estimate) err() float64 { return max(e.high-e.median, e.median-e.low) }

// estimateQuantile returns the quantile of samples, which it leaves as they
// are, at a share from 0 to 1, where 0 stands for the median. The interval is
// the distribution-free one of order statistics. With few samples, at the median
// with fewer than [minTurns], it ends at the smallest or the largest and means
// less.
func estimateQuantile(samples []float64, share float64) estimate {
	s := slices.Sorted(slices.Values(samples))
	n := len(s)
	if n == 0 {
		return estimate{math.NaN(), math.NaN(), math.NaN()}
	}
	if share == 0 {
		share = 0.5
	}
	return estimate{median: quantile(s, share), low: s[rank(n, share)-1], high: s[n-rank(n, 1-share)]}
}

func estimateMedian(samples []float64) estimate { return estimateQuantile(samples, 0.5) }

// quantile is the sample, of some in order, that the share does not exceed: at
// a half, the middle between two if there is no single one.
func quantile(s []float64, share float64) float64 {
	n := len(s)
	if share == 0.5 {
		return (s[(n-1)/2] + s[n/2]) / 2
	}
	return s[max(int(math.Ceil(share*float64(n))), 1)-1]
}

// rank returns the largest k for which the k-th smallest of n samples is beyond
// the quantile with at most half of what [confidence] leaves. Each sample lies
// below the quantile with probability share, so the k-th smallest lies above it
// when fewer than k do: a tail of the binomial distribution. The other end of
// the interval is the same from above.
func rank(n int, share float64) int {
	tail := 0.0
	for k := range n {
		tail += binomial(n, k, share)
		if tail > (1-confidence)/2 {
			return max(k, 1)
		}
	}
	return n
}

// binomial is the probability of k heads in n throws of a coin that shows heads
// with probability p.
func binomial(n, k int, p float64) float64 {
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	power := func(p float64, n int) float64 { // logarithm of p^n
		if n == 0 {
			return 0
		}
		return float64(n) * math.Log(p)
	}
	return math.Exp(lg(n) - lg(k) - lg(n-k) + power(p, k) + power(1-p, n-k))
}

// resultOf puts the samples of one figure together: the quantile of all that
// each side has found, and the median of its ratios, pair by pair.
func resultOf(share float64, fig int, trials [][]trial) (r result, err error) {
	all, of := make([][]float64, len(trials)), make([][]float64, len(trials))
	for i, turns := range trials {
		for _, t := range turns {
			if fig >= len(t.samples) || len(t.samples[fig]) == 0 {
				return r, fmt.Errorf("a turn has no sample of figure %d", fig)
			}
			all[i] = append(all[i], t.samples[fig]...)
			of[i] = append(of[i], estimateQuantile(t.samples[fig], share).median)
		}
	}
	r.ours = estimateQuantile(all[0], share)
	if len(trials) > 1 {
		r.peer = estimateQuantile(all[1], share)
		r.ratio = estimateMedian(ratios(of[0], of[1]))
	}
	return r, nil
}

// ratios divides ours by peer, pair by pair.
func ratios(ours, peer []float64) []float64 {
	out := make([]float64, len(ours))
	for i := range ours {
		out[i] = ours[i] / peer[i]
	}
	return out
}
