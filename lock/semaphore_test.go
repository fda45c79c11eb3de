package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bsm/redislock"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/lock"
)

func mustAcquire(t *testing.T, s *lock.Semaphore) *lock.Lease {
	t.Helper()
	lease, err := s.Acquire(t.Context())
	if err != nil {
		t.Fatalf("Acquire error = %v", err)
	}
	return lease
}

// A permit takes a round trip to get and one to give back. Its keys are those
// of the page, have a TTL, and are gone afterwards but for the fence.
func TestRedisPermitKeys(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, ctx, p := s.Client(t), t.Context(), s.Prefix()
	var h trips
	client.AddHook(&h)
	a := newLocker(t, client, lock.Options{Prefix: p, Holder: "a"}).Semaphore("a{b}%", 2, nil)
	b := newLocker(t, client, lock.Options{Prefix: p})
	mustUnlock(t, mustAcquire(t, a)) // the scripts are known
	before := h.n.Load()
	first, second := mustAcquire(t, a), mustAcquire(t, a)
	if got := h.n.Load() - before; got != 2 {
		t.Errorf("2 permits took %d round trips", got)
	}
	got := make(chan *lock.Lease, 1)
	go func() {
		next, err := b.Semaphore("a{b}%", 2, nil).Acquire(ctx)
		if err != nil {
			t.Errorf("Acquire error = %v", err)
		}
		got <- next
	}()
	eventually(t, "a waiter", func() bool { return b.Stats().Waiting == 1 })
	for key, most := range map[string]time.Duration{
		p + "{a%7Bb%7D%25}:permits":       lock.DefaultTTL,
		p + "{a%7Bb%7D%25}:permits:fence": time.Hour,
		p + "{a%7Bb%7D%25}:permits:line":  10 * time.Second,
	} {
		eventually(t, key, func() bool { return client.Exists(ctx, key).Val() == 1 })
		if ttl := client.PTTL(ctx, key).Val(); ttl <= most/2 || ttl > most {
			t.Errorf("TTL of %q = %v, want about %v", key, ttl, most)
		}
	}
	mustUnlock(t, first)
	next := testkit.Receive(t, "the next lease", got)
	if next == nil {
		return
	}
	mustUnlock(t, second)
	mustUnlock(t, next)
	if keys := client.Keys(ctx, p+"*").Val(); len(keys) != 1 || !strings.HasSuffix(keys[0], ":permits:fence") {
		t.Errorf("keys after the release: %q, want the fence alone", keys)
	}
}

// LK-19, LK-21 for permits: the scripts and the fence are lost, and keys are
// something else.
func TestRedisPermitTrouble(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, ctx, p := s.Client(t), t.Context(), s.Prefix()
	l := newLocker(t, client, lock.Options{Prefix: p, TTL: 9 * time.Second, Timeout: 10 * time.Second})
	sem := l.Semaphore("k", 2, nil)
	last := uint64(0)
	for range 3 {
		client.ScriptFlush(ctx)
		lease := mustAcquire(t, sem)
		if lease.Fence() <= last {
			t.Errorf("fence %d after %d", lease.Fence(), last)
		}
		last = lease.Fence()
		client.Del(ctx, p+"{k}:permits:fence")
		client.ScriptFlush(ctx)
		mustUnlock(t, lease)
	}
	client.Set(ctx, p+"{k}:permits:fence", uint64(9_007_199_254_740_993), time.Hour) // 2^53 + 1
	lease, mutex := mustAcquire(t, sem), mustLock(t, l.Mutex("k", nil))
	if lease.Fence() != 9_007_199_254_740_994 {
		t.Errorf("fence %d, want the next", lease.Fence())
	}
	client.ScriptFlush(ctx)
	eventually(t, "a permit and a lock are renewed in one pipeline", func() bool { return l.Stats().Renewed >= 2 })
	if n := l.Stats().RenewalsFailed; n != 0 {
		t.Errorf("%d renewals failed", n)
	}
	mustUnlock(t, mutex)
	mustUnlock(t, lease)
	for _, suffix := range []string{"", ":fence"} {
		key := p + "{k}:permits" + suffix
		client.Del(ctx, key)
		client.RPush(ctx, key, "x")
		_, err := sem.Acquire(ctx)
		wantErr(t, "Acquire over a list at "+key, err, transparency.ErrInvalid)
		if client.LLen(ctx, key).Val() != 1 || suffix != "" && client.Exists(ctx, p+"{k}:permits").Val() != 0 {
			t.Errorf("the list at %q was changed, or something was granted", key)
		}
		client.Del(ctx, key)
	}
	client.RPush(ctx, p+"{k}:permits:line", "x")
	one := l.Semaphore("k", 1, nil)
	lease = mustAcquire(t, one)
	givesUp(t, l, one.Acquire)
	mustUnlock(t, lease)
}

// Without leave to give keys a TTL no permit is granted, and no key made.
func TestRedisPermitDenied(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	admin, ctx := s.Client(t), t.Context()
	if err := admin.Do(ctx, "ACL", "SETUSER", "lasting", "on", ">secret-word", "~*", "&*", "+@all", "-pexpire").Err(); err != nil {
		t.Fatal(err)
	}
	opts := s.Options()
	opts.Username, opts.Password = "lasting", "secret-word"
	_, err := newLocker(t, newClient(t, opts, s.Addr()), lock.Options{}).Semaphore("k", 1, nil).Acquire(ctx)
	wantErr(t, "Acquire without PEXPIRE", err, transparency.ErrDenied)
	if n := admin.DBSize(ctx).Val(); n != 0 {
		t.Errorf("%d keys were made", n)
	}
}

// A server that is out of memory renews what is held, permits as well as locks.
func TestRedisOutOfMemory(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	client, ctx := s.Client(t), t.Context()
	l := newLocker(t, client, lock.Options{TTL: 6 * time.Second})
	lease, permit := mustLock(t, l.Mutex("k", nil)), mustAcquire(t, l.Semaphore("k", 2, nil))
	if err := client.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := l.Mutex("another", nil).Lock(ctx)
	wantErr(t, "Lock of a new key", err, transparency.ErrUnavailable)
	eventually(t, "both are renewed", func() bool { s := l.Stats(); return s.Renewed+s.RenewalsFailed >= 2 })
	if s := l.Stats(); s.RenewalsFailed != 0 {
		t.Errorf("Stats = %+v, want no renewal that failed", s)
	}
	mustUnlock(t, lease)
	mustUnlock(t, permit)
}

// What another hand has set is waited for, and not shown to those who wait.
func TestRedisRedislock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	m := newLocker(t, client, lock.Options{Prefix: s.Prefix(), Holder: "ours"}).Mutex("k", nil)
	key := s.Prefix() + "{k}"
	for _, token := range []string{"", strings.Repeat("secret", 10)} {
		theirs, err := redislock.Obtain(ctx, client, key, time.Minute, &redislock.Options{Token: token, Metadata: "secret metadata"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.TryLock(ctx)
		var held *lock.HeldError
		if !errors.As(err, &held) || held.Holder != "" || held.Remaining <= 0 || strings.Contains(fmt.Sprintf("%v %+v", err, held), "secret") {
			t.Errorf("TryLock of what redislock has = %v, want a HeldError that tells nothing of it", err)
		}
		if err := theirs.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	lease := mustLock(t, m)
	if _, err := redislock.Obtain(ctx, client, key, time.Minute, nil); !errors.Is(err, redislock.ErrNotObtained) {
		t.Errorf("redislock's Obtain of what we have = %v, want ErrNotObtained", err)
	}
	mustUnlock(t, lease)
}

// A span is when a permit was held for certain.
type span struct {
	called, from, to time.Time
	fence            uint64
}

// checkPermits has processes acquire, crash and come back, and checks that
// never more permits were held than there are, and that fences rise.
func checkPermits(t *testing.T, connect func() lock.Driver, ttl time.Duration) {
	const processes, rounds, permits = 5, 12, 2
	var mu sync.Mutex
	var spans []span
	var wg sync.WaitGroup
	start := time.Now()
	for range processes {
		d := &deaf{Driver: connect()}
		l := lock.New(d, &lock.Options{TTL: ttl})
		t.Cleanup(func() { _ = l.Close() })
		s := l.Semaphore("k", permits, nil)
		wg.Go(func() {
			for n := 0; n < rounds || lacks(start, func() int { mu.Lock(); defer mu.Unlock(); return len(spans) }, processes*rounds/3); n++ {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(ttl*2))
				called := time.Now()
				lease, err := s.Acquire(ctx)
				cancel()
				if err != nil {
					continue // its time was up, or the machine was busy
				}
				from := time.Now()
				if rand.IntN(4) == 0 { // crash, and come back late
					d.crashed.Store(true)
					<-lease.Context().Done()
					d.crashed.Store(false)
				} else {
					time.Sleep(rand.N(ttl / 10))
				}
				to := time.Now()
				if lease.Unlock(t.Context()) != nil && lease.ValidUntil().Before(to) {
					to = lease.ValidUntil()
				}
				mu.Lock()
				spans = append(spans, span{called, from, to, lease.Fence()})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(spans) < processes {
		t.Errorf("%d permits were granted, which shows little", len(spans))
	}
	for _, a := range spans {
		together := 0
		for _, b := range spans {
			if !b.from.After(a.from) && b.to.After(a.from) {
				together++
			}
			if a.from.Before(b.called) && a.fence >= b.fence {
				t.Errorf("fence %d after %d", b.fence, a.fence)
			}
		}
		if together > permits {
			t.Errorf("%d permits were held at once, want at most %d", together, permits)
		}
	}
}

func TestPermitsMemory(t *testing.T) {
	t.Parallel()
	d := lock.NewMemoryDriver()
	checkPermits(t, func() lock.Driver { return d }, 100*time.Millisecond)
}

// With a server that stands still now and then.
func TestPermitsPauses(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(20*time.Millisecond + rand.N(200*time.Millisecond))
			s.Pause()
			time.Sleep(rand.N(120 * time.Millisecond))
			s.Resume()
		}
	})
	checkPermits(t, func() lock.Driver { return lock.NewRedisDriver(s.Client(t), nil) }, 400*time.Millisecond)
	cancel()
	wg.Wait()
}
