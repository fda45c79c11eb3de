package session_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/session"
	"github.com/go-transparency/transparency/session/sessiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openMemory(*testing.T) session.SessionStore { return session.NewMemoryStore(nil) }

// openMini is a Redis store for a bubble.
func openMini(t *testing.T) session.SessionStore {
	return session.NewRedisStore(redistest.BubbleClient(t), nil)
}

func openRedis(t *testing.T) session.SessionStore {
	srv := redistest.Start(t)
	return session.NewRedisStore(srv.Client(t), &session.RedisOptions{Prefix: srv.Prefix()})
}

// TestSuite holds all forms to the promises of SessionStore.
func TestSuite(t *testing.T) {
	t.Run("memory in fake time", func(t *testing.T) { sessiontest.RunFakeTime(t, openMemory) })
	t.Run("memory", func(t *testing.T) { sessiontest.Run(t, openMemory) })
	t.Run("miniredis in fake time", func(t *testing.T) { sessiontest.RunFakeTime(t, openMini) })
	t.Run("redis", func(t *testing.T) { sessiontest.Run(t, openRedis) })
}
