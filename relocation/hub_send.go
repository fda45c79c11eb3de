package relocation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/backoff"
)

const (
	maxBatch      = 256      // messages in one Append
	maxBatchBytes = 64 << 10 // unless one is larger
)

// A hubSender appends the messages for one session, those of concurrent calls
// together.
type hubSender struct {
	waiting []*hubSend
	heard   uint64 // the last message of which there was an Appended meanwhile
}

// A hubSend is one call of Send.
type hubSend struct {
	p    []byte
	sent bool          // it is in a batch: guarded by Hub.mu
	done chan struct{} // closed when there is a result
	seq  uint64
	err  error
}

// Send appends p for the client of a session, wherever that is attached, and
// returns its number. The client gets it, in order and once, for as long as the
// session lasts. Send copies p. Concurrent calls for one session are appended
// together, in the order in which they came.
//
// ErrUnknown and [*ExpiredError] say that there is no such session any more,
// [ErrBufferFull] that the client has not acknowledged as much as is kept for
// it, and ErrUncertain of the root package, also when ctx ends, that the
// message may have been appended all the same. Others are [ErrClosed],
// [ErrTooLarge], [ErrSequenceExhausted], or wrap another class of the root
// package; then it was not.
func (h *Hub) Send(ctx context.Context, session string, p []byte) (seq uint64, err error) {
	err = h.unusable()
	switch {
	case err != nil:
	case len(p) > h.opts.MaxMessage:
		err = tooLarge(len(p), h.opts.MaxMessage)
	case ctx.Err() != nil:
		err = ctx.Err()
	case !h.begin():
		err = ErrClosed
	default:
		defer h.tasks.Done()
		seq, err = h.send(ctx, session, p)
	}
	if err != nil {
		return 0, hubError("send", err)
	}
	return seq, nil
}

func (h *Hub) send(ctx context.Context, session string, p []byte) (uint64, error) {
	c := &hubSend{p: clone(p)}
	h.mu.Lock()
	q := h.senders[session]
	if q == nil {
		// Nobody else is at it: no goroutine is needed.
		q = new(hubSender)
		h.senders[session] = q
		h.mu.Unlock()
		h.appendBatch(ctx, session, []*hubSend{c})
		if h.endSender(session, q) {
			return c.seq, c.err
		}
		h.tasks.Go(func() { h.appendAll(session, q) })
		return c.seq, c.err
	}
	c.done = make(chan struct{})
	q.waiting = append(q.waiting, c)
	h.mu.Unlock()
	select {
	case <-c.done:
		return c.seq, c.err
	case <-ctx.Done():
	case <-h.ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-c.done:
		return c.seq, c.err
	default:
	}
	err := ctx.Err()
	if err == nil {
		err = ErrClosed
	}
	if c.sent {
		return 0, fmt.Errorf("%w: %w", transparency.ErrUncertain, err)
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(w *hubSend) bool { return w == c })
	return 0, err
}

// endSender ends a sender that nobody waits for, and reports whether it did.
func (h *Hub) endSender(session string, q *hubSender) bool {
	h.mu.Lock()
	if len(q.waiting) > 0 {
		h.mu.Unlock()
		return false
	}
	delete(h.senders, session)
	s, heard := h.sessions[session], q.heard
	h.mu.Unlock()
	if s != nil && heard > 0 {
		s.appended(heard)
	}
	return true
}

// appendAll appends what waits, until nothing does.
func (h *Hub) appendAll(session string, q *hubSender) {
	for !h.endSender(session, q) {
		h.mu.Lock()
		n, size := 0, 0
		for n < len(q.waiting) && n < maxBatch && (n == 0 || size+len(q.waiting[n].p) <= maxBatchBytes) {
			size += len(q.waiting[n].p)
			q.waiting[n].sent = true
			n++
		}
		calls := slices.Clone(q.waiting[:n])
		q.waiting = slices.Delete(q.waiting, 0, n)
		h.mu.Unlock()
		if n > 0 { // else they have given up
			h.appendBatch(context.Background(), session, calls)
		}
	}
}

// appendBatch appends the messages of some calls, and tells them.
func (h *Hub) appendBatch(ctx context.Context, session string, calls []*hubSend) {
	batch := Batch{ID: rand.Text(), Messages: make([][]byte, len(calls))}
	for i, c := range calls {
		batch.Messages[i] = c.p
	}
	first, err := h.appendOnce(ctx, session, &batch)
	if errors.Is(err, ErrBufferFull) && len(calls) > 1 {
		// Some may fit.
		for _, c := range calls {
			h.appendBatch(ctx, session, []*hubSend{c})
		}
		return
	}
	if err == nil {
		if s := h.session(session); s != nil {
			s.mu.Lock()
			s.offer(first, batch.Messages, batch.ID)
			s.kick()
			s.mu.Unlock()
		}
	}
	for i, c := range calls {
		c.seq, c.err = first+uint64(i), err
		if err != nil {
			c.seq = 0
		}
		if c.done != nil {
			close(c.done)
		}
	}
}

// appendOnce makes the request, and makes it again while its outcome is
// unknown, a few times.
func (h *Hub) appendOnce(ctx context.Context, session string, batch *Batch) (uint64, error) {
	pause := backoff.Policy{Base: 20 * time.Millisecond, Max: 200 * time.Millisecond}
	start := time.Now()
	for attempt := 0; ; attempt++ {
		bounded, cancel := context.WithTimeout(ctx, h.storeTimeout())
		first, err := h.store.Append(bounded, session, *batch)
		cancel()
		if err == nil || storeAnswer(err) {
			return first, err
		}
		unknown := batch.Age > 0 || errors.Is(err, transparency.ErrUncertain)
		if !unknown || attempt == 3 || h.ctx.Err() != nil || backoff.Sleep(ctx, pause.Delay(attempt)) != nil {
			if unknown && !errors.Is(err, transparency.ErrUncertain) {
				err = fmt.Errorf("%w: %w", transparency.ErrUncertain, err)
			}
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && !unknown {
				err = fmt.Errorf("%w: %w", transparency.ErrUnavailable, err)
			}
			return 0, err
		}
		batch.Age = time.Since(start)
	}
}
