package relocation

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency/internal/backoff"
)

const (
	renewBatch  = 512 // leases in one request
	maxFlights  = 4   // requests to renew under way
	keepPerTerm = 12  // looks in the term of a lease, and at least one a second
	keepAtLeast = time.Second
)

// The keeper is the one goroutine that looks after a Hub's sessions while there
// are any. It ends those whose lease, principal or sign of life is over and
// starts renewals, but waits for none, so that a store that does not answer
// never delays the news of a loss.
func (h *Hub) keep() {
	var sessions, due []*Session
	flights := make(chan struct{}, maxFlights)
	var behind atomic.Bool // more are due than can be under way
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-h.kick:
		}
		h.mu.Lock()
		sessions, due = sessions[:0], due[:0]
		for s := range h.all {
			sessions = append(sessions, s)
		}
		if len(sessions) == 0 {
			h.keeping = false
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
		now := time.Now()
		for _, s := range sessions {
			if s.look(now) {
				due = append(due, s)
			}
		}
		behind.Store(len(due) > renewBatch*(cap(flights)-len(flights)))
		for len(due) > 0 && len(flights) < cap(flights) {
			batch := append([]*Session(nil), due[:min(len(due), renewBatch)]...)
			due = due[len(batch):]
			flights <- struct{}{}
			h.tasks.Go(func() {
				h.renew(batch)
				<-flights
				if behind.Load() {
					wakeUp(h.kick)
				}
			})
		}
		for _, s := range due { // another time
			s.notRenewed()
		}
		clear(sessions[:cap(sessions)]) // for those that leave
		timer.Reset(min(h.opts.Lease/keepPerTerm, keepAtLeast))
	}
}

// renew renews leases in one request.
func (h *Hub) renew(batch []*Session) {
	leases := make([]Lease, 0, len(batch))
	known := make([]uint64, 0, len(batch))
	sessions := batch[:0]
	for _, s := range batch {
		if lease, out, ok := s.renewal(); ok {
			sessions, leases, known = append(sessions, s), append(leases, lease), append(known, out)
		}
	}
	if len(sessions) == 0 {
		return
	}
	ctx, cancel := h.storeContext()
	defer cancel()
	start := time.Now()
	results := h.store.Renew(ctx, leases)
	var ended []Lease
	for i, s := range sessions {
		r := Renewal{Err: errNoResult}
		if len(results) == len(sessions) {
			r = results[i]
		}
		if s.renewed(start, known[i], r) {
			ended = append(ended, s.lapse())
		}
	}
	if len(ended) > 0 {
		ctx, cancel := h.storeContext()
		defer cancel()
		h.store.Renew(ctx, ended)
	}
}

var errNoResult = errors.New("the store gave no result")

// lookAgain has every session renewed at once, which tells what else the store
// would have.
func (h *Hub) lookAgain() {
	h.mu.Lock()
	sessions := h.list()
	for _, wakes := range h.waiting {
		for _, wake := range wakes {
			wakeUp(wake)
		}
	}
	h.mu.Unlock()
	for _, s := range sessions {
		s.mu.Lock()
		s.stale = true
		s.mu.Unlock()
	}
	wakeUp(h.kick)
}

// listen hears what other instances send, until the Hub is closed.
func (h *Hub) listen() {
	pause := backoff.Policy{Base: 100 * time.Millisecond, Max: 5 * time.Second}
	for attempt := 0; ; attempt++ {
		start := time.Now()
		err := h.store.Listen(h.ctx, h.owner, h.hear)
		if h.ctx.Err() != nil {
			return
		}
		if time.Since(start) > time.Minute {
			attempt = 0
		}
		h.opts.Logger.Warn("relocation: hears nothing of other instances, and polls", "error", err)
		h.lookAgain()
		if backoff.Sleep(h.ctx, pause.Delay(attempt)) != nil {
			return
		}
	}
}

// storeContext bounds one request to the store. It outlasts no lease, and ends
// soon when the Hub has been closed.
func (h *Hub) storeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), h.storeTimeout())
}

func (h *Hub) storeTimeout() time.Duration {
	timeout := min(h.opts.Lease/4, 2*time.Second)
	if h.ctx.Err() != nil {
		timeout = min(timeout, time.Second)
	}
	return timeout
}
