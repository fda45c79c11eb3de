package lab

import (
	"context"
	"time"

	"github.com/go-transparency/transparency/internal/backoff"
)

// Meet waits until n processes of this run have called it with this name. It
// counts them in Redis.
func (e *Env) Meet(ctx context.Context, name string, n int64) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	key := e.Prefix() + "meet:" + name
	here, err := client.Incr(ctx, key).Result()
	if err == nil {
		err = client.Expire(ctx, key, time.Minute).Err()
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for err == nil && here < n {
		select {
		case <-tick.C:
			here, err = client.Get(ctx, key).Int64()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err != nil {
		return e.Advise("meet the other processes", err)
	}
	return nil
}

// Think is the work of a process: it takes d, or until ctx ends.
func Think(ctx context.Context, d time.Duration) error { return backoff.Sleep(ctx, d) }
