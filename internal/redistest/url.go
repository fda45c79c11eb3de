package redistest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func startURL(tb testing.TB, url string) *Server {
	tb.Helper()
	Silence()
	opts, err := redis.ParseURL(url)
	if err != nil {
		// Neither the URL nor the cause, which may quote it: there may be a password in it.
		tb.Fatalf("redistest: %s is not a redis URL", envURL)
	}
	s := &Server{tb: tb, kind: KindURL, prefix: newPrefix(), opts: *opts}
	client := redis.NewClient(s.Options())
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		tb.Fatalf("redistest: the server at %s (%s): %v", envURL, opts.Addr, err)
	}
	tb.Cleanup(func() {
		err := removeKeys(client, s.prefix)
		if err := errors.Join(err, client.Close()); err != nil {
			tb.Errorf("redistest: clean up %q: %v", s.prefix, err)
		}
	})
	version := "of unknown version" // miniredis has no INFO server
	if info, err := client.InfoMap(ctx, "server").Result(); err == nil {
		version = info["Server"]["redis_version"]
	}
	tb.Logf("redistest: %s: redis %s on %s, prefix %q", envURL, version, opts.Addr, s.prefix)
	return s
}

// removeKeys removes every key that begins with prefix, and no other.
func removeKeys(client *redis.Client, prefix string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var cursor uint64
	for {
		keys, next, err := client.Scan(ctx, cursor, prefix+"*", 1000).Result()
		if err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		if len(keys) > 0 {
			if err := client.Unlink(ctx, keys...).Err(); err != nil {
				return fmt.Errorf("unlink: %w", err)
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
