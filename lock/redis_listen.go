package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// heartbeat is how often a silent subscription is asked whether it lives.
const heartbeat = 3 * time.Second

// Listen implements [Driver] with one subscription for all keys.
func (d *RedisDriver) Listen(ctx context.Context, owner string, wake func(key string)) error {
	if err := d.unusable(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sub := d.client.Subscribe(ctx, d.channels()+owner)
	heard := make(chan struct{}, 1)
	beaten := make(chan struct{})
	go func() { // ends the subscription, and with it the loop below
		defer close(beaten)
		d.beat(ctx, sub, heard)
		_ = sub.Close()
	}()
	defer func() {
		cancel()
		<-beaten
	}()
	for {
		msg, err := sub.Receive(ctx)
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		select {
		case heard <- struct{}{}:
		default:
		}
		switch msg := msg.(type) {
		case *redis.Subscription:
			wake("")
		case *redis.Message:
			wake(msg.Payload)
		}
	}
}

// beat pings the subscription, and returns when ctx has ended or nothing came
// back for a whole beat. go-redis connects again by itself, but not to a
// server that stopped answering.
func (d *RedisDriver) beat(ctx context.Context, sub *redis.PubSub, heard <-chan struct{}) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for asked := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-heard:
			asked = false
		case <-ticker.C:
			if asked || sub.Ping(ctx) != nil {
				return
			}
			asked = true
		}
	}
}
