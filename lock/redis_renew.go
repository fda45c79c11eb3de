package lock

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/rediskit"
)

// Renew implements [Driver].
func (d *RedisDriver) Renew(ctx context.Context, claims []Claim) []error {
	err := d.unusable()
	if err == nil {
		var results []error
		results, err = rediskit.Do(ctx, d.renewing, rediskit.Writes, func(ctx context.Context) ([]error, error) {
			ctx, cancel := d.inTime(ctx)
			defer cancel()
			return d.renew(ctx, claims), nil
		}, nil)
		if err == nil {
			return results
		}
	}
	results := make([]error, len(claims))
	for i := range results {
		results[i] = err
	}
	return results
}

// inTime lets a pipeline that may go to several servers end a little before
// the exchange does: what the others have answered is heard although one of
// them hangs.
func (d *RedisDriver) inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if _, single := d.client.(*redis.Client); single || !ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(deadline)*3/4)
}

// renew sends the claims in one pipeline. A server that does not know the
// script is told it once, in a second one; servers of a Cluster that still do
// not know it are told it with every claim.
func (d *RedisDriver) renew(ctx context.Context, claims []Claim) []error {
	cmds := make([]*rediskit.Once, len(claims))
	for round, unknown := 0, len(claims); round < 3 && unknown > 0; round++ {
		batch := make([]*rediskit.Once, 0, unknown)
		for i, c := range claims {
			if round > 0 && !noScript(cmds[i].Err()) {
				continue
			}
			whole := round == 2 || round == 1 && len(batch) == 0
			cmds[i] = d.renewal(ctx, c, whole)
			batch = append(batch, cmds[i])
		}
		d.pipeline(ctx, batch...)
		unknown = 0
		for _, cmd := range cmds {
			if noScript(cmd.Err()) {
				unknown++
			}
		}
	}
	results := make([]error, len(claims))
	for i, cmd := range cmds {
		owned, err := cmd.Bool()
		switch {
		case err != nil:
			results[i] = rediskit.Classify(rediskit.Writes, err)
		case !owned:
			results[i] = ErrLost
		}
	}
	return results
}

// renewal returns the command that renews a claim, with the whole script or
// with its digest.
func (d *RedisDriver) renewal(ctx context.Context, c Claim, whole bool) *rediskit.Once {
	script, key, token := renewScript, d.lockKey(c.Key), c.Token
	if c.Permits > 0 {
		script, key, token = permitRenewScript, d.permitsKey(c.Key), c.Token+metadata(c.Holder)
	}
	if whole {
		return script.Source(ctx, []string{key}, token, ms(c.TTL))
	}
	return script.Cmd(ctx, []string{key}, token, ms(c.TTL))
}
