package lock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/lock"
)

// trips counts round trips.
type trips struct{ n atomic.Int64 }

func (h *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.n.Add(1)
		return next(ctx, cmd)
	}
}

func (h *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.n.Add(1)
		return next(ctx, cmds)
	}
}

func TestRedisRoundTrips(t *testing.T) {
	s := redistest.Start(t)
	client := s.Client(t)
	var h trips
	client.AddHook(&h)
	m := newLocker(t, client, lock.Options{Prefix: s.Prefix()}).Mutex("k", nil)
	mustUnlock(t, mustLock(t, m)) // the scripts are known
	before := h.n.Load()
	for range 10 {
		mustUnlock(t, mustLock(t, m))
	}
	if got := h.n.Load() - before; got != 20 {
		t.Errorf("10 cycles took %d round trips, want 20", got)
	}
}

// Every key is documented, in one slot, and has a TTL; a lock that was
// released leaves its fence and nothing else.
func TestRedisKeys(t *testing.T) {
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	p := s.Prefix()
	a := newLocker(t, client, lock.Options{Prefix: p})
	b := newLocker(t, client, lock.Options{Prefix: p})
	lease := mustLock(t, a.Mutex("a{b}%", nil))
	got := make(chan *lock.Lease)
	go func() {
		next, _ := b.Mutex("a{b}%", nil).Lock(ctx)
		got <- next
	}()
	eventually(t, "a waiter", func() bool { return b.Stats().Waiting == 1 })
	for key, most := range map[string]time.Duration{
		p + "{a%7Bb%7D%25}":       lock.DefaultTTL,
		p + "{a%7Bb%7D%25}:fence": time.Hour,
		p + "{a%7Bb%7D%25}:line":  10 * time.Second,
	} {
		eventually(t, key, func() bool { return client.Exists(ctx, key).Val() == 1 })
		if ttl := client.PTTL(ctx, key).Val(); ttl <= most/2 || ttl > most {
			t.Errorf("TTL of %q = %v, want about %v", key, ttl, most)
		}
	}
	mustUnlock(t, lease)
	next := testkit.Receive(t, "the next lease", got)
	if next == nil {
		t.Fatal("the waiter was not granted the lock")
	}
	mustUnlock(t, next)
	if keys := client.Keys(ctx, p+"*").Val(); len(keys) != 1 || !strings.HasSuffix(keys[0], ":fence") {
		t.Errorf("keys after the release: %q, want the fence alone", keys)
	}
}

// LK-19: the scripts are forgotten at any moment, also between the commands of
// a pipeline's neighbours.
func TestRedisScriptFlush(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	l := newLocker(t, client, lock.Options{Prefix: s.Prefix(), TTL: 9 * time.Second, Timeout: 10 * time.Second})
	flush := func() {
		t.Helper()
		if err := client.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		flush()
		lease := mustLock(t, l.Mutex("k", nil))
		flush()
		if i > 0 {
			mustUnlock(t, lease)
			continue
		}
		var more []*lock.Lease
		for j := range 5 {
			more = append(more, mustLock(t, l.Mutex(fmt.Sprint("k", j), nil)))
		}
		flush()
		eventually(t, "all are renewed", func() bool { return l.Stats().Renewed >= 6 })
		for _, lease := range append(more, lease) {
			mustUnlock(t, lease)
		}
		if n := l.Stats().RenewalsFailed; n != 0 {
			t.Errorf("%d renewals failed", n)
		}
	}
	// One of the two scripts is known and the other is not.
	flush()
	obtained := newLocker(t, client, lock.Options{Prefix: s.Prefix()})
	mustUnlock(t, mustLock(t, obtained.Mutex("k", nil)))
}

// LK-21: fences rise whatever became of the last one, and exactly.
func TestRedisFences(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	l := newLocker(t, client, lock.Options{Prefix: s.Prefix()})
	fenceKey := s.Prefix() + "{k}:fence"
	fence := func() uint64 {
		t.Helper()
		lease := mustLock(t, l.Mutex("k", nil))
		defer mustUnlock(t, lease)
		return lease.Fence()
	}
	first := fence()
	if first < 1e15 {
		t.Fatalf("fence %d, want a time in µs", first)
	}
	client.Del(ctx, fenceKey)
	if second := fence(); second <= first {
		t.Errorf("fence %d after the counter was lost, want more than %d", second, first)
	}
	for _, last := range []uint64{first * 2, 9_007_199_254_740_993, 1<<63 - 10} { // 2^53 + 1
		client.Set(ctx, fenceKey, last, time.Hour) // the clock was set back
		for i := range uint64(3) {
			if got := fence(); got != last+1+i {
				t.Errorf("fence %d, want %d", got, last+1+i)
			}
		}
	}
	if ttl := client.PTTL(ctx, fenceKey).Val(); ttl <= 0 {
		t.Errorf("TTL of the fence = %v, want one", ttl)
	}
	client.Set(ctx, fenceKey, "one", time.Hour)
	lease, err := l.Mutex("k", nil).TryLock(ctx)
	if err == nil {
		t.Logf("a fence that is no number: %d", lease.Fence())
		mustUnlock(t, lease)
	}
	gone(t, client, s.Prefix()+"{k}", testkit.Limit)
}

// Early in a second the microseconds have fewer digits, and the fence has not.
func TestRedisFenceEarlyInSecond(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	m := newLocker(t, client, lock.Options{Prefix: s.Prefix()}).Mutex("k", nil)
	early := func() bool { return client.Time(ctx).Val().Nanosecond() < 90_000_000 }
	for tries := 0; tries < 5; {
		now := client.Time(ctx).Val()
		if !early() {
			time.Sleep(time.Second - time.Duration(now.Nanosecond()))
			continue
		}
		tries++
		client.Del(ctx, s.Prefix()+"{k}:fence")
		lease := mustLock(t, m)
		mustUnlock(t, lease)
		if !early() {
			continue // a busy machine
		}
		if lo := uint64(now.UnixMicro()); lease.Fence() < lo {
			t.Errorf("fence %d, want the time in µs, %d or later", lease.Fence(), lo)
		}
		return
	}
}

// Keys that are something else are refused, and left as they were.
func TestRedisWrongType(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	l := newLocker(t, client, lock.Options{Prefix: s.Prefix()})
	for _, suffix := range []string{"", ":fence"} {
		key := s.Prefix() + "{k}" + suffix
		client.RPush(ctx, key, "x")
		_, err := l.Mutex("k", nil).Lock(ctx)
		wantErr(t, "Lock over a list at "+key, err, transparency.ErrInvalid)
		if suffix != "" {
			gone(t, client, s.Prefix()+"{k}", testkit.Limit)
		}
		if client.LLen(ctx, key).Val() != 1 {
			t.Errorf("the list at %q was changed", key)
		}
		client.Del(ctx, key)
	}
	// A line that is something else costs the waiters their order, not the lock.
	client.RPush(ctx, s.Prefix()+"{k}:line", "x")
	lease := mustLock(t, l.Mutex("k", nil))
	b := newLocker(t, client, lock.Options{Prefix: s.Prefix()})
	givesUp(t, b, b.Mutex("k", nil).Lock)
	mustUnlock(t, lease)
	if keys := client.Exists(ctx, s.Prefix()+"{k}").Val(); keys != 0 {
		t.Errorf("the lock is still there")
	}
}

func TestRedisDenied(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	admin, ctx := s.Client(t), t.Context()
	if err := admin.Do(ctx, "ACL", "SETUSER", "weak", "on", ">secret-word", "~*", "&*", "+@all", "-evalsha", "-eval").Err(); err != nil {
		t.Fatal(err)
	}
	opts := s.Options()
	opts.Username, opts.Password = "weak", "secret-word"
	_, err := newLocker(t, newClient(t, opts, s.Addr()), lock.Options{}).Mutex("k", nil).Lock(ctx)
	wantErr(t, "Lock without permission", err, transparency.ErrDenied)
	opts.Password = "wrong-word"
	_, err = newLocker(t, newClient(t, opts, s.Addr()), lock.Options{}).Mutex("k", nil).Lock(ctx)
	wantErr(t, "Lock with a wrong password", err, transparency.ErrDenied)
	for _, secret := range []string{"secret-word", "wrong-word", "weak"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("Lock error = %q, and that holds %q", err, secret)
		}
	}
	// Scripts that may not look who holds the lock, so that it is obtained and
	// cannot be given back: that it is taken is what matters, and said alone.
	if err := admin.Do(ctx, "ACL", "SETUSER", "blind", "on", ">secret-word", "~*", "&*", "+@all", "-get").Err(); err != nil {
		t.Fatal(err)
	}
	opts.Username, opts.Password = "blind", "secret-word"
	_, err = newLocker(t, newClient(t, opts, s.Addr()), lock.Options{}).Mutex("taken", &lock.MutexOptions{TTL: time.Second}).Lock(ctx)
	wantErr(t, "Lock that cannot be undone", err, transparency.ErrUncertain)
	if errors.Is(err, transparency.ErrDenied) {
		t.Errorf("Lock error = %v, want one class", err)
	}
	// Without leave to give the line a TTL there is no line.
	if err := admin.Do(ctx, "ACL", "SETUSER", "lasting", "on", ">secret-word", "~*", "&*", "+@all", "-pexpire").Err(); err != nil {
		t.Fatal(err)
	}
	opts.Username, opts.Password = "lasting", "secret-word"
	holder := mustLock(t, newLocker(t, s.Client(t), lock.Options{}).Mutex("lined", nil))
	_, err = newLocker(t, newClient(t, opts, s.Addr()), lock.Options{}).Mutex("lined", nil).Lock(ctx)
	wantErr(t, "Lock without PEXPIRE", err, transparency.ErrDenied)
	for _, key := range admin.Keys(ctx, "*").Val() {
		if left := admin.PTTL(ctx, key).Val(); left <= 0 {
			t.Errorf("%s has no time to live", key)
		}
	}
	mustUnlock(t, holder)
	// Without leave to publish the lock works, and waiters poll.
	if err := admin.Do(ctx, "ACL", "SETUSER", "mute", "on", ">secret-word", "~*", "resetchannels", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	opts.Username, opts.Password = "mute", "secret-word"
	mute := newClient(t, opts, s.Addr())
	a, b := newLocker(t, mute, lock.Options{}), newLocker(t, mute, lock.Options{})
	lease := mustLock(t, a.Mutex("k", nil))
	unlockLater(t, lease)
	start := time.Now()
	mustUnlock(t, mustLock(t, b.Mutex("k", nil)))
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("granted after %v", took)
	}
}

func TestRedisUnreachable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	redistest.Silence()
	client := redis.NewClient(&redis.Options{Addr: ln.Addr().String(), DialerRetries: 1}) // with go-redis' own retries
	t.Cleanup(func() { _ = client.Close() })
	_, err = newLocker(t, client, lock.Options{}).Mutex("k", nil).Lock(t.Context())
	if !transparency.Retryable(err) {
		t.Errorf("Lock with nobody there = %v, want a retryable error", err)
	}
}

func TestRedisNilClient(t *testing.T) {
	var typed *redis.Client
	for _, client := range []lock.RedisClient{nil, typed} {
		_, err := lock.NewRedis(client, nil).Mutex("k", nil).TryLock(t.Context())
		wantErr(t, "TryLock with a nil client", err, transparency.ErrInvalid)
	}
	d := lock.NewRedisDriver(nil, nil)
	wantErr(t, "Renew", d.Renew(t.Context(), make([]lock.Claim, 1))[0], transparency.ErrInvalid)
	_, err := d.Release(t.Context(), lock.Claim{Key: "k", Token: "t"})
	wantErr(t, "Release", err, transparency.ErrInvalid)
	wantErr(t, "Listen", d.Listen(t.Context(), "o", nil), transparency.ErrInvalid)
}

// A lock that somebody set by hand, without a TTL or with an absurd one, is
// waited for and not broken.
func TestRedisForeignKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	l := newLocker(t, client, lock.Options{Prefix: s.Prefix()})
	for key, ttl := range map[string]string{"k": "", "long": "10000000000000"} { // ms, and more than a Duration of them
		args := []any{"SET", s.Prefix() + "{" + key + "}", "by hand"}
		if ttl != "" {
			if s.Kind() == redistest.KindMini {
				continue // where such a key expires at once
			}
			args = append(args, "PX", ttl)
		}
		if err := client.Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
		before := l.Stats().Attempts
		_, err := l.Mutex(key, nil).TryLock(ctx)
		var held *lock.HeldError
		if !errors.As(err, &held) || held.Remaining != lock.MaxTTL {
			t.Errorf("TryLock(%q) = %v, want a HeldError of MaxTTL", key, err)
		}
		start := time.Now()
		givesUp(t, l, l.Mutex(key, nil).Lock)
		if n, took := l.Stats().Attempts-before, time.Since(start); n > 4+uint64(took/time.Second) {
			t.Errorf("%d attempts for %q in %v", n, key, took)
		}
	}
}

// A waiter whose process died is passed over at once on a single server, and
// after a grace and a poll where PUBLISH does not count all who hear.
func TestRedisDeadWaiter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	opts := lock.Options{Prefix: s.Prefix()}
	for name, c := range map[string]struct {
		client lock.RedisClient
		passed bool // over, before the release is answered
	}{
		"single":  {client, true},
		"unknown": {struct{ lock.RedisClient }{client}, false},
	} {
		a, b := newLocker(t, c.client, opts), newLocker(t, c.client, opts)
		lease := mustLock(t, a.Mutex("k", nil))
		for i := range 3 {
			dead := lock.Claim{Key: "k", Token: fmt.Sprintf("deadowner%d______%024d", i, i), TTL: time.Minute}
			if _, err := lock.NewRedisDriver(c.client, &opts).Acquire(ctx, dead, true); err != nil {
				t.Fatal(err)
			}
		}
		got := make(chan *lock.Lease)
		go func() {
			next, err := b.Mutex("k", nil).Lock(ctx)
			if err != nil {
				t.Errorf("Lock error = %v", err)
			}
			got <- next
		}()
		eventually(t, "a waiter that hears", func() bool { return b.Stats().Attempts >= 2 })
		mustUnlock(t, lease)
		if c.passed && strings.HasPrefix(client.Get(ctx, s.Prefix()+"{k}").Val(), "deadowner") {
			t.Errorf("%s: the lock was handed to one who has died", name)
		}
		next := testkit.Receive(t, "the next lease", got)
		if next == nil {
			return
		}
		mustUnlock(t, next)
		client.Del(ctx, s.Prefix()+"{k}:line")
	}
}

// A Ring works, by polling if it must.
func TestRedisRing(t *testing.T) {
	t.Parallel()
	one, two := redistest.StartMini(t), redistest.StartMini(t)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs:           map[string]string{"one": one.Addr(), "two": two.Addr()},
		MaxRetries:      -1,
		DisableIdentity: true,
	})
	t.Cleanup(func() { _ = ring.Close() })
	a, b := newLocker(t, ring, lock.Options{}), newLocker(t, ring, lock.Options{})
	for i := range 5 {
		key := fmt.Sprint("k", i)
		lease := mustLock(t, a.Mutex(key, nil))
		_, err := b.Mutex(key, nil).TryLock(t.Context())
		wantErr(t, "TryLock", err, lock.ErrHeld)
		unlockLater(t, lease)
		mustUnlock(t, mustLock(t, b.Mutex(key, nil)))
	}
}
