package access

import (
	"context"
	_ "embed"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/rediskit"
)

// RedisOptions are the options of [NewRedis]. Nil and zero fields mean the
// defaults.
type RedisOptions struct {
	// Prefix is put before every key. Empty means "config:".
	Prefix string
	// MaxBytes is the size of the largest document. Zero means
	// [DefaultMaxBytes]; negative means no limit.
	MaxBytes int64
	// Timeout bounds each operation, beside its context. Zero means
	// [DefaultTimeout]; negative means none.
	Timeout time.Duration
	// Logger is told once when the client's options are not what the package
	// page asks for. Nil discards.
	Logger *slog.Logger
}

func (o *RedisOptions) withDefaults() RedisOptions {
	var opts RedisOptions
	if o != nil {
		opts = *o
	}
	if opts.Prefix == "" {
		opts.Prefix = "config:"
	}
	return opts
}

// A RedisClient sends one command. *redis.Client, *redis.ClusterClient and
// *redis.Ring are RedisClients.
type RedisClient interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// NewRedis returns a repository whose documents are string values in Redis,
// under "config:" and the key, that can be written. The client stays the
// caller's: Close does not close it.
func NewRedis(client RedisClient, opts *RedisOptions) *Repository {
	o := opts.withDefaults()
	rediskit.WarnOptions(o.Logger, client)
	return newRepository(&redisDriver{client: client, prefix: o.Prefix},
		rediskit.CheckClient(client), &Options{MaxBytes: o.MaxBytes, Timeout: o.Timeout})
}

type redisDriver struct {
	client RedisClient
	prefix string
}

// Fetch asks for as much as is of use, in one command for a document that is
// there. Only what reads as empty needs a second look, because GETRANGE does
// not tell empty from absent; not with GET, which would fetch the whole of a
// document that was written in between.
func (d *redisDriver) Fetch(ctx context.Context, key string, limit int64) ([]byte, error) {
	data, err := d.read(ctx, key, limit)
	if err != nil || len(data) > 0 {
		return data, err
	}
	exists := redis.NewIntCmd(ctx, "exists", d.prefix+key)
	if err := d.client.Process(ctx, exists); err != nil {
		return nil, err
	}
	if exists.Val() == 0 {
		return nil, ErrNotFound
	}
	return d.read(ctx, key, limit) // empty, or written in between
}

func (d *redisDriver) read(ctx context.Context, key string, limit int64) ([]byte, error) {
	part := redis.NewStringCmd(ctx, "getrange", d.prefix+key, 0, limit)
	err := d.client.Process(ctx, part)
	return []byte(part.Val()), err
}

//go:embed put.lua
var putSource string

var putScript = rediskit.NewScript(putSource)

// Store runs one script, which go-redis sends at most once: run twice, it would
// report its own first write as a conflict.
func (d *redisDriver) Store(ctx context.Context, key string, data []byte, cond PutOptions) error {
	mode := "always"
	switch {
	case cond.IfAbsent:
		mode = "absent"
	case cond.IfVersion != "":
		mode = "version"
	}
	stored, err := putScript.Run(ctx, d.client, []string{d.prefix + key}, data, mode, cond.IfVersion)
	switch {
	case err != nil:
		return err
	case stored == int64(0):
		return ErrConflict
	}
	return nil
}
