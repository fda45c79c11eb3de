package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/rediskit"
)

//go:embed guard.lua
var guardSource string

// RedisGuardOptions configures a [RedisGuard]. Nil is fine.
type RedisGuardOptions struct {
	// Prefix is put before the key that is guarded, to name that of its mark.
	// Empty means "guard:".
	Prefix string

	// TTL is how long a mark is kept after the last write that was accepted,
	// at least one millisecond. A mark that has expired is forgotten, and then
	// a holder is accepted who was paused for all of that time. Zero means that
	// marks stay, as the data does that they guard: delete both together, and
	// only when nobody can write there any more.
	TTL time.Duration

	// Timeout bounds one exchange with Redis. Zero means [DefaultTimeout];
	// negative means none but the context.
	Timeout time.Duration

	// Logger is told of client options that do harm. Nil discards.
	Logger *slog.Logger
}

// A RedisGuard writes to Redis for those whose fence is not older than the
// greatest that was seen for the key they write to. It is safe for concurrent
// use.
//
// It keeps the greatest fence, the mark, beside the data, in the same Cluster
// slot: for the key K it is the string guard:{K}, and guard:{tag}:K where K has
// a hash tag of its own. Check and write are one script, so nothing comes
// between them. Keys are used as they are given, without a prefix.
//
// The Redis need not be the one of the lock. If it is, and it loses its last
// writes in a failover, it loses marks and data alike.
//
// Errors are [ErrStaleFence] or wrap a class of the root package. With
// [transparency.ErrUncertain] the write may have happened, and what a script of
// Run wrote before it failed stays in any case.
type RedisGuard struct {
	client RedisClient
	err    error // why no operation can work
	prefix string
	ttl    time.Duration
	gate   *rediskit.Gate
}

// NewRedisGuard returns a guard over client, which stays the caller's. It does
// no I/O and starts nothing.
func NewRedisGuard(client RedisClient, opts *RedisGuardOptions) *RedisGuard {
	var o RedisGuardOptions
	if opts != nil {
		o = *opts
	}
	if o.Prefix == "" {
		o.Prefix = "guard:"
	}
	g := &RedisGuard{
		client: client,
		err:    rediskit.CheckClient(client),
		prefix: strings.TrimSuffix(rediskit.Key(o.Prefix, "", ""), "{}"), // escaped
		ttl:    min(o.TTL, maxMark),
		gate:   rediskit.NewGate(o.Timeout).For(client),
	}
	if g.err == nil && o.TTL != 0 && o.TTL < time.Millisecond {
		g.err = invalid("the TTL of a mark is %v, less than 1ms", o.TTL)
	}
	rediskit.WarnOptions(o.Logger, client)
	return g
}

// maxMark is what longer TTLs are taken for, as Redis has its bounds too.
const maxMark = 100 * 365 * 24 * time.Hour

var (
	checkScript   = guarded("return 1")
	commandScript = guarded("return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))")
)

// guarded puts guard.lua before a script.
func guarded(script string) *rediskit.Script {
	return rediskit.NewScript("local function script(KEYS, ARGV)\n" + script + "\nend\n" + guardSource)
}

// Check accepts fence for key if none greater was seen, and has every smaller
// one refused from now on. It writes nothing else, so it is no check for a
// write that follows: Do is. It is for who has a new lease and begins by
// reading: the holder before it can then not write any more.
func (g *RedisGuard) Check(ctx context.Context, key string, fence uint64) error {
	_, err := g.run(ctx, key, fence, checkScript, nil, nil)
	return err
}

// Do runs one command that has key as its first argument, such as SET, HSET,
// INCRBY, XADD or DEL, with args after that, and returns its reply as Lua has
// it: strings, integers, slices of these, nil. A stale fence is refused with an
// error wrapping [ErrStaleFence], and the command does not run.
func (g *RedisGuard) Do(ctx context.Context, key string, fence uint64, command string, args []any) (any, error) {
	if command == "" {
		return nil, failed("guard", key, invalid("there is no command"))
	}
	return g.run(ctx, key, fence, commandScript, nil, append([]any{command}, args...))
}

// Run is Do for a Lua script, in which KEYS[1] is key, keys follow it, and ARGV
// is args. It has to end with a return, or return nothing. For a Cluster all
// keys must have one hash tag, and so be in the slot of the mark of key; others
// are refused with [transparency.ErrInvalid] before anything is sent.
func (g *RedisGuard) Run(ctx context.Context, key string, fence uint64, script string, keys []string, args []any) (any, error) {
	return g.run(ctx, key, fence, guarded(script), keys, args)
}

func (g *RedisGuard) run(ctx context.Context, key string, fence uint64, script *rediskit.Script, keys []string, args []any) (any, error) {
	if err := g.usable(); err != nil {
		return nil, failed("guard", key, err)
	}
	if err := checkFence(key, fence); err != nil {
		return nil, err
	}
	mark, err := g.mark(key, keys)
	if err != nil {
		return nil, failed("guard", key, err)
	}
	names := append([]string{mark, key}, keys...)
	values := append([]any{strconv.FormatUint(fence, 10), ms(g.ttl)}, args...)
	reply, err := rediskit.Do(ctx, g.gate, rediskit.Writes, func(ctx context.Context) (any, error) {
		return script.Run(ctx, g.client, names, values...)
	}, nil)
	if err != nil {
		return nil, failed("guard", key, err)
	}
	return guardReply(key, fence, reply)
}

func guardReply(key string, fence uint64, reply any) (any, error) {
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return nil, failed("guard", key, invalid("the reply is %T", reply))
	}
	var value any
	if len(parts) > 1 {
		value = parts[1]
	}
	switch parts[0] {
	case int64(1):
		var refusal redis.Error // that the script returned, as redis.pcall does
		if err, ok := value.(error); ok && errors.As(err, &refusal) {
			return nil, failed("guard", key, rediskit.Classify(rediskit.Writes, refusal))
		}
		return value, nil
	case int64(0):
		return nil, stale(key, fence, fmt.Sprint(value))
	}
	return nil, failed("guard", key, invalid("the mark in the store is not a fence"))
}

func (g *RedisGuard) usable() error {
	if g == nil || g.client == nil && g.err == nil {
		return invalid("the RedisGuard is not from NewRedisGuard")
	}
	return g.err
}

// mark names the mark of key, which is in the slot of key and of the others.
func (g *RedisGuard) mark(key string, others []string) (string, error) {
	if key == "" {
		return "", invalid("the key is empty")
	}
	tag := hashTag(key)
	for _, other := range others {
		if hashTag(other) != tag {
			return "", invalid("the keys have different hash tags")
		}
	}
	switch {
	case tag != key:
		return g.prefix + "{" + tag + "}:" + key, nil
	case strings.Contains(key, "}"):
		return "", invalid("a key with %q and without a hash tag shares its slot with no other", "}")
	}
	return g.prefix + "{" + key + "}", nil
}

// hashTag returns the part of key that decides on its slot: what stands
// between the first '{' and the first '}' after it, or all of it.
func hashTag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// String leaves the client out, for it can hold a password.
func (g *RedisGuard) String() string {
	if g == nil {
		return "lock.RedisGuard(nil)"
	}
	return fmt.Sprintf("lock.RedisGuard(%q)", g.prefix)
}

// Format is String for every verb.
func (g *RedisGuard) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, g.String()) }
