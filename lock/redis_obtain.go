package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/rediskit"
)

// obtain obtains the lock with redislock and mints its fence, in one round
// trip when the server knows both scripts.
func (d *RedisDriver) obtain(ctx context.Context, c Claim, queue bool) (Grant, error) {
	o := &obtaining{d: d, claim: c, queue: queue}
	_, err := redislock.New(o).Obtain(ctx, c.Key, c.TTL, &redislock.Options{
		Token: c.Token, Metadata: metadata(c.Holder),
	})
	obtained := err == nil
	if !obtained && !errors.Is(err, redislock.ErrNotObtained) {
		return Grant{}, err
	}
	grant, err := parseGrant(o.mint.Result())
	if noScript(err) || obtained && err == nil && grant.Fence == 0 {
		// Not known there, or executed before the lock was obtained, as a
		// Cluster on the move can do.
		reply, runErr := mintScript.Run(ctx, d.client, o.keys(), o.args()...)
		grant, err = parseGrant(reply, runErr)
	}
	if err != nil && obtained {
		if _, releaseErr := d.releaseNow(ctx, c); releaseErr != nil {
			// Whatever became of the fence, the key may be taken, and that is
			// the one class to tell. The engine will see to it.
			err = fmt.Errorf("%w: %s", transparency.ErrUncertain, rediskit.Classify(rediskit.Writes, err).Error())
		}
	}
	return grant, err
}

// obtaining is the redis.Scripter of one redislock.Obtain: it sends the
// library's script and ours in one pipeline, so that neither is sent twice.
type obtaining struct {
	redis.Scripter // nil: redislock calls the two methods below and no other

	d     *RedisDriver
	claim Claim
	queue bool
	mint  *rediskit.Once
}

// EvalSha sends redislock's script by its digest.
func (o *obtaining) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return o.send(ctx, "evalsha", sha, args)
}

// Eval sends it whole.
func (o *obtaining) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return o.send(ctx, "eval", script, args)
}

func (o *obtaining) send(ctx context.Context, name, text string, args []any) *redis.Cmd {
	keys := o.keys()
	obtain := rediskit.NewOnce(ctx, 3, append([]any{name, text, 1, keys[0]}, args...)...)
	o.mint = mintScript.Cmd(ctx, keys, o.args()...)
	o.d.pipeline(ctx, obtain, o.mint)
	return obtain.Cmd
}

func (o *obtaining) keys() []string {
	key := o.claim.Key
	return []string{o.d.lockKey(key), o.d.fenceKey(key), o.d.lineKey(key)}
}

func (o *obtaining) args() []any {
	return []any{o.claim.Token, fenceTTLText, lineText(o.queue), maxLine}
}
