package lock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/faultnet"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/lock"
)

// One Locker has one subscription and few connections, however many wait for
// however many locks.
func TestWaitersConnections(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	const keys, each = 100, 5
	holder := newLocker(t, s.Client(t), lock.Options{TTL: time.Minute})
	for i := range keys {
		mustLock(t, holder.Mutex(fmt.Sprint(i), nil))
	}
	opts := s.Options()
	opts.ClientName, opts.PoolSize = "waiter", 500
	l := newLocker(t, newClient(t, opts, s.Addr()), lock.Options{TTL: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	for i := range keys * each {
		go func() {
			_, err := l.Mutex(fmt.Sprint(i%keys), nil).Lock(ctx)
			done <- err
		}()
	}
	admin := s.Client(t)
	subscribed, normal := 0, 0
	eventually(t, "all wait, and hear", func() bool {
		subscribed, normal = 0, 0
		for line := range strings.Lines(admin.ClientList(t.Context()).Val()) {
			switch {
			case !strings.Contains(line, "name=waiter "):
			case strings.Contains(line, " sub=1 "):
				subscribed++
			default:
				normal++
			}
		}
		return l.Stats().Waiting == keys*each && l.Stats().Attempts >= 2*keys && subscribed > 0
	})
	if subscribed != 1 || normal > 64 {
		t.Errorf("%d subscriptions and %d other connections for %d waiters, want 1 and at most 64", subscribed, normal, keys*each)
	}
	if n := l.Stats().Attempts; n > 6*keys {
		t.Errorf("%d attempts, want a few for each of %d keys", n, keys)
	}
	cancel()
	for range keys * each {
		wantErr(t, "Lock", <-done, lock.ErrHeld, context.Canceled)
	}
}

// elsewhere is a client whose subscriptions go another way.
type elsewhere struct {
	*redis.Client
	sub *redis.Client
}

func (c elsewhere) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return c.sub.Subscribe(ctx, channels...)
}

// A subscription that went silent, without an error, costs each wait a poll,
// and is replaced.
func TestFaultSilentSubscription(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	proxy := faultnet.New(t, s.Addr())
	direct := s.Client(t)
	a := newLocker(t, direct, lock.Options{})
	b := newLocker(t, elsewhere{direct, newClient(t, s.Options(), proxy.Addr())}, lock.Options{})
	handOver := func() time.Duration {
		lease := mustLock(t, a.Mutex("k", nil))
		got := make(chan *lock.Lease, 1)
		go func() {
			next, err := b.Mutex("k", nil).Lock(t.Context())
			if err != nil {
				t.Errorf("Lock error = %v", err)
			}
			got <- next
		}()
		eventually(t, "a waiter", func() bool { return b.Stats().Waiting == 1 })
		start := time.Now()
		mustUnlock(t, lease)
		next := testkit.Receive(t, "the next lease", got)
		took := time.Since(start)
		if next != nil {
			mustUnlock(t, next)
		}
		return took
	}
	handOver() // it hears
	subscriptions := func() int {
		n := 0
		for _, v := range direct.PubSubNumSub(t.Context(), direct.PubSubChannels(t.Context(), "lock:wake:*").Val()...).Val() {
			n += int(v)
		}
		return n
	}
	eventually(t, "it hears", func() bool { return subscriptions() == 1 })
	proxy.Drop(faultnet.Both, true)
	if took := handOver(); took > 5*time.Second { // one second, on a machine at rest
		t.Errorf("handed over in %v without wake-ups, want the second of a poll", took)
	}
	proxy.Drop(faultnet.Both, false)
	proxy.Reset()
	eventually(t, "it hears again", func() bool { return subscriptions() == 1 })
}

// A waiter for a permit whose process died is passed over, as one for a lock is.
func TestRedisDeadPermitWaiter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	opts := lock.Options{Prefix: s.Prefix()}
	a, b := newLocker(t, client, opts), newLocker(t, client, opts)
	lease, err := a.Semaphore("k", 1, nil).Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		dead := lock.Claim{Key: "k", Token: fmt.Sprintf("deadowner%d______%024d", i, i), TTL: time.Minute, Permits: 1}
		if _, err := lock.NewRedisDriver(client, &opts).Acquire(ctx, dead, true); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan *lock.Lease, 1)
	go func() {
		next, err := b.Semaphore("k", 1, nil).Acquire(ctx)
		if err != nil {
			t.Errorf("Acquire error = %v", err)
		}
		got <- next
	}()
	eventually(t, "a waiter that hears", func() bool { return b.Stats().Attempts >= 2 })
	mustUnlock(t, lease)
	next := testkit.Receive(t, "the next lease", got)
	if next == nil {
		return
	}
	mustUnlock(t, next)
	for key, most := range map[string]time.Duration{"{k}:permits:fence": time.Hour} {
		if ttl := client.PTTL(ctx, s.Prefix()+key).Val(); ttl <= most/2 || ttl > most {
			t.Errorf("TTL of %q = %v, want about %v", key, ttl, most)
		}
	}
	if keys := client.Keys(ctx, s.Prefix()+"*").Val(); len(keys) != 1 {
		t.Errorf("keys after the release: %q, want the fence alone", keys)
	}
}

// Ten thousand leases are renewed in few round trips.
func TestRedisManyRenewals(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	client := s.Client(t)
	var h trips
	client.AddHook(&h)
	const n = 10_000
	l := newLocker(t, client, lock.Options{TTL: 15 * time.Second, Timeout: 4 * time.Second})
	ctx := context.Background()
	leases := make([]*lock.Lease, n)
	for i := range leases {
		var err error
		if leases[i], err = l.Mutex(fmt.Sprint(i), nil).Lock(ctx); err != nil {
			t.Fatal(err)
		}
	}
	before, renewed := h.n.Load(), l.Stats().Renewed
	testkit.Eventually(t, "all are renewed", 2*testkit.Limit, func() bool { return l.Stats().Renewed-renewed >= n })
	stats := l.Stats()
	t.Logf("%d renewals in %d round trips, %+v", stats.Renewed-renewed, h.n.Load()-before, stats)
	if sent := h.n.Load() - before; sent > 60 {
		t.Errorf("%d round trips for %d renewals, want a few pipelines", sent, n)
	}
	if stats.Lost != 0 {
		t.Errorf("%d leases were lost", stats.Lost)
	}
	s.Kill() // nobody waits for ten thousand releases
}
