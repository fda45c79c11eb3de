package session

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/rediskit"
)

// A RedisClient sends one command. *redis.Client (of one server or by
// Sentinel), *redis.ClusterClient and *redis.Ring are RedisClients.
type RedisClient interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// RedisOptions are options of a [RedisStore]. The zero value is ready to use.
type RedisOptions struct {
	// Prefix begins every key. Empty means "session:".
	Prefix string
	// Timeout bounds one command. Zero means [DefaultTimeout], which is
	// 2 s; negative means that only the caller's context bounds it.
	Timeout time.Duration
	// MaxBytes bounds the data of one session, in bytes. Zero means
	// [DefaultMaxBytes], which is 64 KiB; negative means no bound.
	MaxBytes int64
	// Logger is told once if the client's options make calls outlast their
	// contexts. Nil discards.
	Logger *slog.Logger
}

func (o *RedisOptions) withDefaults() RedisOptions {
	var out RedisOptions
	if o != nil {
		out = *o
	}
	if out.Prefix == "" {
		out.Prefix = "session:"
	}
	if out.Timeout == 0 {
		out.Timeout = DefaultTimeout
	}
	return out
}

// A RedisStore keeps sessions in Redis 7.0 or later; the package page names
// its keys. Every call is one command.
//
// A call returns at once when its context ends. A change that was under way by
// then still reaches the server within Timeout, as the client that hung up
// wanted, and its error is [transparency.ErrUncertain]. At most 64 commands
// are under way in one store; when so many are without an answer, calls are
// refused with [transparency.ErrUnavailable].
//
// A RedisStore is safe for concurrent use. It does not close the client.
type RedisStore struct{ engine }

var (
	_ SessionStore = (*RedisStore)(nil)
	_ Replacer     = (*RedisStore)(nil)
)

// NewRedisStore returns a store that uses client. opts may be nil. With a nil
// client every call fails with [transparency.ErrInvalid].
func NewRedisStore(client RedisClient, opts *RedisOptions) *RedisStore {
	o := opts.withDefaults()
	rediskit.WarnOptions(o.Logger, client)
	return &RedisStore{newEngine(&redisDriver{
		client:  client,
		prefix:  o.Prefix,
		timeout: o.Timeout,
		gate:    rediskit.NewGate(o.Timeout),
	}, o.MaxBytes)}
}

var (
	//go:embed record.lua
	recordLua string
	//go:embed create.lua
	createLua string
	//go:embed load.lua
	loadLua string
	//go:embed save.lua
	saveLua string
	//go:embed touch.lua
	touchLua string
	//go:embed delete.lua
	deleteLua string

	createScript = rediskit.NewScript(recordLua + createLua)
	loadScript   = rediskit.NewScript(recordLua + loadLua)
	saveScript   = rediskit.NewScript(recordLua + saveLua)
	touchScript  = rediskit.NewScript(recordLua + touchLua)
	deleteScript = rediskit.NewScript(recordLua + deleteLua)
)

type redisDriver struct {
	client  RedisClient
	prefix  string
	timeout time.Duration
	gate    *rediskit.Gate
}

func (d *redisDriver) create(ctx context.Context, id string, data []byte, next Version, lt Lifetimes, replace bool) (Record, error) {
	mode := "create"
	if replace {
		mode = "replace"
	}
	// The command may outlive this call, and data is the caller's.
	return d.record(ctx, rediskit.Writes, createScript, id,
		string(data), string(next), lt.Idle.Milliseconds(), lt.Absolute.Milliseconds(), mode)
}

func (d *redisDriver) load(ctx context.Context, id string) (Record, error) {
	return d.record(ctx, rediskit.Reads, loadScript, id)
}

func (d *redisDriver) save(ctx context.Context, id string, data []byte, ifVersion, next Version) (Record, error) {
	return d.record(ctx, rediskit.Writes, saveScript, id, string(data), string(ifVersion), string(next))
}

func (d *redisDriver) touch(ctx context.Context, id string) (Record, error) {
	return d.record(ctx, rediskit.Writes, touchScript, id)
}

func (d *redisDriver) delete(ctx context.Context, id string) error {
	reply, err := d.run(ctx, rediskit.Writes, deleteScript, id)
	if fields, ok := reply.([]any); err == nil && (!ok || len(fields) != 1 || fields[0] != "ok") {
		return fmt.Errorf("%w: a reply of type %T", ErrCorrupt, reply)
	}
	return err
}

func (d *redisDriver) record(ctx context.Context, effect rediskit.Effect, script *rediskit.Script, id string, args ...any) (Record, error) {
	reply, err := d.run(ctx, effect, script, id, args...)
	if err != nil {
		return Record{}, err
	}
	return parseReply(reply)
}

// run runs one script on the session's key.
func (d *redisDriver) run(ctx context.Context, effect rediskit.Effect, script *rediskit.Script, id string, args ...any) (any, error) {
	if err := rediskit.CheckClient(d.client); err != nil {
		return nil, err
	}
	keys := []string{d.prefix + id}
	return rediskit.Do(ctx, d.gate, effect, func(ctx context.Context) (any, error) {
		if effect == rediskit.Writes {
			var cancel context.CancelFunc
			ctx, cancel = d.detach(ctx)
			defer cancel()
		}
		return script.Run(ctx, d.client, keys, args...)
	}, nil)
}

// detach keeps a change that has begun from ending with its caller: a command
// that waits for a connection would else be dropped.
func (d *redisDriver) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if d.timeout > 0 {
		return context.WithTimeout(ctx, d.timeout)
	}
	return ctx, func() {}
}

// parseReply reads the answer of a script.
func parseReply(reply any) (Record, error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) == 0 {
		return Record{}, fmt.Errorf("%w: a reply of type %T", ErrCorrupt, reply)
	}
	switch fields[0] {
	case "ok":
	case "absent", "expired":
		return Record{}, ErrNotFound
	case "exists":
		return Record{}, ErrExists
	case "conflict":
		return Record{}, ErrConflict
	case "corrupt":
		return Record{}, fmt.Errorf("%w: the key holds a hash that is not a session", ErrCorrupt)
	default:
		return Record{}, fmt.Errorf("%w: a reply of an unknown kind", ErrCorrupt)
	}
	if len(fields) < 7 {
		return Record{}, fmt.Errorf("%w: a reply of %d fields", ErrCorrupt, len(fields))
	}
	text := make([]string, len(fields))
	for i, f := range fields {
		if text[i], ok = f.(string); !ok {
			return Record{}, fmt.Errorf("%w: reply field %d of type %T", ErrCorrupt, i, f)
		}
	}
	var ms [5]int64 // now, created, seen, idle, deadline
	for i, at := range [...]int{1, 3, 4, 5, 6} {
		n, err := strconv.ParseInt(text[at], 10, 64)
		if err != nil {
			return Record{}, fmt.Errorf("%w: reply field %d is no number", ErrCorrupt, at)
		}
		ms[i] = n
	}
	var data []byte
	if len(text) > 7 {
		data = []byte(text[7])
	}
	return newRecord(data, Version(text[2]), ms[1], ms[2], ms[3], ms[4], ms[0]), nil
}
