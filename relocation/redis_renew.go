package relocation

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/rediskit"
)

// maxPipeline bounds the leases of one pipeline, so that none holds a server
// or a connection for long.
const maxPipeline = 500

// Renew implements [Store].
func (r *RedisStore) Renew(ctx context.Context, leases []Lease) []Renewal {
	results := make([]Renewal, 0, len(leases))
	for len(leases) > 0 {
		some := leases[:min(len(leases), maxPipeline)]
		leases = leases[len(some):]
		results = append(results, r.renewSome(ctx, some)...)
	}
	return results
}

func (r *RedisStore) renewSome(ctx context.Context, leases []Lease) []Renewal {
	err := r.usable()
	if err == nil {
		var results []Renewal
		results, err = rediskit.Do(ctx, r.renewing, rediskit.Writes, func(ctx context.Context) ([]Renewal, error) {
			return r.renew(ctx, leases)
		}, nil)
		if err == nil {
			return results
		}
	}
	results := make([]Renewal, len(leases))
	for i := range results {
		results[i].Err = err
	}
	return results
}

// renew sends the leases in one pipeline, and once more those for which a
// server did not know the script: all in a Cluster that is on the move know it
// by then, or are sent it whole. The error is that of all, when no lease was
// answered.
func (r *RedisStore) renew(ctx context.Context, leases []Lease) ([]Renewal, error) {
	cmds := make([]*rediskit.Once, len(leases))
	pending := make([]int, len(leases))
	for i := range leases {
		pending[i] = i
	}
	for round := 0; len(pending) > 0 && round < 3; round++ {
		_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for n, i := range pending {
				cmds[i] = r.renewal(ctx, leases[i], round == 2 || round == 1 && n == 0)
				_ = p.Process(ctx, cmds[i]) // queued only
			}
			return nil
		})
		var unknown []int
		for _, i := range pending {
			switch cmd := cmds[i]; {
			case redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT"):
				unknown = append(unknown, i)
			case cmd.Err() == nil && cmd.Val() == nil:
				// A connection that was refused by the server leaves its
				// commands without reply and without error.
				cmd.SetErr(errors.Join(err, errNoReply))
			}
		}
		pending = unknown
	}
	results := make([]Renewal, len(leases))
	answered := false
	for i, cmd := range cmds {
		var reply redis.Error
		answered = answered || cmd.Err() == nil || errors.As(cmd.Err(), &reply)
		results[i] = renewalOf(cmd.Result())
	}
	if !answered {
		return nil, cmds[0].Err()
	}
	return results, nil
}

var errNoReply = errors.New("no reply")

// renewal returns the command that renews a lease, with the whole script or
// with its digest.
func (r *RedisStore) renewal(ctx context.Context, lease Lease, whole bool) *rediskit.Once {
	command := renewScript.Cmd
	if whole {
		command = renewScript.Source
	}
	return command(ctx, r.keys(lease.Session), seqText(lease.Generation), lease.Owner, ms(lease.Duration))
}

func renewalOf(reply any, err error) Renewal {
	if err != nil {
		return Renewal{Err: rediskit.Classify(rediskit.Writes, err)}
	}
	r, err := parseRedisReply(reply)
	if err != nil {
		return Renewal{Err: err}
	}
	out, err := r.seq(1)
	return Renewal{Progress: Progress{Out: out}, Err: err}
}
