package relocation

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/rediskit"
)

// RedisClient is what the Redis forms need of a client. *redis.Client (a
// single server or Sentinel), *redis.ClusterClient and *redis.Ring have it.
type RedisClient interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error)
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// RedisOptions are options of a [RedisStore]. The zero value is ready to use.
type RedisOptions struct {
	// Prefix begins every key and channel. Empty means "relocation:".
	Prefix string
	// Timeout bounds one exchange with Redis. Zero means 2 s; negative means
	// that only the context bounds it.
	Timeout time.Duration
	// Logger is told once if the client's options make calls outlast their
	// contexts. Nil discards.
	Logger *slog.Logger
}

// A RedisStore keeps sessions in Redis 7.0 or later, so that any instance can
// go on with them; the package page names its keys. Every change is one script
// and one round trip; all leases that are renewed together take one pipeline.
//
// A Redis that answers but has lost something is noticed by those who know
// better: when all of it is gone the answer is [ErrUnknown]; when an owner, a
// client or a token is ahead of the store, or the outbox is not whole, it is
// [ErrStateRegressed]. Nobody can notice the loss of a message that was
// appended and that no transport had yet. Redis answers before it has written
// to disk or told a replica, so have it persist, and replicate, as far as the
// sessions are worth it, and set maxmemory-policy to noeviction.
//
// A call returns at once when its context ends. At most 64 commands are under
// way in one store; when so many are without an answer, calls are refused with
// transparency.ErrUnavailable.
//
// A RedisStore is safe for concurrent use. It does not close the client.
type RedisStore struct {
	client   RedisClient
	err      error // why no operation can work
	prefix   string
	changing *rediskit.Gate // and reading
	renewing *rediskit.Gate // by itself, so that no crowd delays a renewal
}

var _ Store = (*RedisStore)(nil)

// maxRenewals is how many pipelines of renewals are under way at most.
const maxRenewals = 8

// NewRedisStore returns a store that uses client. It does no I/O. opts may be
// nil. With a nil client every call fails with transparency.ErrInvalid.
func NewRedisStore(client RedisClient, opts *RedisOptions) *RedisStore {
	var o RedisOptions
	if opts != nil {
		o = *opts
	}
	if o.Prefix == "" {
		o.Prefix = "relocation:"
	}
	rediskit.WarnOptions(o.Logger, client)
	return &RedisStore{
		client: client, err: rediskit.CheckClient(client), prefix: o.Prefix,
		changing: rediskit.NewGateOf(rediskit.Limit-maxRenewals, o.Timeout).For(client),
		renewing: rediskit.NewGateOf(maxRenewals, o.Timeout).For(client),
	}
}

var (
	//go:embed record.lua
	recordLua string
	//go:embed outbox.lua
	outboxLua string
	//go:embed create.lua
	createLua string
	//go:embed attach.lua
	attachLua string
	//go:embed commit.lua
	commitLua string
	//go:embed renew.lua
	renewLua string
	//go:embed append.lua
	appendLua string
	//go:embed read.lua
	readLua string
	//go:embed release.lua
	releaseLua string
	//go:embed delete.lua
	deleteLua string

	createScript  = rediskit.NewScript(recordLua + createLua)
	attachScript  = rediskit.NewScript(recordLua + outboxLua + attachLua)
	commitScript  = rediskit.NewScript(recordLua + outboxLua + commitLua)
	renewScript   = rediskit.NewScript(recordLua + renewLua)
	appendScript  = rediskit.NewScript(recordLua + outboxLua + appendLua)
	readScript    = rediskit.NewScript(recordLua + outboxLua + readLua)
	releaseScript = rediskit.NewScript(recordLua + releaseLua)
	deleteScript  = rediskit.NewScript(recordLua + deleteLua)
)

func (r *RedisStore) keys(id string) []string {
	return []string{rediskit.Key(r.prefix, id, ""), rediskit.Key(r.prefix, id, ":out")}
}

// channels is what stands before an instance's name in the name of its channel.
func (r *RedisStore) channels() string {
	if r == nil {
		return ""
	}
	return r.prefix + "to:"
}

func (r *RedisStore) usable() error {
	if r == nil || r.client == nil && r.err == nil {
		return invalid("the RedisStore is not from NewRedisStore")
	}
	return r.err
}

// Create implements [Store].
func (r *RedisStore) Create(ctx context.Context, id string, terms Terms, claim Claim) (Snapshot, error) {
	text := fmt.Sprintf("%s %s %d %d", ms(terms.Resume), ms(terms.Tombstone), max(terms.MaxMessages, 0), max(terms.MaxBytes, 0))
	return snapshotOf(r.run(ctx, rediskit.Writes, createScript, id,
		claim.Owner, ms(claim.Lease), claim.Nonce, terms.Principal, text, seqText(terms.In), seqText(terms.Out)))
}

// Attach implements [Store].
func (r *RedisStore) Attach(ctx context.Context, id string, claim Claim) (Snapshot, error) {
	return snapshotOf(r.run(ctx, rediskit.Writes, attachScript, id,
		claim.Owner, ms(claim.Lease), claim.Nonce, claim.Principal,
		seqText(claim.Serial), seqText(claim.Attempt), seqText(claim.Received), seqText(claim.Acked),
		number(claim.Force), r.channels(), id))
}

// Commit implements [Store].
func (r *RedisStore) Commit(ctx context.Context, lease Lease, u Update) (Progress, error) {
	args := make([]any, 0, 10+len(u.Messages))
	args = append(args, seqText(lease.Generation), lease.Owner, ms(lease.Duration),
		seqText(u.In), seqText(u.Acked), number(u.Confirmed), seqText(u.Sent.Seq), u.Sent.Batch, u.Mark, u.After)
	reply, err := r.run(ctx, rediskit.Writes, commitScript, lease.Session, appendPayloads(args, u.Messages)...)
	if err != nil {
		return Progress{}, err
	}
	out, err1 := reply.seq(1)
	first, err2 := reply.seq(2)
	return Progress{Out: out, First: first}, errors.Join(err1, err2)
}

// Append implements [Store].
func (r *RedisStore) Append(ctx context.Context, id string, batch Batch) (uint64, error) {
	if len(batch.Messages) == 0 {
		return 0, invalid("the batch is empty")
	}
	args := make([]any, 0, 4+len(batch.Messages))
	args = append(args, batch.ID, ms(batch.Age), r.channels(), id)
	reply, err := r.run(ctx, rediskit.Writes, appendScript, id, appendPayloads(args, batch.Messages)...)
	if err != nil {
		return 0, err
	}
	return reply.seq(1)
}

// Read implements [Store].
func (r *RedisStore) Read(ctx context.Context, id string, after uint64, limit int) ([]Outgoing, error) {
	reply, err := r.run(ctx, rediskit.Reads, readScript, id, seqText(after), max(limit, 0))
	if err != nil {
		return nil, err
	}
	var messages []Outgoing
	for i := 1; i+2 < len(reply); i += 3 {
		seq, err := reply.seq(i)
		if err != nil {
			return nil, err
		}
		if n := len(messages); n > 0 && seq != messages[n-1].Seq+1 {
			return nil, ErrStateRegressed
		}
		batch, _ := reply[i+1].(string)
		data, _ := reply[i+2].(string)
		messages = append(messages, Outgoing{Seq: seq, Batch: batch, Data: []byte(data)})
	}
	return messages, nil
}

// Release implements [Store].
func (r *RedisStore) Release(ctx context.Context, lease Lease, to string) error {
	_, err := r.run(ctx, rediskit.Writes, releaseScript, lease.Session,
		seqText(lease.Generation), to, r.channels(), lease.Session)
	return err
}

// Delete implements [Store].
func (r *RedisStore) Delete(ctx context.Context, lease Lease) error {
	_, err := r.run(ctx, rediskit.Writes, deleteScript, lease.Session, seqText(lease.Generation))
	return err
}

// run runs one script on a session's keys.
func (r *RedisStore) run(ctx context.Context, effect rediskit.Effect, script *rediskit.Script, id string, args ...any) (redisReply, error) {
	if err := r.usable(); err != nil {
		return nil, err
	}
	keys := r.keys(id)
	reply, err := rediskit.Do(ctx, r.changing, effect, func(ctx context.Context) (any, error) {
		return script.Run(ctx, r.client, keys, args...)
	}, nil)
	if err != nil {
		return nil, err
	}
	return parseRedisReply(reply)
}

// String leaves the client out, for it can hold a password.
func (r *RedisStore) String() string {
	if r == nil {
		return "relocation.RedisStore(nil)"
	}
	return fmt.Sprintf("relocation.RedisStore(%q)", r.prefix)
}

// Format is String for every verb.
func (r *RedisStore) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }
