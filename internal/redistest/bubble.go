package redistest

import (
	"context"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// BubbleClient returns a client of a miniredis of its own, for use inside a testing/synctest
// bubble: they talk through net.Pipe, so that every wait is one the bubble understands, and
// time.Sleep moves TTLs and TIME alike. tb must be the bubble's own *testing.T; both ends are
// closed at its cleanup.
func BubbleClient(tb testing.TB) *redis.Client {
	tb.Helper()
	Silence()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	tb.Cleanup(m.Close)
	opts := tune(&redis.Options{
		Addr:   "bubble",
		Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		// A caller that waits for a connection takes its timer from a pool that go-redis shares
		// between bubbles, which synctest forbids. So nobody ever waits.
		PoolSize: 4096,
	})
	return newClient(tb, opts)
}
