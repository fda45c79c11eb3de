package failure

import (
	"context"

	"github.com/go-transparency/transparency/internal/rediskit"
)

// Listen implements [Driver].
func (d *RedisDriver) Listen(ctx context.Context, name string, wake func()) error {
	if d.err != nil {
		return failed("listen", name, d.err)
	}
	return rediskit.Listen(ctx, d.client.Subscribe(ctx, d.channel(name)), func(string, bool) { wake() })
}
