package lock

import (
	"context"
	"errors"
	"fmt"
	"maps"
)

// A slot is a key's place in this process: one call of Lock or TryLock, or one
// lease, has it, and the others stand in line. So a process contends for a key
// once, however many of its goroutines want it.
type slot struct {
	key   string
	lease *Lease        // of the one who has the slot, once it is granted
	wake  chan struct{} // of the one who has the slot, while it waits; holds one
	woken bool          // before there was a wake
	first *place        // those in line
	last  *place
}

type place struct {
	ready      chan struct{} // closed when the slot is this one's
	prev, next *place
}

// enter gives ctx's call the slot of key, at once or in its turn. Without
// wait, a slot that is taken is a HeldError.
func (l *Locker) enter(ctx context.Context, key string, wait bool) (*slot, error) {
	l.mu.Lock()
	if l.closed {
		l.unlock()
		return nil, ErrClosed
	}
	s, taken := l.slots.get(key)
	if !taken {
		s = &slot{key: key}
		l.slots.put(key, s)
		l.calls.Add(1)
		l.unlock()
		return s, nil
	}
	if !wait {
		defer l.unlock()
		return nil, s.held(l.now())
	}
	p := &place{ready: make(chan struct{}), prev: s.last}
	if s.last == nil {
		s.first = p
	} else {
		s.last.next = p
	}
	s.last = p
	l.calls.Add(1)
	l.waiting++
	l.unlock()

	var err error
	select {
	case <-p.ready:
		err = ctx.Err()
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.done:
		err = ErrClosed
	}
	l.mu.Lock()
	defer l.unlock()
	l.waiting--
	if err == nil {
		return s, nil
	}
	l.calls.Done()
	held := s.held(l.now())
	select {
	case <-p.ready: // in the same moment: it goes to the next
		l.pass(s)
	default:
		s.remove(p)
	}
	if errors.Is(err, ErrClosed) {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", held, err)
}

// held says that the slot is taken. It requires the Locker's mu.
func (s *slot) held(now instant) *HeldError {
	held := &HeldError{}
	if s.lease != nil {
		held.Remaining = s.lease.remaining(now)
	}
	return held
}

// remove takes p out of the line. It requires the Locker's mu.
func (s *slot) remove(p *place) {
	if p.prev == nil {
		s.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		s.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
}

// pass gives the slot to the next in line. It requires l.mu.
func (l *Locker) pass(s *slot) {
	s.lease, s.wake, s.woken = nil, nil, false
	if p := s.first; p != nil {
		s.remove(p)
		close(p.ready)
		return
	}
	l.slots.drop(s.key)
}

// leave gives up the lease's slot, if it still has it. It requires l.mu.
func (l *Locker) leave(lease *Lease) {
	if s := lease.slot; s != nil {
		lease.slot = nil
		l.pass(s)
	}
}

// keyed is a map that gives memory back when it has shrunk: Go's maps keep the room
// that they once needed.
type keyed[V any] struct {
	m    map[string]V
	most int
}

func (k *keyed[V]) get(key string) (V, bool) {
	v, ok := k.m[key]
	return v, ok
}

func (k *keyed[V]) put(key string, v V) {
	if k.m == nil {
		k.m = make(map[string]V)
	}
	k.m[key] = v
	k.most = max(k.most, len(k.m))
}

func (k *keyed[V]) drop(key string) {
	delete(k.m, key)
	if k.most > 1024 && len(k.m) < k.most/8 {
		small := make(map[string]V, len(k.m))
		maps.Copy(small, k.m)
		k.m, k.most = small, len(small)
	}
}
