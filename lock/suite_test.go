package lock_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/lock"
	"github.com/go-transparency/transparency/lock/locktest"
)

func openMemory(*testing.T) func() lock.Driver {
	d := new(lock.MemoryDriver) // its zero value is ready
	return func() lock.Driver { return d }
}

func over(client *redis.Client, prefix string) func() lock.Driver {
	return func() lock.Driver { return lock.NewRedisDriver(client, &lock.Options{Prefix: prefix}) }
}

func TestMemory(t *testing.T) { locktest.RunFakeTime(t, openMemory) }

func TestMemoryRealTime(t *testing.T) {
	t.Parallel()
	locktest.Run(t, openMemory)
}

func TestRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locktest.Run(t, func(t *testing.T) func() lock.Driver {
		client := s.Client(t)
		return over(client, s.Prefix()+t.Name()+":")
	})
}

func TestRedisFakeTime(t *testing.T) {
	t.Parallel()
	locktest.RunFakeTime(t, func(t *testing.T) func() lock.Driver {
		return over(redistest.BubbleClient(t), "")
	})
}
