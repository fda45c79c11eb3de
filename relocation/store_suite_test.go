package relocation_test

import (
	"testing"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/relocation"
	"github.com/go-transparency/transparency/relocation/relocationtest"
)

func TestMemoryStore(t *testing.T) {
	relocationtest.RunStoreFakeTime(t, openMemory)
}

func TestMemoryStoreRealTime(t *testing.T) {
	t.Parallel()
	relocationtest.RunStore(t, openMemory)
}

func openMemory(*testing.T) func() relocation.Store {
	s := relocation.NewMemoryStore(nil)
	return func() relocation.Store { return s }
}

func TestRedisStore(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	relocationtest.RunStore(t, func(t *testing.T) func() relocation.Store {
		client, prefix := s.Client(t), s.Prefix()+t.Name()+":"
		return func() relocation.Store {
			return newStore(client, prefix)
		}
	})
}

func TestRedisStoreFakeTime(t *testing.T) {
	t.Parallel()
	relocationtest.RunStoreFakeTime(t, func(t *testing.T) func() relocation.Store {
		client := redistest.BubbleClient(t)
		return func() relocation.Store { return newStore(client, "") }
	})
}
