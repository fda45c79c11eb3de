package redistest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// tune sets what every client of this package has in common: contexts are obeyed, each command
// and each dial is tried once, and nothing is sent or started on the side.
func tune(opts *redis.Options) *redis.Options {
	opts.ContextTimeoutEnabled = true
	opts.MaxRetries = -1
	opts.DialerRetries = 1
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return opts
}

func adminOptions(addr string) *redis.Options {
	opts := tune(&redis.Options{Addr: addr})
	opts.PoolSize = 1
	opts.DialTimeout = time.Second
	opts.ConnMaxIdleTime = -1
	return opts
}

func newClient(tb testing.TB, opts *redis.Options) *redis.Client {
	tb.Helper()
	client := redis.NewClient(opts)
	tb.Cleanup(func() { _ = client.Close() }) // a test may have closed it already
	return client
}

type discard struct{}

func (discard) Printf(context.Context, string, ...any) {}

var silence = sync.OnceFunc(func() { redis.SetLogger(discard{}) })

// Silence discards what go-redis logs on its own: tests that break connections on purpose would
// drown in it. The Start functions, BubbleClient and Example call it.
func Silence() { silence() }
