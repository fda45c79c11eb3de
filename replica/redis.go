package replica

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/rediskit"
)

// RedisOptions configures a [RedisBackend]. Nil is fine.
type RedisOptions struct {
	// StaticRoles takes the roles from the [Node]s instead of asking for them.
	// It is for servers that know no replication, such as an embedded one, and
	// follows no failover. Every node then needs a role.
	StaticRoles bool

	// Logger is told once of each client whose options do harm. Nil discards.
	Logger *slog.Logger
}

// A RedisBackend knows Redis: one client for each server, of whatever role.
// The package page says what options the clients should have.
type RedisBackend struct {
	static  bool
	logger  *slog.Logger
	gates   sync.Map    // of each client, for probes
	resends atomic.Bool // a client sends commands again by itself
}

var _ Backend[*redis.Client] = (*RedisBackend)(nil)

// maxProbes bounds the probes of one node that are under way, those that were
// left behind included. Nodes share no bound, so that those that hang keep no
// probe from the others.
const maxProbes = 4

// NewRedisBackend returns a backend for [New]. It does no I/O.
func NewRedisBackend(opts *RedisOptions) *RedisBackend {
	var o RedisOptions
	if opts != nil {
		o = *opts
	}
	return &RedisBackend{static: o.StaticRoles, logger: o.Logger}
}

// Probe implements [Backend]: PING, which a server refuses that cannot serve,
// and INFO replication, in one round trip.
func (b *RedisBackend) Probe(ctx context.Context, n Node[*redis.Client]) (Status, error) {
	if b == nil {
		return Status{}, invalid("the backend is nil")
	}
	if err := rediskit.CheckClient(n.Client); err != nil {
		return Status{}, err
	}
	gate := b.look(n)
	if b.static && n.Role == RoleUnknown {
		return Status{}, invalid("static roles, and node %q has none", n.Name)
	}
	return rediskit.Do(ctx, gate, rediskit.Reads, func(ctx context.Context) (Status, error) {
		pipe := n.Client.Pipeline()
		pipe.Ping(ctx)
		var info *redis.StringCmd
		if !b.static {
			info = pipe.Info(ctx, "replication")
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return Status{}, err
		}
		if b.static {
			return Status{Role: n.Role}, nil
		}
		return parseInfo(info.Val()), nil
	}, nil)
}

// look returns the gate of a client, whose options it looks at the first time.
func (b *RedisBackend) look(n Node[*redis.Client]) *rediskit.Gate {
	if gate, seen := b.gates.Load(n.Client); seen {
		return gate.(*rediskit.Gate)
	}
	if n.Client.Options().MaxRetries > 0 {
		b.resends.Store(true)
	}
	gate, seen := b.gates.LoadOrStore(n.Client, rediskit.NewGateOf(maxProbes, -1))
	if !seen && b.logger != nil {
		rediskit.WarnOptions(b.logger, n.Client)
		if n.Client.Options().MaxRetries > 0 {
			b.logger.Warn("the redis client's MaxRetries is not -1: it may send a write several times by itself", "node", n.Name)
		}
	}
	return gate.(*rediskit.Gate)
}

// Redact returns err without what the server quoted, which can be keys or
// user names.
func (b *RedisBackend) Redact(err error) error {
	if err == nil {
		return nil
	}
	text := rediskit.Classify(rediskit.Reads, err).Error()
	for _, class := range [...]error{transparency.ErrUnavailable, transparency.ErrDenied, transparency.ErrInvalid} {
		text = strings.TrimPrefix(text, class.Error()+": ")
	}
	return &cause{text, err}
}

// Classify implements [Backend]. An error that is neither a reply of Redis nor
// of the connection is the callback's own: ClassApp. One that matches
// ErrUncertain of the root package is ClassUnknown, whatever else it holds.
func (b *RedisBackend) Classify(err error, role Role) Class {
	var reply redis.Error
	switch {
	case errors.Is(err, transparency.ErrUncertain):
		return ClassUnknown
	case errors.Is(err, redis.Nil), errors.Is(err, redis.TxFailedErr):
		return ClassApp
	case errors.As(err, &reply):
		return replyClass(reply.Error())
	case isContext(err):
		return ClassUnknown
	}
	sorted := rediskit.Classify(rediskit.Writes, err)
	switch {
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return b.unsent(ClassOverload, role)
	case errors.Is(sorted, transparency.ErrUnavailable):
		return b.unsent(ClassDown, role)
	case isTransport(err):
		return ClassUnknown
	}
	return ClassApp
}

// unsent returns class if a write was certainly not sent: a client that sends
// by itself again tells only of the last try.
func (b *RedisBackend) unsent(class Class, role Role) Class {
	if role != RoleReplica && b != nil && b.resends.Load() {
		return ClassUnknown
	}
	return class
}

// isTransport reports whether err is of a connection that was had.
func isTransport(err error) bool {
	var netErr net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.As(err, &netErr)
}

// replyClasses sorts replies by their first word. All others are answers.
var replyClasses = map[string]Class{
	"READONLY":    ClassMisrouted,
	"UNBLOCKED":   ClassMisrouted, // a blocking command, since a failover
	"LOADING":     ClassNotReady,
	"MASTERDOWN":  ClassNotReady,
	"CLUSTERDOWN": ClassNotReady,
	"BUSY":        ClassNotReady, // a script runs too long
	"NOREPLICAS":  ClassOverload,
	"OOM":         ClassOverload,
	"MISCONF":     ClassOverload,
	"NOAUTH":      ClassDenied,
	"WRONGPASS":   ClassDenied,
	"DENIED":      ClassDenied, // protected mode
}

func replyClass(text string) Class {
	word, rest, _ := strings.Cut(text, " ")
	if class, ok := replyClasses[word]; ok {
		return class
	}
	if word == "EXECABORT" {
		if _, why, ok := strings.Cut(rest, "because of: "); ok {
			return replyClass(why) // EXEC itself was refused
		}
		return classAborted // a command before it was, and the reply says not why
	}
	if word == "ERR" {
		switch {
		case strings.HasPrefix(rest, "max number of clients"):
			return ClassOverload
		case strings.HasPrefix(rest, "invalid password"), strings.HasPrefix(rest, "AUTH "):
			return ClassDenied
		case strings.HasPrefix(rest, "Error running script") && strings.Contains(rest, "-READONLY "):
			return ClassMisrouted // before Redis 7
		}
	}
	return ClassApp
}
