package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency/internal/backoff"
)

// mostTries bounds how often one Update or Renew saves.
const mostTries = 10

// conflictDelay is how long to wait after a save that took so long and met
// another. A writer that just won saves again in one step where the others need
// two, and would starve them for as long as it goes on; so they must outwait a
// number of its saves, whatever a save takes there.
func conflictDelay(took time.Duration, try int) time.Duration {
	return backoff.Policy{Base: max(5*time.Millisecond, 8*took), Max: time.Second}.Delay(try - 1)
}

// write saves what edit makes of the session's payload under next, which is
// the session's token from then on.
func (m *Manager[T]) write(ctx context.Context, op string, s *Session[T], next Token, edit func(payload []byte) ([]byte, error)) (*Session[T], error) {
	last := &grace{ctx: ctx}
	defer last.end()
	for try := 1; ; try++ {
		payload, err := edit(s.payload)
		if err != nil {
			return nil, err
		}
		v, err := readBack[T](payload) // before anything is sent
		if err != nil {
			return nil, opError(op, err)
		}
		data := envelope{next.hash(), payload}.encode()
		start := time.Now()
		rec, err := m.store.Save(last.context(), s.token.id(), data, s.version)
		if err == nil {
			return newSession(next, rec, payload, v), nil
		}
		if !errors.Is(err, ErrConflict) {
			return nil, last.join(err)
		}
		if try == mostTries {
			return nil, opError(op, fmt.Errorf("%w: %d tries", ErrConflict, try))
		}
		if err := backoff.Sleep(last.context(), conflictDelay(time.Since(start), try)); err != nil {
			return nil, last.join(opError(op, fmt.Errorf("%w: %w", ErrConflict, err)))
		}
		if s, err = m.load(last.context(), s.token); err != nil {
			return nil, last.join(err)
		}
	}
}

// change returns the payload with fn applied to its value. The error of fn is
// returned as it is.
func change[T any](payload []byte, fn func(*T) error) ([]byte, error) {
	v, err := decodeJSON[T](payload)
	if err != nil {
		return nil, opError("update", err)
	}
	before, err := encodeJSON(v)
	if err != nil {
		return nil, opError("update", err)
	}
	if err := fn(&v); err != nil {
		return nil, err
	}
	after, err := encodeJSON(v)
	if err != nil {
		return nil, opError("update", err)
	}
	return keepUnknown(payload, before, after), nil
}

// graceTime is how long a write may take whose context has ended before it.
const graceTime = 50 * time.Millisecond

// A grace lets a write begin although its context has ended, as it has when a
// client hung up: a logout must not depend on who waits for its answer. A write
// that has begun is finished by the store. While the context lives nothing is
// added to it, so that callers return at once when it ends.
type grace struct {
	ctx    context.Context
	longer context.Context // ctx with the grace, once that has begun
	cancel context.CancelFunc
}

func (g *grace) context() context.Context {
	if g.longer == nil {
		if g.ctx.Err() == nil {
			return g.ctx
		}
		g.longer, g.cancel = context.WithTimeout(context.WithoutCancel(g.ctx), graceTime)
	}
	return g.longer
}

// join adds to err that the caller's context has ended.
func (g *grace) join(err error) error {
	if ended := g.ctx.Err(); err != nil && ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", err, ended)
	}
	return err
}

func (g *grace) end() {
	if g.cancel != nil {
		g.cancel()
	}
}
