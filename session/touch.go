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
	if !m.touched.begin(id, m.opts.TouchEvery) {
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

// touches remembers when sessions were touched, so that readers that loaded a
// session at the same time touch it once.
type touches struct {
	mu   sync.Mutex // guards last
	last map[string]time.Time
}

// begin reports whether the session is to be touched. It is forgotten after
// every, so a touch that the store lost is made again.
func (t *touches) begin(id string, every time.Duration) bool {
	const most = 4096 // to be forgotten early costs one touch
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.last[id]; ok && time.Since(last) < every {
		return false
	}
	if t.last == nil || len(t.last) >= most {
		t.last = make(map[string]time.Time)
	}
	t.last[id] = time.Now()
	return true
}

func (t *touches) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, id)
}
