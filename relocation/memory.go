package relocation

import (
	"container/heap"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-transparency/transparency"
)

// DefaultMaxSessions is how many sessions a [MemoryStore] keeps where the
// options say nothing.
const DefaultMaxSessions = 1 << 20

// MemoryOptions are options of a [MemoryStore]. The zero value is ready to use.
type MemoryOptions struct {
	// MaxSessions bounds the sessions that are kept, with those whose end is
	// remembered. One more is refused with an error that wraps ErrRejected of
	// the root package. Zero means [DefaultMaxSessions]; negative means no
	// bound.
	MaxSessions int
}

// A MemoryStore keeps sessions in this process, for tests and for programs of
// one instance: several Hubs of one process can share it, and it ends with the
// process. It has no goroutine: what has expired is dropped, a few sessions at
// a time, by the calls that follow. The zero value is ready to use.
//
// A MemoryStore is safe for concurrent use.
type MemoryStore struct {
	limit int
	table *memoryTable // a second pointer: what the first points to, fmt prints for some verbs
	once  sync.Once
}

var _ Store = (*MemoryStore)(nil)

// NewMemoryStore returns an empty store. opts may be nil.
func NewMemoryStore(opts *MemoryOptions) *MemoryStore {
	m := new(MemoryStore)
	if opts != nil {
		m.limit = opts.MaxSessions
	}
	return m
}

type memoryTable struct {
	limit int

	mu       sync.Mutex // guards what follows; never held while waiting
	sessions map[string]*memorySession
	due      memorySchedule // the same sessions, by when they are looked at next
	ears     map[string][]*memoryEar
}

// A memoryEar is one call of Listen.
type memoryEar struct{ hear func(Event) }

// A memoryEvent is sent when the table is free again.
type memoryEvent struct {
	Event
	ears []*memoryEar
}

func (e memoryEvent) send() {
	for _, ear := range e.ears {
		ear.hear(e.Event)
	}
}

func (m *MemoryStore) open(ctx context.Context) (*memoryTable, error) {
	if m == nil {
		return nil, invalid("the MemoryStore is nil")
	}
	m.once.Do(func() {
		if m.limit == 0 {
			m.limit = DefaultMaxSessions
		}
		m.table = &memoryTable{
			limit: m.limit, sessions: make(map[string]*memorySession), ears: make(map[string][]*memoryEar),
		}
	})
	return m.table, ctx.Err()
}

// Create implements [Store].
func (m *MemoryStore) Create(ctx context.Context, id string, terms Terms, claim Claim) (Snapshot, error) {
	t, err := m.open(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.sweep()
	if s := t.sessions[id]; s != nil {
		if s.nonce != claim.Nonce || s.generation != 1 || s.owner != claim.Owner || s.ended {
			return Snapshot{}, ErrExists
		}
		return s.snapshot(), nil
	}
	if t.limit > 0 && len(t.sessions) >= t.limit {
		return Snapshot{}, fmt.Errorf("%w: the store is full", transparency.ErrRejected)
	}
	s := &memorySession{id: strings.Clone(id), terms: terms, in: terms.In, out: terms.Out, acked: terms.Out}
	s.own(claim, now)
	s.due = s.expires
	t.sessions[s.id] = s
	heap.Push(&t.due, s)
	return s.snapshot(), nil
}

// Attach implements [Store].
func (m *MemoryStore) Attach(ctx context.Context, id string, claim Claim) (Snapshot, error) {
	t, err := m.open(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	t.mu.Lock()
	now := t.sweep()
	snapshot, event, err := t.attach(id, claim, now)
	t.mu.Unlock()
	event.send()
	return snapshot, err
}

// attach requires t.mu.
func (t *memoryTable) attach(id string, claim Claim, now time.Time) (Snapshot, memoryEvent, error) {
	s := t.find(id, now)
	var err error
	switch {
	case s == nil || s.terms.Principal != claim.Principal:
		err = ErrUnknown
	case s.ended:
		err = &ExpiredError{In: s.in}
	case s.nonce == claim.Nonce && s.owner == claim.Owner:
		return s.snapshot(), memoryEvent{}, nil
	case claim.Serial < s.confirmed:
		err = ErrSessionTaken
	case claim.Attempt <= s.attempt:
		err = ErrSuperseded
	case claim.Received < s.acked:
		err = ErrSessionTaken
	case claim.Acked > s.in || claim.Received > s.out || claim.Serial > s.generation:
		err = ErrStateRegressed
	}
	if err != nil {
		return Snapshot{}, memoryEvent{}, err
	}
	if !s.free && s.owner != claim.Owner && now.Before(s.lease) && !claim.Force {
		yield := Event{Kind: Yield, Session: id, From: claim.Owner, Generation: s.generation}
		return Snapshot{}, memoryEvent{yield, t.earsOf(s.owner)}, &OwnedError{Owner: s.owner, Remaining: s.lease.Sub(now)}
	}
	s.attempt = claim.Attempt
	s.own(claim, now)
	return s.snapshot(), memoryEvent{}, nil
}

// Commit implements [Store].
func (m *MemoryStore) Commit(ctx context.Context, lease Lease, u Update) (Progress, error) {
	t, err := m.open(ctx)
	if err != nil {
		return Progress{}, err
	}
	messages, size := copyMessages(u.Messages)
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.sweep()
	s, err := t.owned(lease, now)
	if err != nil {
		return Progress{}, err
	}
	if s.mark == u.Mark {
		s.renew(lease, now)
		return Progress{Out: s.out, First: s.first}, nil
	}
	acked := max(u.Acked, s.acked)
	switch {
	case s.mark != u.After, acked > s.out, !s.has(u.Sent):
		return Progress{}, ErrStateRegressed
	}
	if err := s.room(acked, len(messages), size); err != nil {
		return Progress{}, err
	}
	s.trim(acked)
	s.first = s.append(messages, u.Mark)
	s.in, s.mark = max(s.in, u.In), u.Mark
	if u.Confirmed {
		s.confirmed = s.generation
	}
	s.renew(lease, now)
	return Progress{Out: s.out, First: s.first}, nil
}

// Renew implements [Store].
func (m *MemoryStore) Renew(ctx context.Context, leases []Lease) []Renewal {
	results := make([]Renewal, len(leases))
	t, err := m.open(ctx)
	if err != nil {
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.sweep()
	for i, lease := range leases {
		s, err := t.owned(lease, now)
		if err != nil {
			results[i].Err = err
			continue
		}
		s.renew(lease, now)
		results[i].Progress = Progress{Out: s.out}
	}
	return results
}

// Append implements [Store].
func (m *MemoryStore) Append(ctx context.Context, id string, batch Batch) (uint64, error) {
	t, err := m.open(ctx)
	if err != nil {
		return 0, err
	}
	if len(batch.Messages) == 0 {
		return 0, invalid("the batch is empty")
	}
	messages, size := copyMessages(batch.Messages)
	t.mu.Lock()
	first, event, err := t.append(id, batch, messages, size)
	t.mu.Unlock()
	event.send()
	return first, err
}

// append requires t.mu.
func (t *memoryTable) append(id string, batch Batch, messages [][]byte, size int64) (uint64, memoryEvent, error) {
	now := t.sweep()
	s, err := t.live(id, now)
	if err != nil {
		return 0, memoryEvent{}, err
	}
	first, known := s.batches.find(batch)
	switch {
	case known:
	case batch.Age > 0 && !s.batches.remembers(now.Add(-batch.Age)):
		return 0, memoryEvent{}, fmt.Errorf("%w: the batch may have been appended", transparency.ErrUncertain)
	default:
		if err := s.room(s.acked, len(messages), size); err != nil {
			return 0, memoryEvent{}, err
		}
		first = s.append(messages, batch.ID)
		s.batches.add(batch.ID, first, now)
	}
	if s.free {
		return first, memoryEvent{}, nil
	}
	return first, memoryEvent{Event{Kind: Appended, Session: id, Out: s.out}, t.earsOf(s.owner)}, nil
}

// Read implements [Store].
func (m *MemoryStore) Read(ctx context.Context, id string, after uint64, limit int) ([]Outgoing, error) {
	t, err := m.open(ctx)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	s, err := t.live(id, t.sweep())
	if err != nil {
		t.mu.Unlock()
		return nil, err
	}
	messages := s.after(after, limit)
	t.mu.Unlock()
	// A message that was appended is never written to, so its copy needs no
	// lock.
	for i := range messages {
		messages[i].Data = append([]byte{}, messages[i].Data...)
	}
	return messages, nil
}

// Release implements [Store].
func (m *MemoryStore) Release(ctx context.Context, lease Lease, to string) error {
	t, err := m.open(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	now := t.sweep()
	s, err := t.live(lease.Session, now)
	if err == nil {
		err = s.fenced(lease)
	}
	var event memoryEvent
	if err == nil && !s.free {
		s.free, s.lease, s.expires = true, time.Time{}, now.Add(s.terms.Resume)
		s.reschedule(t)
	}
	if err == nil && to != "" {
		event = memoryEvent{Event{Kind: Released, Session: lease.Session}, t.earsOf(to)}
	}
	t.mu.Unlock()
	event.send()
	return err
}

// Delete implements [Store].
func (m *MemoryStore) Delete(ctx context.Context, lease Lease) error {
	t, err := m.open(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.sweep()
	s := t.find(lease.Session, now)
	if s == nil {
		return ErrUnknown
	}
	err = s.fenced(lease)
	if err == nil && !s.ended {
		s.end(now)
		s.reschedule(t)
	}
	return err
}

// Listen implements [Store]. It misses nothing but what came before, which it
// says.
func (m *MemoryStore) Listen(ctx context.Context, owner string, hear func(Event)) error {
	t, err := m.open(ctx)
	if err != nil {
		return err
	}
	ear := &memoryEar{hear}
	t.mu.Lock()
	// The slice is replaced, not written to: events under way hold the old one.
	t.ears[owner] = append(t.earsOf(owner), ear)
	t.mu.Unlock()
	hear(Event{Kind: Missed})
	<-ctx.Done()
	t.mu.Lock()
	defer t.mu.Unlock()
	var rest []*memoryEar
	for _, e := range t.ears[owner] {
		if e != ear {
			rest = append(rest, e)
		}
	}
	if t.ears[owner] = rest; len(rest) == 0 {
		delete(t.ears, owner)
	}
	return ctx.Err()
}

// earsOf requires t.mu.
func (t *memoryTable) earsOf(owner string) []*memoryEar {
	ears := t.ears[owner]
	return ears[:len(ears):len(ears)]
}

func copyMessages(messages [][]byte) (copies [][]byte, size int64) {
	for _, p := range messages {
		copies = append(copies, append([]byte{}, p...))
		size += int64(len(p))
	}
	return copies, size
}
