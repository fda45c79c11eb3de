package rediskit

import (
	"fmt"
	"log/slog"
	"reflect"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
)

// CheckClient returns an error of class [transparency.ErrInvalid] when client
// is nil or a nil pointer in an interface, so that an operation can refuse
// what would panic, or is a pipeline, which queues commands and would make a
// success of what was never sent.
func CheckClient(client any) error {
	if v := reflect.ValueOf(client); client == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("%w: the Redis client is nil", transparency.ErrInvalid)
	}
	if _, ok := client.(redis.Pipeliner); ok {
		return fmt.Errorf("%w: the Redis client is a pipeline, which sends nothing by itself", transparency.ErrInvalid)
	}
	return nil
}

// WarnOptions logs once when client is known to ignore the deadlines of
// contexts. Such a client works, but a command that was left behind keeps its
// connection until ReadTimeout.
func WarnOptions(logger *slog.Logger, client any) {
	if logger == nil || CheckClient(client) != nil {
		return
	}
	if honours, known := honoursDeadlines(client); known && !honours {
		logger.Warn("the redis client's ContextTimeoutEnabled is off: a command left behind keeps its connection until ReadTimeout")
	}
}

// honoursDeadlines reports whether client ends a command at the deadline of
// its context, and whether that can be known. It requires a client that is
// not nil.
func honoursDeadlines(client any) (honours, known bool) {
	switch c := client.(type) {
	case interface{ Options() *redis.Options }:
		return c.Options().ContextTimeoutEnabled, true
	case interface{ Options() *redis.ClusterOptions }:
		return c.Options().ContextTimeoutEnabled, true
	case interface{ Options() *redis.RingOptions }:
		return c.Options().ContextTimeoutEnabled, true
	}
	return false, false
}
