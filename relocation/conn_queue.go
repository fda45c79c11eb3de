package relocation

import "container/list"

// sendQueue has the calls of Send that wait for room, in the order in which
// they came.
type sendQueue struct{ l list.List }

type sendWait struct {
	p     []byte
	ack   bool
	ready chan struct{} // closed once it is decided; then wait and err are set
	wait  *ackWait
	err   error
	at    *list.Element // nil once it is decided
}

func (q *sendQueue) empty() bool { return q.l.Len() == 0 }

func (q *sendQueue) add(p []byte, ack bool) *sendWait {
	s := &sendWait{p: p, ack: ack, ready: make(chan struct{})}
	s.at = q.l.PushBack(s)
	return s
}

func (q *sendQueue) first() *sendWait {
	if e := q.l.Front(); e != nil {
		return e.Value.(*sendWait)
	}
	return nil
}

func (q *sendQueue) remove(s *sendWait) {
	q.l.Remove(s.at)
	s.at = nil
}

func (q *sendQueue) done(s *sendWait, w *ackWait, err error) {
	q.remove(s)
	s.wait, s.err = w, err
	close(s.ready)
}

// taken reports whether the call is decided.
func (s *sendWait) taken() bool { return s.at == nil }

// ackQueue has the waits for acknowledgements, in the order of their numbers.
type ackQueue struct{ l list.List }

type ackWait struct {
	seq   uint64
	ready chan struct{} // closed at the acknowledgement, or when err is set
	err   error
	at    *list.Element
}

// add requires that seq is the last number so far.
func (q *ackQueue) add(seq uint64) *ackWait {
	w := &ackWait{seq: seq, ready: make(chan struct{})}
	w.at = q.l.PushBack(w)
	return w
}

func (q *ackQueue) remove(w *ackWait) {
	if w.at != nil {
		q.l.Remove(w.at)
		w.at = nil
	}
}

// acked ends the waits up to seq.
func (q *ackQueue) acked(seq uint64) {
	for e := q.l.Front(); e != nil; e = q.l.Front() {
		w := e.Value.(*ackWait)
		if w.seq > seq {
			return
		}
		q.remove(w)
		close(w.ready)
	}
}

// fail ends all waits.
func (q *ackQueue) fail(err error) {
	for e := q.l.Front(); e != nil; e = q.l.Front() {
		w := e.Value.(*ackWait)
		w.err = err
		q.remove(w)
		close(w.ready)
	}
}

// fail ends all calls.
func (q *sendQueue) fail(err error) {
	for s := q.first(); s != nil; s = q.first() {
		q.done(s, nil, err)
	}
}
