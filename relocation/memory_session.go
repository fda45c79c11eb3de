package relocation

import (
	"cmp"
	"container/heap"
	"time"
)

// A memorySession is a session in a [MemoryStore], or what is remembered of
// one that ended. The store's mutex guards it.
type memorySession struct {
	id    string
	terms Terms

	generation uint64
	owner      string    // the last
	free       bool      // it released the session, or there was none
	lease      time.Time // the end of the owner's
	nonce      string    // of the last claim
	released   bool      // before the last claim
	attempt    uint64    // of the last claim
	confirmed  uint64    // tokens of earlier generations are refused

	in, out, acked uint64
	outbox         []Outgoing // acked+1 to out
	size           int64      // of the outbox
	mark           string     // of the last update
	first          uint64     // its result
	batches        memoryBatches

	ended   bool
	expires time.Time // what is there now: the session, or the memory of its end
	due     time.Time // no later than expires
	index   int       // in memoryTable.due
}

// own makes the claim's owner the owner.
func (s *memorySession) own(claim Claim, now time.Time) {
	s.generation++
	s.released, s.free = s.free || s.generation == 1, false
	s.owner, s.nonce, s.mark, s.first = claim.Owner, claim.Nonce, claim.Nonce, 0
	s.renew(Lease{Duration: claim.Lease}, now)
}

func (s *memorySession) renew(lease Lease, now time.Time) {
	s.lease = now.Add(lease.Duration)
	s.expires = s.lease.Add(s.terms.Resume)
}

func (s *memorySession) end(now time.Time) {
	*s = memorySession{
		id: s.id, terms: s.terms, generation: s.generation, owner: s.owner, in: s.in,
		ended: true, expires: now.Add(s.terms.Tombstone), due: s.due, index: s.index,
	}
}

func (s *memorySession) snapshot() Snapshot {
	return Snapshot{Generation: s.generation, In: s.in, Out: s.out, Acked: s.acked, Released: s.released, Mark: s.mark}
}

// fenced says why a lease is not the last one. A later generation was given
// away before the store went back, and so was the same to another owner.
func (s *memorySession) fenced(lease Lease) error {
	switch {
	case lease.Generation > s.generation:
		return ErrStateRegressed
	case lease.Generation < s.generation, lease.Owner != s.owner:
		return ErrFenced
	}
	return nil
}

// has reports whether the message that was sent is the one that is here.
func (s *memorySession) has(sent Sent) bool {
	if sent.Seq == 0 || sent.Seq <= s.acked {
		return true
	}
	return sent.Seq <= s.out && s.outbox[sent.Seq-s.acked-1].Batch == sent.Batch
}

// room returns why messages do not fit, once up to acked is gone.
func (s *memorySession) room(acked uint64, count int, size int64) error {
	held, bytes := len(s.outbox[acked-s.acked:]), s.size
	for _, gone := range s.outbox[:acked-s.acked] {
		bytes -= int64(len(gone.Data))
	}
	switch {
	case count == 0:
		return nil
	case uint64(count) > maxSeq-s.out: //nolint:gosec // a length
		return ErrSequenceExhausted
	case held == 0 && count == 1:
		return nil
	case held+count > s.terms.MaxMessages, bytes+size > s.terms.MaxBytes:
		return ErrBufferFull
	}
	return nil
}

// trim drops messages up to acked.
func (s *memorySession) trim(acked uint64) {
	gone := s.outbox[:acked-s.acked]
	for i := range gone {
		s.size -= int64(len(gone[i].Data))
		gone[i] = Outgoing{}
	}
	s.outbox, s.acked = s.outbox[len(gone):], acked
	if len(s.outbox) == 0 {
		s.outbox = nil
	}
}

func (s *memorySession) append(messages [][]byte, batch string) (first uint64) {
	if len(messages) == 0 {
		return 0
	}
	first = s.out + 1
	for _, p := range messages {
		s.out++
		s.outbox = append(s.outbox, Outgoing{Seq: s.out, Batch: batch, Data: p})
		s.size += int64(len(p))
	}
	return first
}

func (s *memorySession) after(seq uint64, limit int) []Outgoing {
	seq = max(seq, s.acked)
	if seq >= s.out {
		return nil
	}
	var some []Outgoing
	for _, m := range s.outbox[seq-s.acked:] {
		if limit -= len(m.Data); limit < 0 && len(some) > 0 {
			break
		}
		some = append(some, m)
	}
	return some
}

// memoryBatches remembers the last batches that were appended.
type memoryBatches struct {
	last      []memoryBatch // at most 64
	next      int           // the oldest, when there are 64
	forgotten time.Time     // when the last was appended that is not here
}

type memoryBatch struct {
	id    string
	first uint64
	at    time.Time
}

func (b *memoryBatches) find(batch Batch) (first uint64, known bool) {
	for _, old := range b.last {
		if old.id == batch.ID {
			return old.first, true
		}
	}
	return 0, false
}

// remembers reports whether every batch that was appended since then is here.
func (b *memoryBatches) remembers(since time.Time) bool { return b.forgotten.Before(since) }

func (b *memoryBatches) add(id string, first uint64, now time.Time) {
	const most = 64
	if len(b.last) < most {
		b.last = append(b.last, memoryBatch{id, first, now})
		return
	}
	b.forgotten = b.last[b.next].at
	b.last[b.next] = memoryBatch{id, first, now}
	b.next = (b.next + 1) % most
}

// find returns the session or what is remembered of it, or nil. It requires
// t.mu.
func (t *memoryTable) find(id string, now time.Time) *memorySession {
	s := t.sessions[id]
	if s != nil && !now.Before(s.expires) {
		t.expire(s)
		s = t.sessions[id]
	}
	return s
}

// live requires t.mu.
func (t *memoryTable) live(id string, now time.Time) (*memorySession, error) {
	s := t.find(id, now)
	switch {
	case s == nil:
		return nil, ErrUnknown
	case s.ended:
		return nil, &ExpiredError{In: s.in}
	}
	return s, nil
}

// owned returns the session of a lease. It requires t.mu.
func (t *memoryTable) owned(lease Lease, now time.Time) (*memorySession, error) {
	s, err := t.live(lease.Session, now)
	switch {
	case err != nil:
		return nil, err
	case s.free:
		return nil, cmp.Or(s.fenced(lease), ErrFenced)
	}
	return s, s.fenced(lease)
}

// expire ends a session whose time is over at the moment when it was, and drops
// the memory of one whose time is over too. It requires t.mu.
func (t *memoryTable) expire(s *memorySession) {
	now := time.Now()
	if !s.ended {
		s.end(s.expires)
		s.reschedule(t)
	}
	if !now.Before(s.expires) {
		delete(t.sessions, s.id)
		heap.Remove(&t.due, s.index)
	}
}

// sweep looks at a few sessions that are due and returns the time. Each call
// adds at most one session, so what has expired cannot pile up. It requires
// t.mu.
func (t *memoryTable) sweep() time.Time {
	const most = 4
	now := time.Now()
	for range most {
		if len(t.due) == 0 || t.due[0].due.After(now) {
			break
		}
		if s := t.due[0]; now.Before(s.expires) { // renewed since
			s.reschedule(t)
		} else {
			t.expire(s)
		}
	}
	return now
}

// reschedule requires the table's mutex.
func (s *memorySession) reschedule(t *memoryTable) {
	s.due = s.expires
	heap.Fix(&t.due, s.index)
}

// A memorySchedule is a heap of sessions by due.
type memorySchedule []*memorySession

func (s memorySchedule) Len() int           { return len(s) }
func (s memorySchedule) Less(i, j int) bool { return s[i].due.Before(s[j].due) }
func (s memorySchedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push is for package heap.
func (s *memorySchedule) Push(x any) {
	e := x.(*memorySession)
	e.index = len(*s)
	*s = append(*s, e)
}

// Pop is for package heap.
func (s *memorySchedule) Pop() any {
	old := *s
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	return e
}
