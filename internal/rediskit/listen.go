package rediskit

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// heartbeat is how often a silent subscription is asked whether it lives.
const heartbeat = 3 * time.Second

// Listen calls hear with the payload of each message of sub, and with begun set
// each time that the subscription has begun, or begun again: what was published
// before was missed. It returns when ctx ends, or when sub
// fails or falls silent, and has closed sub by then. hear does not block.
func Listen(ctx context.Context, sub *redis.PubSub, hear func(payload string, begun bool)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := make(chan struct{}, 1)
	beaten := make(chan struct{})
	go func() { // ends the subscription, and with it the loop below
		defer close(beaten)
		beat(ctx, sub, heard)
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
			hear("", true)
		case *redis.Message:
			hear(msg.Payload, false)
		}
	}
}

// beat pings the subscription, and returns when ctx has ended or nothing came
// back for a whole beat. go-redis connects again by itself, but not to a
// server that stopped answering.
func beat(ctx context.Context, sub *redis.PubSub, heard <-chan struct{}) {
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
