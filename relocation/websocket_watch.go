package relocation

import (
	"context"
	"sync"
	"time"
)

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// A watch ends the one Read or Write that is under way when its context does,
// and no other: a context that ends later does no harm. The calls of a loop,
// with one context, cost one AfterFunc together.
type watch struct {
	expire func(time.Time) error // sets a deadline; nil where there is none

	mu      sync.Mutex // guards what follows
	busy    bool
	closed  bool
	expired bool            // by the context
	done    <-chan struct{} // of the context that is watched
	stop    func() bool
	err     error // of the first call that failed, which was the last
}

// begin is called before a Read or Write, and returns the context for it, or
// why it is not to be tried.
func (w *watch) begin(ctx context.Context) (context.Context, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return nil, w.err
	case w.closed:
		return nil, errTransportClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w.busy = true
	if w.expire == nil {
		return ctx, nil
	}
	if done := ctx.Done(); done != w.done {
		w.forget()
		if w.done = done; done != nil {
			w.stop = context.AfterFunc(ctx, func() { w.ended(done) })
		}
	}
	return context.Background(), nil
}

// end is called after it, and returns its error.
func (w *watch) end(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy, w.err = false, err
	if w.expired && err == nil && !w.closed { // both at once, and the call was quicker
		w.expired = false
		_ = w.expire(time.Time{})
	}
	return err
}

// ended is called when a context has ended, perhaps long after its last call.
func (w *watch) ended(done <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy && !w.closed && w.done == done {
		w.expired = true
		_ = w.expire(past)
	}
}

// close ends the call that is under way at a deadline, and refuses others.
func (w *watch) close(deadline time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.forget()
	if w.expire != nil {
		_ = w.expire(deadline)
	}
}

// forget requires w.mu.
func (w *watch) forget() {
	if w.stop != nil {
		w.stop()
	}
	w.stop, w.done = nil, nil
}
