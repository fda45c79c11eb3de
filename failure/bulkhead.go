package failure

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// What zero fields of [BulkheadOptions] mean.
const (
	DefaultPlaces    = 64
	DefaultQueue     = 64
	DefaultQueueWait = time.Second
)

// BulkheadOptions configures a [Bulkhead]. Nil is fine.
type BulkheadOptions struct {
	// Name is told in errors.
	Name string

	// Places is how many calls may be under way at once. Zero means
	// [DefaultPlaces].
	Places int

	// Queue is how many calls may wait for a place. Zero means [DefaultQueue];
	// negative means none.
	Queue int

	// QueueWait is how long a call waits at most. Zero means
	// [DefaultQueueWait]; negative means as long as its context lasts.
	QueueWait time.Duration
}

// A Bulkhead is a [Policy] that bounds how many calls are under way at once, so
// that one service that has become slow cannot take up all that its callers
// have (Nygard, "Release It!", 2nd ed. 2018, chapter 5). Calls that wait are
// served first come, first served; one that goes away costs the others
// nothing. A place is free again when the call has ended, by a panic or
// runtime.Goexit too.
type Bulkhead struct {
	opts BulkheadOptions
	err  error // why no call can work

	mu       sync.Mutex // guards what follows
	active   int
	waiting  int
	first    *waiter
	last     *waiter
	rejected uint64
}

// A waiter is a call in the queue, guarded by b.mu.
type waiter struct {
	prev, next *waiter
	place      chan struct{} // closed when it has been given a place
	given      bool
}

// NewBulkhead returns a Bulkhead. An option that makes no sense is an error of
// every call, wrapping [github.com/go-transparency/transparency.ErrInvalid].
func NewBulkhead(opts *BulkheadOptions) *Bulkhead {
	b := &Bulkhead{}
	if opts != nil {
		b.opts = *opts
	}
	orDefault(&b.opts.Places, DefaultPlaces)
	orDefault(&b.opts.Queue, DefaultQueue)
	orDefault(&b.opts.QueueWait, DefaultQueueWait)
	if b.opts.Places < 0 {
		b.err = invalid("the number of places is %d", b.opts.Places)
	}
	return b
}

// Do implements [Policy]. It calls next when there is a place. If there is none
// in time, or the queue is full, it returns an [*Error] wrapping [ErrFull]; if
// the context ends while the call waits, the error wraps the context's too.
func (b *Bulkhead) Do(ctx context.Context, next Next) (any, error) {
	if b == nil || next == nil {
		return nil, unusable("bulkhead", next)
	}
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	defer b.leave()
	return next(ctx)
}

// Acquire is the first half of Do, for calls that are not functions. It returns
// what gives the place back; calling that more than once does nothing.
func (b *Bulkhead) Acquire(ctx context.Context) (release func(), err error) {
	if b == nil {
		return nil, unmade("bulkhead")
	}
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	return sync.OnceFunc(b.leave), nil
}

// enter takes a place.
func (b *Bulkhead) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	switch {
	case b.active < b.opts.Places: // and then nobody waits
		b.active++
		b.mu.Unlock()
		return nil
	case b.opts.Places <= 0:
		b.mu.Unlock()
		if b.err == nil {
			return unmade("bulkhead")
		}
		return failed("bulkhead", b.opts.Name, b.err)
	case b.waiting >= b.opts.Queue:
		b.rejected++
		b.mu.Unlock()
		return b.full(nil)
	}
	w := &waiter{prev: b.last, place: make(chan struct{})}
	if b.last != nil {
		b.last.next = w
	} else {
		b.first = w
	}
	b.last = w
	b.waiting++
	b.mu.Unlock()
	return b.wait(ctx, w)
}

// wait waits for a place in the queue.
func (b *Bulkhead) wait(ctx context.Context, w *waiter) error {
	var over <-chan time.Time
	if b.opts.QueueWait > 0 {
		timer := time.NewTimer(b.opts.QueueWait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-w.place:
		return nil
	case <-over:
		if b.quit(w, false) {
			return nil
		}
		return b.full(nil)
	case <-ctx.Done():
		b.quit(w, true)
		return b.full(ended(ctx))
	}
}

// quit takes w out of the queue. If it was given a place meanwhile, quit gives
// it on when that is wanted, and else reports true.
func (b *Bulkhead) quit(w *waiter, gone bool) (given bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.given {
		if gone {
			b.pass()
		}
		return true
	}
	b.remove(w)
	b.rejected++
	return false
}

// leave gives a place back.
func (b *Bulkhead) leave() {
	b.mu.Lock()
	b.pass()
	b.mu.Unlock()
}

// pass gives a place to the first who waits, if any. It requires b.mu.
func (b *Bulkhead) pass() {
	w := b.first
	if w == nil {
		b.active--
		return
	}
	b.remove(w)
	w.given = true
	close(w.place)
}

// remove takes w out of the queue. It requires b.mu.
func (b *Bulkhead) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		b.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		b.last = w.prev
	}
	b.waiting--
}

func (b *Bulkhead) full(why error) error {
	reason := ErrFull
	if why != nil {
		reason = fmt.Errorf("%w: %w", ErrFull, why)
	}
	return &Error{Policy: "bulkhead", Name: b.opts.Name, Reason: reason}
}

// BulkheadStats counts what a [Bulkhead] does.
type BulkheadStats struct {
	Active, Waiting int    // calls of this moment
	Rejected        uint64 // calls that found no place, since the start
}

// Stats returns the counts of this moment.
func (b *Bulkhead) Stats() BulkheadStats {
	if b == nil {
		return BulkheadStats{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return BulkheadStats{Active: b.active, Waiting: b.waiting, Rejected: b.rejected}
}
