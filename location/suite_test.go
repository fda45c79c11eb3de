package location_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/location"
	"github.com/go-transparency/transparency/location/locationtest"
)

func openMemory(*testing.T) func() location.Driver {
	d := location.NewMemoryDriver()
	return func() location.Driver { return d }
}

func over(client *redis.Client, prefix string) func() location.Driver {
	return func() location.Driver {
		return location.NewRedisDriver(client, &location.Options{Prefix: prefix})
	}
}

func TestMemory(t *testing.T) { locationtest.RunFakeTime(t, openMemory) }

func TestMemoryRealTime(t *testing.T) {
	t.Parallel()
	locationtest.Run(t, openMemory)
}

func TestRedis(t *testing.T) {
	s := redistest.Start(t)
	locationtest.Run(t, func(t *testing.T) func() location.Driver {
		return over(s.Client(t), s.Prefix()+t.Name()+":")
	})
}

func TestRedisFakeTime(t *testing.T) {
	locationtest.RunFakeTime(t, func(t *testing.T) func() location.Driver {
		return over(redistest.BubbleClient(t), "")
	})
}
