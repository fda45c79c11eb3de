package replica

import (
	"math"
	"sync/atomic"
)

// A budget bounds the reads that go to the primary for want of a replica:
// every read earns a part of one, and a burst can be saved up. Without it the
// primary would get the load of all replicas at the moment when it is needed
// most.
type budget struct {
	earn  int64 // of unit, for each read
	saved atomic.Int64
}

const (
	unit  = 1 << 20
	burst = 10 * unit
)

func (b *budget) init(share float64) {
	if share > 0 {
		b.earn = max(int64(math.Round(share*unit)), 1)
		b.saved.Store(burst)
	}
}

// add earns for one read.
func (b *budget) add() {
	for {
		saved := b.saved.Load()
		if b.earn == 0 || saved >= burst || b.saved.CompareAndSwap(saved, min(saved+b.earn, burst)) {
			return
		}
	}
}

// all reports whether every read may go to the primary.
func (b *budget) all() bool { return b.earn >= unit }

// spend takes one read out of the budget, if it is there.
func (b *budget) spend() bool {
	for {
		saved := b.saved.Load()
		if saved < unit {
			return b.all()
		}
		if b.saved.CompareAndSwap(saved, saved-unit) {
			return true
		}
	}
}
