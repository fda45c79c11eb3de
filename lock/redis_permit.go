package lock

import (
	"context"
	_ "embed"

	"github.com/go-transparency/transparency/internal/rediskit"
)

var (
	//go:embed permits.lua
	permitsSource string
	//go:embed permit.lua
	permitSource string
	//go:embed permit_renew.lua
	permitRenewSource string
	//go:embed permit_release.lua
	permitReleaseSource string

	permitScript        = rediskit.NewScript(fenceSource + lineSource + permitsSource + permitSource)
	permitRenewScript   = rediskit.NewScript(permitsSource + permitRenewSource)
	permitReleaseScript = rediskit.NewScript(lineSource + permitsSource + permitReleaseSource)
)

func (d *RedisDriver) permitsKey(key string) string { return rediskit.Key(d.prefix, key, ":permits") }

// permit tries once for a permit of a semaphore, which redislock does not know.
func (d *RedisDriver) permit(ctx context.Context, c Claim, queue bool) (Grant, error) {
	permits := d.permitsKey(c.Key)
	return parseGrant(permitScript.Run(ctx, d.client,
		[]string{permits, permits + fenceSuffix, permits + lineSuffix},
		c.Token, metadata(c.Holder), ms(c.TTL), c.Permits, fenceTTLArg, lineArg(queue), maxLineArg))
}

func (d *RedisDriver) releasePermit(ctx context.Context, c Claim) (bool, error) {
	permits := d.permitsKey(c.Key)
	reply, err := permitReleaseScript.Run(ctx, d.client, []string{permits, permits + lineSuffix},
		c.Token, graceArg, d.channels, ownerLen, c.Key, d.counted, metadata(c.Holder), c.Permits)
	return reply == int64(1), err
}
