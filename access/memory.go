package access

import (
	"context"
	"sync"
)

// NewMemory returns an empty repository that keeps its documents in this
// process. It is the fake for tests, and behaves like the other backends
// because it runs the same engine.
func NewMemory(opts *Options) *Repository {
	return newRepository(&memory{docs: make(map[string][]byte)}, nil, opts)
}

type memory struct {
	mu   sync.RWMutex      // guards docs
	docs map[string][]byte // never changed in place
}

func (m *memory) Fetch(_ context.Context, key string, _ int64) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	data, ok := m.docs[key]
	if !ok {
		return nil, ErrNotFound
	}
	return data, nil
}

func (m *memory) Store(_ context.Context, key string, data []byte, cond PutOptions) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.docs[key]
	if cond.IfAbsent && ok || cond.IfVersion != "" && (!ok || Version(old) != cond.IfVersion) {
		return ErrConflict
	}
	m.docs[key] = data
	return nil
}
