package location

import (
	"context"
	"sync"
	"time"

	"github.com/go-transparency/transparency/internal/backoff"
)

// An undoing is a deregistration that nobody waits for: of an attempt that was
// given up, or one that got no answer. It is tried until the TTL has done the
// work.
type undoing struct {
	service string
	in      Instance
	until   time.Time
}

// The undoer makes them, one after another, in a goroutine that is there while
// there are any.
type undoer struct {
	running bool
	list    []*undoing // pointers, whose tokens fmt does not print
}

// maxUndoing bounds the list. What does not fit is left to its TTL.
const maxUndoing = 1 << 14

// undo requires r.mu.
func (r *Registry) undo(service string, in Instance) {
	if len(r.undoer.list) >= maxUndoing {
		return
	}
	r.undoer.list = append(r.undoer.list, &undoing{service, in, time.Now().Add(in.TTL)})
	if !r.undoer.running && !r.closed { // else Close does it
		r.undoer.running = true
		r.tasks.Add(1)
		go r.undoAll()
	}
}

func (r *Registry) undoAll() {
	defer r.tasks.Done()
	for failures := 0; ; {
		u := r.nextUndoing()
		if u == nil {
			return
		}
		ctx, cancel := context.WithTimeout(r.ctx, r.opts.Timeout)
		err := r.driver.Deregister(ctx, u.service, u.in)
		cancel()
		if err == nil || isFinal(err) || !time.Now().Before(u.until) {
			failures = 0
			continue
		}
		r.mu.Lock()
		r.undoer.list = append(r.undoer.list, u)
		r.mu.Unlock()
		_ = backoff.Sleep(r.ctx, retryPolicy(u.in.TTL).Delay(failures))
		failures++
	}
}

func (r *Registry) nextUndoing() *undoing {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := &r.undoer
	if len(d.list) == 0 || r.closed {
		d.running = false
		return nil
	}
	u := d.list[0]
	d.list = d.list[1:]
	return u
}

// deregisterAll ends what is registered and tries once what is still to be
// undone, for Close. It takes the Timeout at most.
func (r *Registry) deregisterAll() {
	const atOnce = 16
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.Timeout)
	defer cancel()
	r.mu.Lock()
	work := r.undoer.list
	r.undoer.list = nil
	regs := make([]*Registration, 0, len(r.regs))
	for g := range r.regs {
		regs = append(regs, g)
	}
	r.mu.Unlock()
	for _, g := range regs {
		g.end(StateDeregistered, ErrDeregistered)
		work = append(work, &undoing{service: g.service, in: g.instance()})
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, u := range work {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() == nil {
				_ = r.driver.Deregister(ctx, u.service, u.in)
			}
		})
	}
	wg.Wait()
}
