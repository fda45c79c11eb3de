package rediskit_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/rediskit"
)

func TestWarnOptions(t *testing.T) {
	for _, on := range []bool{false, true} {
		single := redis.NewClient(&redis.Options{ContextTimeoutEnabled: on})
		cluster := redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: on})
		ring := redis.NewRing(&redis.RingOptions{ContextTimeoutEnabled: on})
		for _, client := range []redis.UniversalClient{single, cluster, ring} {
			var log bytes.Buffer
			rediskit.WarnOptions(slog.New(slog.NewTextHandler(&log, nil)), client)
			if got := strings.Contains(log.String(), "ContextTimeoutEnabled"); got == on {
				t.Errorf("%T, ContextTimeoutEnabled %v: log %q", client, on, log.String())
			}
			client.Close()
		}
	}
	rediskit.WarnOptions(nil, nil)
	rediskit.WarnOptions(slog.New(slog.DiscardHandler), (*redis.Client)(nil))
}
