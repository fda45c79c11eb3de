package lock

import (
	"context"
	"errors"
	"fmt"
	"maps"
)

// A slot is a key's place in this process: one call of Lock or TryLock, or one
// lease, has it, and the others stand in line. So a process contends for a key
// once, however many of its goroutines want it. Leases of a semaphore leave it
// to the next call.
type slot struct {
	name  slotName
	lease *Lease        // of the one who has the slot, once it is granted
	told  *HeldError    // what those who contend were told last, until one is granted
	since instant       // when that was
	wake  chan struct{} // of the one who has the slot, while it waits; holds one
	woken bool          // before there was a wake

	waited bool   // the one who has the slot stood in line for it
	first  *place // those in line
	last   *place
}

// A slotName tells locks and semaphores apart.
type slotName struct {
	key       string
	semaphore bool
}

type place struct {
	ready      chan struct{} // closed when the slot is this one's
	prev, next *place
}

// enter gives ctx's call the slot of that name, at once or in its turn.
// Without wait, a slot that is taken is a HeldError, but one of a semaphore
// only when somebody waits there: else the call can do without, and gets nil.
func (l *Locker) enter(ctx context.Context, name slotName, wait bool) (*slot, error) {
	l.mu.Lock()
	if l.closed {
		l.unlock()
		return nil, ErrClosed
	}
	s, taken := l.slots.get(name)
	if !taken {
		s = &slot{name: name}
		l.slots.put(name, s)
		l.calls.Add(1)
		l.unlock()
		return s, nil
	}
	if !wait && name.semaphore && !s.waited && s.told == nil && s.first == nil {
		l.calls.Add(1)
		l.unlock()
		return nil, nil
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
	switch {
	case s.lease != nil:
		return &HeldError{Remaining: s.lease.remaining(now), Holder: s.lease.claim.Holder}
	case s.told != nil:
		return &HeldError{Remaining: max(s.told.Remaining-now.since(s.since), 0), Holder: s.told.Holder}
	default:
		return &HeldError{}
	}
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
		s.waited = true
		s.remove(p)
		close(p.ready)
		return
	}
	l.slots.drop(s.name)
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
type keyed[K comparable, V any] struct {
	m    map[K]V
	most int
}

func (k *keyed[K, V]) get(key K) (V, bool) {
	v, ok := k.m[key]
	return v, ok
}

func (k *keyed[K, V]) put(key K, v V) {
	if k.m == nil {
		k.m = make(map[K]V)
	}
	k.m[key] = v
	k.most = max(k.most, len(k.m))
}

func (k *keyed[K, V]) drop(key K) {
	delete(k.m, key)
	if k.most > 1024 && len(k.m) < k.most/8 {
		small := make(map[K]V, len(k.m))
		maps.Copy(small, k.m)
		k.m, k.most = small, len(small)
	}
}
