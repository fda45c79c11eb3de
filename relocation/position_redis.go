package relocation

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/rediskit"
)

//go:embed position.lua
var positionLua string

// DefaultPositionTTL is how long a [RedisPosition] keeps the position of a
// session after its last message where the options say nothing.
const DefaultPositionTTL = 30 * 24 * time.Hour

// RedisPositionOptions are options of a [RedisPosition]. Nil is fine.
type RedisPositionOptions struct {
	// Prefix begins the key of a position. Empty means "position:".
	Prefix string
	// Tag is the hash tag of all keys, so that positions are in one Cluster
	// slot with data that many sessions share. Empty means that each session
	// has its own: its name.
	Tag string
	// TTL is how long a position is kept after the last message. A session
	// that goes on after that ends with [ErrStateRegressed]. Zero means
	// [DefaultPositionTTL]; negative means for ever.
	TTL time.Duration
	// Timeout bounds one exchange with Redis. Zero means 2 s; negative means
	// that only the context bounds it.
	Timeout time.Duration
	// Logger is told once if the client's options make calls outlast their
	// contexts. Nil discards.
	Logger *slog.Logger
}

// A RedisPosition keeps, in the Redis of the handler's own data, up to which
// message each session has had its effect there. With it a handler of a Hub in
// the mode [Atomic] has every effect exactly once: effect and number are one
// script.
//
//	position := relocation.NewRedisPosition(client, &relocation.RedisPositionOptions{Tag: "shop"})
//	hub := relocation.NewHub(store, func(ctx context.Context, s *relocation.Session, m relocation.Message) error {
//		_, err := position.Run(ctx, s, m.Seq, `return redis.call('INCR', KEYS[1])`, []string{"{shop}:sold"}, nil)
//		return err
//	}, &relocation.HubOptions{Mode: relocation.Atomic, Position: position.Position})
//
// The position of the session S is the string position:{shop}:S, and without a
// Tag position:{S}: its generation and its number. Keys of the handler have to
// have the same hash tag, {shop} or {S}.
//
// It is safe for concurrent use, and does not close the client.
type RedisPosition struct {
	client RedisClient
	err    error // why no operation can work
	prefix string
	tag    string
	ttl    string
	gate   *rediskit.Gate
}

// NewRedisPosition returns the positions in a Redis. It does no I/O. opts may
// be nil.
func NewRedisPosition(client RedisClient, opts *RedisPositionOptions) *RedisPosition {
	var o RedisPositionOptions
	if opts != nil {
		o = *opts
	}
	if o.Prefix == "" {
		o.Prefix = "position:"
	}
	if o.TTL == 0 {
		o.TTL = DefaultPositionTTL
	}
	rediskit.WarnOptions(o.Logger, client)
	return &RedisPosition{
		client: client, err: rediskit.CheckClient(client),
		prefix: o.Prefix, tag: o.Tag, ttl: ms(o.TTL),
		gate: rediskit.NewGate(o.Timeout).For(client),
	}
}

func (p *RedisPosition) unusable() error {
	if p == nil || p.client == nil && p.err == nil {
		return invalid("the RedisPosition is not from NewRedisPosition")
	}
	return p.err
}

func (p *RedisPosition) key(session string) string {
	if p.tag == "" {
		return rediskit.Key(p.prefix, session, "")
	}
	return rediskit.Key(p.prefix, p.tag, ":"+session)
}

// Position returns up to which message a session has had its effect, which is
// zero for one that is unknown. It is for HubOptions.Position.
func (p *RedisPosition) Position(ctx context.Context, session string) (uint64, error) {
	if err := p.unusable(); err != nil {
		return 0, positionFailed(err)
	}
	seq, err := rediskit.Do(ctx, p.gate, rediskit.Reads, func(ctx context.Context) (uint64, error) {
		cmd := rediskit.NewOnce(ctx, 1, "get", p.key(session))
		_ = p.client.Process(ctx, cmd) // the command holds its error
		text, err := cmd.Text()
		if errors.Is(err, redis.Nil) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		_, text, _ = strings.Cut(text, " ")
		return redisReply{text}.seq(0)
	}, nil)
	if err != nil {
		return 0, positionFailed(err)
	}
	return seq, nil
}

// Run runs a Lua script as the effect of message seq of a session, and notes
// the number with it; KEYS are keys, ARGV is args. It returns the script's
// reply as Lua has it: strings, integers, slices of these, nil. Return the
// error from the handler.
//
// A script that raises an error, or returns one, has had no effect as long as
// it has written nothing before, and the message comes again.
//
// The error is [ErrDuplicate] when the message had its effect before, which a
// Hub takes for success; [ErrFenced] when a later owner has had an effect,
// after which this one's session is over; [ErrStateRegressed] when the message
// before has had none, because Redis lost it; or it wraps a class of the root
// package. With ErrUncertain the effect may be there: the message comes again,
// and is a duplicate then. Keys with another hash tag are ErrInvalid.
func (p *RedisPosition) Run(ctx context.Context, o Ownership, seq uint64, script string, keys []string, args []any) (any, error) {
	err := p.unusable()
	if err == nil {
		err = checkAdvance(o, seq)
	}
	if err == nil {
		err = p.checkKeys(p.key(o.ID()), keys)
	}
	if err != nil {
		return nil, positionFailed(err)
	}
	once := rediskit.NewScript("local function script(KEYS, ARGV)\n" + script + "\nend\n" + positionLua)
	names := append([]string{p.key(o.ID())}, keys...)
	values := append([]any{seqText(o.Generation()), seqText(seq), seqText(seq - 1), p.ttl}, args...)
	reply, err := rediskit.Do(ctx, p.gate, rediskit.Writes, func(ctx context.Context) (any, error) {
		return once.Run(ctx, p.client, names, values...)
	}, nil)
	if err != nil {
		return nil, positionFailed(err)
	}
	value, err := parsePosition(o, seq, reply)
	if err != nil {
		return nil, positionFailed(err)
	}
	return value, nil
}

func parsePosition(o Ownership, seq uint64, reply any) (any, error) {
	r, _ := reply.([]any)
	switch {
	case len(r) == 0:
	case r[0] == "ok" && len(r) == 1: // the script returned nothing
		return nil, nil
	case r[0] == "ok":
		return r[1], nil
	case r[0] == "refused":
		generation, err1 := redisReply(r).seq(1)
		at, err2 := redisReply(r).seq(2)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return nil, positionRefusal(o, seq, generation, at)
	case r[0] == "corrupt":
		return nil, invalid("the key in the store holds no position")
	}
	return nil, invalid("a reply of an unknown kind")
}

// checkKeys returns why keys cannot be in one Cluster slot with the position.
func (p *RedisPosition) checkKeys(position string, keys []string) error {
	for _, key := range keys {
		if slotTag(key) != slotTag(position) {
			return invalid("a key has not the hash tag of the position, which is that of the options or the session's name")
		}
	}
	return nil
}

// slotTag returns the part of a key that decides on its Cluster slot.
func slotTag(key string) string {
	_, rest, found := strings.Cut(key, "{")
	if tag, _, closed := strings.Cut(rest, "}"); found && closed && tag != "" {
		return tag
	}
	return key
}

// String leaves the client out, for it can hold a password.
func (p *RedisPosition) String() string {
	if p == nil {
		return "relocation.RedisPosition(nil)"
	}
	return fmt.Sprintf("relocation.RedisPosition(%q)", p.prefix)
}

// Format is String for every verb.
func (p *RedisPosition) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.String()) }
