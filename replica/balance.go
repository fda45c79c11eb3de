package replica

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// decay is the time constant with which a slow answer is forgotten.
	decay = 5 * time.Second
	// floor is the latency below which nodes are not told apart.
	floor = 20 * time.Microsecond
	// penalty is how many times its latency a node's failure counts as, if it
	// took no longer: at most worst, reached when failures follow each other.
	penalty = 10
	worst   = time.Second
	// slowStart is how long a node that comes back takes to get its whole share.
	slowStart = 10 * time.Second
)

// A meter weighs latencies: a slow answer counts at once and whole, a quick
// one only gradually (the peak-sensitive moving average of Finagle).
type meter struct {
	cost  atomic.Uint64 // a float64, in nanoseconds; zero means nothing measured
	stamp atomic.Int64  // when, by Pool.now
}

func weight(age time.Duration) float64 { return math.Exp(-float64(max(age, 0)) / float64(decay)) }

// read returns the latency as of now, or zero if there is none.
func (m *meter) read(now time.Duration) float64 {
	cost := math.Float64frombits(m.cost.Load())
	if cost == 0 {
		return 0
	}
	return max(cost*weight(now-time.Duration(m.stamp.Load())), float64(floor))
}

// observe adds a measurement. One that is lost to another at the same time is
// no loss.
func (m *meter) observe(took, now time.Duration) {
	old := m.cost.Load()
	cost, rtt := math.Float64frombits(old), float64(max(took, 1))
	w := weight(now - time.Duration(m.stamp.Load()))
	if decayed := cost * w; cost != 0 && rtt < decayed {
		rtt = decayed + rtt*(1-w)
	}
	if m.cost.CompareAndSwap(old, math.Float64bits(rtt)) {
		m.stamp.Store(int64(now))
	}
}

// punish adds a failure, which may have been quick.
func (m *meter) punish(took, now time.Duration) {
	m.observe(max(took, min(worst, penalty*time.Duration(m.read(now)))), now)
}

func (m *meter) reset() { m.cost.Store(0) }

// load is how many callbacks are at the node or wait for a place there.
func (n *node[C]) load() int { return len(n.slots) + int(n.waiting.Load()) }

// A filter says which nodes a read may go to.
type filter[C any] struct {
	tried  []*node[C]
	maxLag time.Duration
	now    time.Duration
}

func (f *filter[C]) allows(n *node[C]) bool {
	return (f.maxLag <= 0 || f.fresh(n)) && !slices.Contains(f.tried, n)
}

func (f *filter[C]) fresh(n *node[C]) bool {
	asOf := n.asOf.Load()
	return asOf != unknown && f.now-time.Duration(asOf) <= f.maxLag
}

// warm reports whether a node that came back lately may be considered, which
// is ever more likely until its slow start is over.
func (n *node[C]) warm(now time.Duration) bool {
	from := n.rampFrom.Load()
	if from == unknown {
		return true
	}
	part := float64(now-time.Duration(from)) / float64(slowStart)
	if part >= 1 {
		n.rampFrom.CompareAndSwap(from, unknown)
		return true
	}
	return rand.Float64() < max(part, 0.05)
}

// compareAll is how many nodes are all compared. Of more, two are drawn: the
// better of two spreads nearly as well as the best of all, without sending
// everybody to the same one (Mitzenmacher 2001).
const compareAll = 3

// pick returns the node to read from, or nil when the filter allows none.
func pick[C any](nodes []*node[C], f *filter[C]) *node[C] {
	if len(nodes) > compareAll {
		i, j := rand.IntN(len(nodes)), rand.IntN(len(nodes)-1)
		if j >= i {
			j++
		}
		a, b := nodes[i], nodes[j]
		if f.allows(a) && f.allows(b) && a.warm(f.now) && b.warm(f.now) {
			pair := [2]*node[C]{a, b}
			return best(pair[:], f, false)
		}
	}
	if n := best(nodes, f, true); n != nil {
		return n
	}
	return best(nodes, f, false) // none is warm
}

// best returns the allowed node with the least latency times load. Latencies
// within a factor of two are equal, for so much is noise; equals share evenly.
func best[C any](nodes []*node[C], f *filter[C], onlyWarm bool) *node[C] {
	var few [compareAll]candidate[C]
	all := few[:0]
	least := math.Inf(1)
	for _, n := range nodes {
		if !f.allows(n) || onlyWarm && !n.warm(f.now) {
			continue
		}
		c := candidate[C]{n, n.meter.read(f.now)}
		if c.latency != 0 {
			least = min(least, c.latency)
		}
		all = append(all, c)
	}
	if math.IsInf(least, 1) {
		least = float64(floor)
	}
	var found *node[C]
	lowest, ties := math.Inf(1), 0
	for _, c := range all {
		if c.latency <= 2*least {
			c.latency = least
		}
		switch score := c.latency * float64(c.node.load()+1); {
		case score < lowest:
			found, lowest, ties = c.node, score, 1
		case score == lowest:
			if ties++; rand.IntN(ties) == 0 {
				found = c.node
			}
		}
	}
	return found
}

type candidate[C any] struct {
	node    *node[C]
	latency float64
}
