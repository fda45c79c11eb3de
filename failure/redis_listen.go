package failure

import (
	"context"
	"time"

	"github.com/go-transparency/transparency/internal/rediskit"
)

// Listen implements [Driver]. It may leave behind a connection that is being
// made: see the package page.
func (d *RedisDriver) Listen(ctx context.Context, name string, wake func()) error {
	if err := d.unfit(); err != nil {
		return failed("listen", name, err)
	}
	ended := make(chan error, 1)
	go func() {
		// go-redis connects here, and again in Listen whenever it likes. A context
		// that ends then ends a dial but no handshake, which lasts until the
		// client's own timeouts.
		sub := d.client.Subscribe(ctx, d.channel(name))
		ended <- rediskit.Listen(ctx, sub, func(string, bool) {
			if ctx.Err() == nil {
				wake()
			}
		})
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	patience := time.NewTimer(d.timeout)
	defer patience.Stop()
	select {
	case err := <-ended:
		return err
	case <-patience.C:
		return ctx.Err()
	}
}
