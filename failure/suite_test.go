package failure_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/failure"
	"github.com/go-transparency/transparency/failure/failuretest"
	"github.com/go-transparency/transparency/internal/redistest"
)

func TestLocal(t *testing.T) {
	failuretest.RunBreaker(t, func(_ *testing.T, opts failure.BreakerOptions) failure.Breaker {
		return failure.NewLocalBreaker(&opts)
	})
}

// One of a fleet that does not open: it acts as if alone.
func TestSharedAlone(t *testing.T) {
	failuretest.RunBreaker(t, func(t *testing.T, opts failure.BreakerOptions) failure.Breaker {
		return newShared(t, failure.NewMemoryDriver(), failure.SharedOptions{Breaker: opts})
	})
}

// A fleet of one, which opens as it does.
func TestShared(t *testing.T) {
	failuretest.RunBreaker(t, func(t *testing.T, opts failure.BreakerOptions) failure.Breaker {
		return newShared(t, failure.NewMemoryDriver(), failure.SharedOptions{Breaker: opts, Quorum: 1})
	})
}

func TestRedisBreaker(t *testing.T) {
	failuretest.RunBreaker(t, func(t *testing.T, opts failure.BreakerOptions) failure.Breaker {
		b := failure.NewRedisBreaker(redistest.BubbleClient(t), &failure.SharedOptions{Breaker: opts, Quorum: 1})
		t.Cleanup(func() { _ = b.Close() })
		return b
	})
}

func newShared(t *testing.T, d failure.Driver, opts failure.SharedOptions) *failure.SharedBreaker {
	b := failure.NewSharedBreaker(d, &opts)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func openMemory(*testing.T) func() failure.Driver {
	d := failure.NewMemoryDriver()
	return func() failure.Driver { return d }
}

func over(client *redis.Client, prefix string) func() failure.Driver {
	return func() failure.Driver {
		return failure.NewRedisDriver(client, &failure.SharedOptions{Prefix: prefix})
	}
}

func TestMemoryDriver(t *testing.T) { failuretest.RunDriverFakeTime(t, openMemory) }

func TestRedisDriver(t *testing.T) {
	s := redistest.Start(t)
	failuretest.RunDriver(t, func(t *testing.T) func() failure.Driver {
		return over(s.Client(t), s.Prefix()+t.Name()+":")
	})
}

func TestRedisDriverFakeTime(t *testing.T) {
	failuretest.RunDriverFakeTime(t, func(t *testing.T) func() failure.Driver {
		return over(redistest.BubbleClient(t), "")
	})
}
