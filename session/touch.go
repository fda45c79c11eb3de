package session

import (
	"context"
	"errors"
	"sync"
	"time"
)

// touch extends the session's idle time when it is time to.
func (m *Manager[T]) touch(ctx context.Context, s *Session[T]) (*Session[T], error) {
	if s.asOf.Sub(s.lastSeen) < m.opts.TouchEvery || !s.expires.Before(s.deadline) {
		return s, nil
	}
	id := s.token.id()
	if !m.touched.begin(id, s.lastSeen, m.opts.TouchEvery) {
		return s, nil
	}
	rec, err := m.store.Touch(ctx, id)
	if err == nil {
		return s.seen(rec), nil
	}
	m.touched.forget(id)
	if errors.Is(err, ErrNotFound) {
		return nil, err
	}
	m.opts.Logger.Warn("session: a touch failed", "err", err)
	return s, nil
}

// touches remembers which sessions were touched of late, so that readers that
// loaded a session at the same time touch it once.
type touches struct {
	mu   sync.Mutex // guards last
	last map[string]touched
}

type touched struct{ seen, at time.Time }

// begin reports whether the session, last seen at seen, is to be touched. A
// touch that the store lost is repeated after every.
func (t *touches) begin(id string, seen time.Time, every time.Duration) bool {
	const most = 4096 // to be forgotten costs one touch
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.last[id]; ok && last.seen.Equal(seen) && time.Since(last.at) < every {
		return false
	}
	if t.last == nil || len(t.last) >= most {
		t.last = make(map[string]touched)
	}
	t.last[id] = touched{seen, time.Now()}
	return true
}

func (t *touches) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, id)
}
