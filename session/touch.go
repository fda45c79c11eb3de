package session

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"
)

// touch extends the session's idle time when it is time to.
func (m *Manager[T]) touch(ctx context.Context, s *Session[T]) (*Session[T], error) {
	every := m.opts.TouchEvery
	if idle := s.expires.Sub(s.lastSeen); every >= idle {
		every = idle / 10 // a Manager with other lifetimes made it
	}
	if s.asOf.Sub(s.lastSeen) < every || !s.expires.Before(s.deadline) {
		return s, nil
	}
	id := s.token.id()
	if !m.touched.begin(id, every) {
		return s, nil
	}
	rec, err := m.store.Touch(ctx, id)
	if err == nil {
		return s.seen(rec), nil
	}
	if errors.Is(err, ErrNotFound) {
		return nil, err
	}
	m.touched.wait(id, every/10)
	m.opts.Logger.Warn("session: a touch failed", "err", err)
	return s, nil
}

// touches remembers when sessions may be touched next, so that readers that
// loaded a session at the same time touch it once, and a store that refuses is
// not asked with each read. It knows sessions by a hash of their ids, which do
// not belong in the printed form of a Manager; should two share one, the other
// is touched by that much later.
type touches struct {
	seed maphash.Seed
	mu   sync.Mutex // guards next
	next map[uint64]time.Time
}

func newTouches() *touches { return &touches{seed: maphash.MakeSeed()} }

// begin reports whether the session is to be touched. That is forgotten after
// every, so a touch that the store lost is made again.
func (t *touches) begin(id string, every time.Duration) bool {
	const most = 4096 // to be forgotten early costs one touch
	now, key := time.Now(), maphash.String(t.seed, id)
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.next[key]) {
		return false
	}
	if t.next == nil || len(t.next) >= most {
		t.next = make(map[uint64]time.Time)
	}
	t.next[key] = now.Add(every)
	return true
}

// wait lets the session be touched again after d.
func (t *touches) wait(id string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next[maphash.String(t.seed, id)] = time.Now().Add(d)
}
