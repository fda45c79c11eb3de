package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/backoff"
)

// mostTries bounds how often one Update or Renew saves.
const mostTries = 10

var conflictDelay = backoff.Policy{Base: 5 * time.Millisecond, Max: 500 * time.Millisecond}

// write saves what edit makes of the session's payload under next, which is
// the session's token from then on.
func (m *Manager[T]) write(ctx context.Context, op string, s *Session[T], next Token, edit func(payload []byte) ([]byte, error)) (*Session[T], error) {
	for try := 1; ; try++ {
		payload, err := edit(s.payload)
		if err != nil {
			return nil, err
		}
		v, err := decodeJSON[T](payload) // before anything is sent
		if err != nil {
			return nil, opError(op, err)
		}
		data := envelope{next.hash(), payload}.encode()
		rec, err := m.finish(ctx, op, func(ctx context.Context) (Record, error) {
			return m.store.Save(ctx, s.token.id(), data, s.version)
		})
		if err == nil {
			return newSession(next, rec, payload, v), nil
		}
		if !errors.Is(err, ErrConflict) {
			return nil, err
		}
		if try == mostTries {
			return nil, opError(op, fmt.Errorf("%w: %d tries", ErrConflict, try))
		}
		if err := backoff.Sleep(ctx, conflictDelay.Delay(try-1)); err != nil {
			return nil, opError(op, fmt.Errorf("%w: %w", ErrConflict, err))
		}
		if s, err = m.load(ctx, s.token); err != nil {
			return nil, err
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

const (
	mostAlone    = 64              // writes of one Manager whose callers have gone
	aloneTimeout = 5 * time.Second // for one of them
)

// finish runs a write. A store finishes what it has begun, so while ctx lives
// it is simply called. When ctx has ended before, as after a client has hung
// up, the write is made all the same, by itself and within bounds: a logout
// must not depend on who waits for its answer.
func (m *Manager[T]) finish(ctx context.Context, op string, write func(context.Context) (Record, error)) (Record, error) {
	ended := ctx.Err()
	if ended == nil {
		return write(ctx)
	}
	select {
	case m.alone <- struct{}{}:
	default:
		return Record{}, opError(op, fmt.Errorf("%w: not sent: %d writes are on their own already: %w",
			transparency.ErrUnavailable, mostAlone, ended))
	}
	go func() {
		defer func() { <-m.alone }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aloneTimeout)
		defer cancel()
		if _, err := write(ctx); err != nil {
			m.opts.Logger.Warn("session: a write whose caller had gone failed", "op", op, "err", err)
		}
	}()
	return Record{}, opError(op, fmt.Errorf("%w: not waited for: %w", transparency.ErrUncertain, ended))
}
