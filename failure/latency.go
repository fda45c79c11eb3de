package failure

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A latency learns how long all but a few calls take, from the last of them.
type latency struct {
	slow atomic.Int64 // what the share of them does not exceed; zero is not known

	mu   sync.Mutex // guards what follows
	seen [latencySeen]time.Duration
	n    int
}

const (
	latencySeen  = 128 // calls that are remembered
	latencyFirst = 32  // calls after which something is known
	latencyEvery = 16  // calls after which it is looked at again
)

// add learns of a call. The share is of those that shall be faster than slow.
func (l *latency) add(took time.Duration, share float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[l.n%latencySeen] = took
	l.n++
	if l.n < latencyFirst || l.n%latencyEvery != 0 {
		return
	}
	sorted := l.seen
	known := sorted[:min(l.n, latencySeen)]
	slices.Sort(known)
	l.slow.Store(int64(max(known[int(share*float64(len(known)-1))], time.Nanosecond)))
}
