package failure

import (
	"context"
	"iter"
	"sync"
	"time"
)

// A Change is a change of a breaker's state.
type Change struct {
	// Seq counts the changes of one breaker from one. A gap says that the
	// reader was too slow for some.
	Seq      uint64
	From, To State
	At       time.Time
}

// kept is how many changes are kept for readers that are slow.
const kept = 64

// changes keeps the last changes for any number of readers, each at its own
// pace, so that none of them can delay a call.
type changes struct {
	mu    sync.Mutex // guards what follows
	last  [kept]Change
	seq   uint64
	fresh chan struct{} // closed at the next change; nil when nobody waits
}

func (c *changes) add(from, to State, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	c.last[c.seq%kept] = Change{c.seq, from, to, at}
	if c.fresh != nil {
		close(c.fresh)
		c.fresh = nil
	}
}

func (c *changes) count() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seq
}

// next returns the oldest change kept after seq, or what is closed when there
// is one.
func (c *changes) next(seq uint64) (Change, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seq == c.seq {
		if c.fresh == nil {
			c.fresh = make(chan struct{})
		}
		return Change{}, c.fresh
	}
	if c.seq-seq > kept {
		seq = c.seq - kept
	}
	return c.last[(seq+1)%kept], nil
}

// all returns the changes from now on.
func (c *changes) all(ctx context.Context) iter.Seq[Change] {
	start := c.count()
	return func(yield func(Change) bool) {
		for seq := start; ; {
			if ctx.Err() != nil {
				return
			}
			change, fresh := c.next(seq)
			if fresh == nil {
				if !yield(change) {
					return
				}
				seq = change.Seq
				continue
			}
			select {
			case <-fresh:
			case <-ctx.Done():
				return
			}
		}
	}
}
