package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Secret returns 32 random bytes, which are the same in all processes of the run:
// the first that asks leaves them in Redis.
func (e *Env) Secret(ctx context.Context) ([]byte, error) {
	client, err := e.Client()
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	key := e.Prefix() + "secret"
	err = client.SetArgs(ctx, key, secret, redis.SetArgs{Mode: "NX", TTL: time.Hour}).Err()
	if err == nil || errors.Is(err, redis.Nil) {
		secret, err = client.Get(ctx, key).Bytes()
	}
	if err != nil {
		return nil, e.Advise("share a secret with the other processes", err)
	}
	return secret, nil
}
