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

// An obtaining is one attempt. For a lock it is the redis.Scripter of one
// redislock.Obtain as well: it sends the library's script and ours in one
// pipeline, so that neither is sent twice.
type obtaining struct {
	redis.Scripter // nil: redislock calls the two methods below and no other

	d     *RedisDriver
	claim Claim
	queue bool
	keys  []string
	mint  *rediskit.Once
}

func (o *obtaining) try(ctx context.Context) (Grant, error) {
	if o.claim.Permits > 0 {
		return o.d.permit(ctx, o.claim, o.queue)
	}
	return o.obtain(ctx)
}

// late undoes what nobody waits for any more. The engine tries too.
func (o *obtaining) late(g Grant, err error) {
	if err == nil && (g.Fence != 0 || o.queue) {
		ctx, cancel := context.WithTimeout(context.Background(), DefaultTimeout)
		defer cancel()
		_, _ = o.d.releaseNow(ctx, o.claim)
	}
}

// obtain obtains the lock with redislock and mints its fence, in one round
// trip when the server knows both scripts.
func (o *obtaining) obtain(ctx context.Context) (Grant, error) {
	d, c := o.d, &o.claim
	o.keys = d.companions(c.Key)
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
		reply, runErr := mintScript.Run(ctx, d.client, o.keys, c.Token, fenceTTLArg, lineArg(o.queue), maxLineArg)
		grant, err = parseGrant(reply, runErr)
	}
	if err != nil && obtained {
		if _, releaseErr := d.releaseNow(ctx, *c); releaseErr != nil {
			// Whatever became of the fence, the key may be taken, and that is
			// the one class to tell. The engine will see to it.
			err = fmt.Errorf("%w: %s", transparency.ErrUncertain, rediskit.Classify(rediskit.Writes, err).Error())
		}
	}
	return grant, err
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
	all := make([]any, 0, 4+len(args))
	all = append(append(all, name, text, 1, o.keys[0]), args...)
	obtain := rediskit.NewOnce(ctx, 3, all...)
	o.mint = mintScript.Cmd(ctx, o.keys, o.claim.Token, fenceTTLArg, lineArg(o.queue), maxLineArg)
	o.d.pipeline(ctx, obtain, o.mint)
	return obtain.Cmd
}
