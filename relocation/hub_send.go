package relocation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
	c := &hubSend{p: clone(p), done: make(chan struct{})}
	h.mu.Lock()
	q := h.senders[session]
	if q == nil {
		q = new(hubSender)
		h.senders[session] = q
		h.tasks.Go(func() { h.appendAll(session, q) })
	}
	q.waiting = append(q.waiting, c)
	h.mu.Unlock()
	select {
	case <-c.done:
		return c.seq, c.err
	case <-ctx.Done():
	case <-h.ctx.Done():
	}
	err := ctx.Err()
	if err == nil {
		err = ErrClosed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-c.done:
		return c.seq, c.err
	default:
	}
	if c.sent {
		return 0, fmt.Errorf("%w: %w", transparency.ErrUncertain, err)
	}
	for i, w := range q.waiting {
		if w == c {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			break
		}
	}
	return 0, err
}

// appendAll appends what waits, until nothing does.
func (h *Hub) appendAll(session string, q *hubSender) {
	for {
		h.mu.Lock()
		if len(q.waiting) == 0 {
			delete(h.senders, session)
			h.mu.Unlock()
			return
		}
		n, size := 0, 0
		for n < len(q.waiting) && n < maxBatch && (n == 0 || size+len(q.waiting[n].p) <= maxBatchBytes) {
			size += len(q.waiting[n].p)
			q.waiting[n].sent = true
			n++
		}
		calls := q.waiting[:n:n]
		q.waiting = q.waiting[n:]
		h.mu.Unlock()
		h.appendBatch(session, calls)
	}
}

// appendBatch appends the messages of some calls, and tells them.
func (h *Hub) appendBatch(session string, calls []*hubSend) {
	batch := Batch{ID: rand.Text(), Messages: make([][]byte, len(calls))}
	for i, c := range calls {
		batch.Messages[i] = c.p
	}
	first, err := h.appendOnce(session, &batch)
	if errors.Is(err, ErrBufferFull) && len(calls) > 1 {
		// Some may fit.
		for _, c := range calls {
			h.appendBatch(session, []*hubSend{c})
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
		close(c.done)
	}
}

// appendOnce makes the request, and makes it again while its outcome is
// unknown, a few times.
func (h *Hub) appendOnce(session string, batch *Batch) (uint64, error) {
	pause := backoff.Policy{Base: 20 * time.Millisecond, Max: 200 * time.Millisecond}
	start := time.Now()
	for attempt := 0; ; attempt++ {
		ctx, cancel := h.storeContext()
		first, err := h.store.Append(ctx, session, *batch)
		cancel()
		unknown := errors.Is(err, transparency.ErrUncertain)
		if err == nil || batch.Age == 0 && !unknown || attempt == 3 || h.ctx.Err() != nil {
			if err != nil && batch.Age > 0 && storeTrouble(err) {
				err = fmt.Errorf("%w: %w", transparency.ErrUncertain, err)
			}
			return first, err
		}
		if batch.Age > 0 && !storeTrouble(err) {
			return first, err
		}
		backoff.Sleep(h.ctx, pause.Delay(attempt)) //nolint:errcheck // looked at above
		batch.Age = time.Since(start)
	}
}
