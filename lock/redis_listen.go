package lock

import (
	"context"

	"github.com/go-transparency/transparency/internal/rediskit"
)

// Listen implements [Driver] with one subscription for all keys.
func (d *RedisDriver) Listen(ctx context.Context, owner string, wake func(key string)) error {
	if err := d.unusable(); err != nil {
		return err
	}
	return rediskit.Listen(ctx, d.client.Subscribe(ctx, d.prefix+wakeChannels+owner), func(key string, begun bool) {
		if begun || key != "" {
			wake(key) // "" for what may have been missed
		}
	})
}
