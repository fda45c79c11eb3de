package relocation

import (
	"context"
	"iter"
	"sync"
)

// kept is how many changes are kept for readers that are slow.
const kept = 64

// changes keeps the last changes for any number of readers, each at its own
// pace, so that none of them can delay a Conn.
type changes struct {
	mu    sync.Mutex // guards what follows
	last  []Change   // a ring of kept, once there are as many
	seq   uint64
	ended bool
	fresh chan struct{} // closed at the next change; nil when nobody waits
}

// add takes the change that follows; its Seq is set here. None follows one to
// Closed.
func (c *changes) add(change Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	change.Seq = c.seq
	if len(c.last) < kept {
		c.last = append(c.last, change)
	} else {
		c.last[(c.seq-1)%kept] = change
	}
	c.ended = change.To == Closed
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
// is one, or neither when there will be none.
func (c *changes) next(seq uint64) (Change, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case seq < c.seq:
		if c.seq-seq > kept {
			seq = c.seq - kept
		}
		return c.last[seq%kept], nil
	case c.ended:
		return Change{}, nil
	}
	if c.fresh == nil {
		c.fresh = make(chan struct{})
	}
	return Change{}, c.fresh
}

// all returns the changes from now on.
func (c *changes) all(ctx context.Context) iter.Seq[Change] {
	start := c.count()
	return func(yield func(Change) bool) {
		for seq := start; ctx.Err() == nil; {
			change, fresh := c.next(seq)
			switch {
			case fresh != nil:
				select {
				case <-fresh:
				case <-ctx.Done():
				}
			case change.Seq == 0 || !yield(change):
				return
			default:
				seq = change.Seq
			}
		}
	}
}
