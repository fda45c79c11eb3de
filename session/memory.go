package session

import (
	"container/heap"
	"context"
	"strings"
	"sync"
	"time"
)

// MemoryOptions are options of a [MemoryStore]. The zero value is ready to use.
type MemoryOptions struct {
	// MaxBytes bounds the data of one session, in bytes. Zero means
	// [DefaultMaxBytes], which is 64 KiB; negative means no bound.
	MaxBytes int64
}

// A MemoryStore keeps sessions in this process. It is for tests and for
// programs of one instance: it runs the checks of a [RedisStore] and expires
// as that does, and ends with the process. It has no goroutine: what has
// expired is dropped, a few sessions at a time, by the calls that follow.
//
// A MemoryStore is safe for concurrent use.
type MemoryStore struct{ engine }

var (
	_ SessionStore = (*MemoryStore)(nil)
	_ Replacer     = (*MemoryStore)(nil)
)

// NewMemoryStore returns an empty store. opts may be nil.
func NewMemoryStore(opts *MemoryOptions) *MemoryStore {
	var o MemoryOptions
	if opts != nil {
		o = *opts
	}
	return &MemoryStore{newEngine(&memory{&table{sessions: make(map[string]*entry)}}, o.MaxBytes)}
}

// memory is the driver of a MemoryStore. Times are milliseconds since 1970, as
// in the scripts of the Redis form.
type memory struct {
	*table // a second pointer: what the first points to, fmt prints for some verbs
}

type table struct {
	mu       sync.Mutex // guards what follows; never held while waiting
	sessions map[string]*entry
	due      schedule // the same entries, by when they are looked at next
}

type entry struct {
	id       string
	data     []byte
	version  Version
	created  int64
	seen     int64
	idle     int64
	deadline int64

	due   int64 // no later than when it expires
	index int   // in memory.due
}

func (e *entry) expires() int64 { return min(e.seen+e.idle, e.deadline) }

func (e *entry) record(now int64) Record {
	return newRecord(nil, e.version, e.created, e.seen, e.idle, e.deadline, now)
}

func (m *memory) create(_ context.Context, id string, data []byte, next Version, lt Lifetimes, replace bool) (Record, error) {
	data = clone(data)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.sweep()
	old := m.live(id, now)
	if old != nil && !replace {
		return Record{}, ErrExists
	}
	if old != nil {
		m.drop(old)
	}
	e := &entry{
		id: strings.Clone(id), data: data, version: next, created: now, seen: now,
		idle: lt.Idle.Milliseconds(), deadline: now + lt.Absolute.Milliseconds(),
	}
	e.due = e.expires()
	m.sessions[e.id] = e
	heap.Push(&m.due, e)
	return e.record(now), nil
}

func (m *memory) load(_ context.Context, id string) (Record, error) {
	m.mu.Lock()
	now := m.sweep()
	e := m.live(id, now)
	if e == nil {
		m.mu.Unlock()
		return Record{}, ErrNotFound
	}
	rec, data := e.record(now), e.data
	m.mu.Unlock()
	// An entry's data is replaced, never written to, so the copy needs no lock.
	rec.Data = clone(data)
	return rec, nil
}

func (m *memory) save(_ context.Context, id string, data []byte, ifVersion, next Version) (Record, error) {
	data = clone(data)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.sweep()
	e := m.live(id, now)
	if e == nil {
		return Record{}, ErrNotFound
	}
	if e.version != ifVersion {
		return Record{}, ErrConflict
	}
	e.data, e.version, e.seen = data, next, now
	return e.record(now), nil
}

func (m *memory) touch(_ context.Context, id string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.sweep()
	e := m.live(id, now)
	if e == nil {
		return Record{}, ErrNotFound
	}
	e.seen = now
	return e.record(now), nil
}

func (m *memory) delete(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.live(id, m.sweep()); e != nil {
		m.drop(e)
	}
	return nil
}

// live returns the session that has not expired, or nil. Requires m.mu.
func (m *memory) live(id string, now int64) *entry {
	e := m.sessions[id]
	if e != nil && now >= e.expires() {
		m.drop(e)
		return nil
	}
	return e
}

// drop removes an entry. Requires m.mu.
func (m *memory) drop(e *entry) {
	delete(m.sessions, e.id)
	heap.Remove(&m.due, e.index)
}

// sweep looks at a few entries that are due and returns the time. Each call
// adds at most one entry, so what has expired cannot pile up. Requires m.mu.
func (m *memory) sweep() int64 {
	const most = 4
	now := time.Now().UnixMilli()
	for range most {
		if len(m.due) == 0 || m.due[0].due > now {
			break
		}
		if e := m.due[0]; now >= e.expires() {
			m.drop(e)
		} else { // saved or touched since
			e.due = e.expires()
			heap.Fix(&m.due, 0)
		}
	}
	return now
}

// A schedule is a heap of entries by due.
type schedule []*entry

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].due < s[j].due }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push is for package heap.
func (s *schedule) Push(x any) {
	e := x.(*entry)
	e.index = len(*s)
	*s = append(*s, e)
}

// Pop is for package heap.
func (s *schedule) Pop() any {
	old := *s
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	return e
}
