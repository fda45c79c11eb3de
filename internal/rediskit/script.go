package rediskit

import (
	"context"
	"crypto/sha1"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

// A Doer sends one command. *redis.Client, *redis.ClusterClient and
// *redis.Ring are Doers.
type Doer interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Once is a command that go-redis sends at most once, whatever the client's
// MaxRetries. A Cluster client still follows MOVED and ASK, which are refusals.
type Once struct{ *redis.Cmd }

// NoRetry tells go-redis not to send the command again.
func (*Once) NoRetry() bool { return true }

// NewOnce returns a command of these arguments whose first key is args[key];
// zero means that it has none.
func NewOnce(ctx context.Context, key int8, args ...any) *Once {
	cmd := redis.NewCmd(ctx, args...)
	if key > 0 {
		cmd.SetFirstKeyPos(key)
	}
	return &Once{cmd}
}

// A Script is a Lua script that the server keeps by its digest.
type Script struct{ src, sha string }

// NewScript returns the script of this source.
func NewScript(src string) *Script {
	sum := sha1.Sum([]byte(src)) // the digest that EVALSHA asks for
	return &Script{src: src, sha: hex.EncodeToString(sum[:])}
}

// Run runs the script on c and returns its reply. A server that does not know
// it yet, or no longer, is sent the source; that is no second try, because a
// script that is not known has not run. Errors are those of go-redis.
func (s *Script) Run(ctx context.Context, c Doer, keys []string, args ...any) (any, error) {
	cmd := s.Cmd(ctx, keys, args...)
	if err := c.Process(ctx, cmd); redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = s.Source(ctx, keys, args...)
		_ = c.Process(ctx, cmd) // the command holds its error
	}
	return cmd.Result()
}

// Cmd returns the script as a command for a pipeline. It does not fall back to
// the source: on NOSCRIPT the caller sends [Script.Source], or calls
// [Script.Run].
func (s *Script) Cmd(ctx context.Context, keys []string, args ...any) *Once {
	return s.command(ctx, "evalsha", s.sha, keys, args)
}

// Source returns the script as a command that a server can run which does not
// know it.
func (s *Script) Source(ctx context.Context, keys []string, args ...any) *Once {
	return s.command(ctx, "eval", s.src, keys, args)
}

func (s *Script) command(ctx context.Context, name, text string, keys []string, args []any) *Once {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, name, text, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	all = append(all, args...)
	var first int8
	if len(keys) > 0 {
		first = 3
	}
	return NewOnce(ctx, first, all...)
}
