package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/lock"
)

// newLocker returns a Locker over Redis that is closed at cleanup.
func newLocker(t *testing.T, client lock.RedisClient, opts lock.Options) *lock.Locker {
	t.Helper()
	if opts.Timeout == 0 {
		opts.Timeout = 5 * time.Second // for a machine that is busy elsewhere
	}
	l := lock.NewRedis(client, &opts)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func newClient(t *testing.T, opts *redis.Options, addr string) *redis.Client {
	t.Helper()
	o := *opts
	o.Addr = addr
	client := redis.NewClient(&o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func mustLock(t *testing.T, m lock.Mutex) *lock.Lease {
	t.Helper()
	lease, err := m.Lock(t.Context())
	if err != nil {
		t.Fatalf("Lock error = %v", err)
	}
	return lease
}

func mustUnlock(t *testing.T, lease *lock.Lease) {
	t.Helper()
	if err := lease.Unlock(t.Context()); err != nil {
		t.Errorf("Unlock error = %v, want nil", err)
	}
}

// unlockLater unlocks the lease in a while, and before the test ends.
func unlockLater(t *testing.T, lease *lock.Lease) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	done := make(chan error, 1)
	time.AfterFunc(30*time.Millisecond, func() { done <- lease.Unlock(ctx) })
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Errorf("Unlock error = %v, want nil", err)
		}
	})
}

// givesUp has acquire, of l, wait for what is held until it does, and give up.
func givesUp(t *testing.T, l *lock.Locker, acquire func(context.Context) (*lock.Lease, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan error, 1)
	go func() {
		_, err := acquire(ctx)
		got <- err
	}()
	eventually(t, "a waiter", func() bool { return l.Stats().Waiting == 1 })
	cancel()
	wantErr(t, "one who gave up", testkit.Receive(t, "the answer", got), lock.ErrHeld, context.Canceled)
}

func wantErr(t *testing.T, op string, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("%s error = %v, want one wrapping %q", op, err, w)
		}
	}
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, what, testkit.Limit, cond)
}

// gone waits until the key is not in Redis.
func gone(t *testing.T, client redis.Cmdable, key string, d time.Duration) {
	t.Helper()
	testkit.Eventually(t, key+" is gone", d, func() bool {
		n, err := client.Exists(context.Background(), key).Result()
		return err == nil && n == 0
	})
}
