package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sleepy is a driver under which something happens at each renewal.
type sleepy struct {
	Driver
	renewing func()
}

func (s *sleepy) Renew(ctx context.Context, claims []Claim) []error {
	s.renewing()
	return s.Driver.Renew(ctx, claims)
}

// One goroutine keeps all leases, and renews them together.
func TestManyLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exchanges := 0
		l := New(&sleepy{NewMemoryDriver(), func() { exchanges++ }}, nil)
		defer l.Close()
		before := runtime.NumGoroutine()
		const n = 10_000
		for i := range n {
			if _, err := l.Mutex(fmt.Sprint(i), nil).Lock(t.Context()); err != nil {
				t.Fatalf("Lock error = %v", err)
			}
			if i%1000 == 999 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		if more := runtime.NumGoroutine() - before; more > 2 {
			t.Errorf("%d goroutines for %d leases", more, n)
		}
		time.Sleep(10 * DefaultTTL)
		if s := l.Stats(); s.Held != n || s.Lost != 0 || s.RenewalsFailed != 0 {
			t.Errorf("Stats = %+v, want all held", s)
		}
		if exchanges > 10*4*2 {
			t.Errorf("%d exchanges in ten TTLs, want them pipelined", exchanges)
		}
	})
}

// A store that does not answer has four renewals to answer at most.
func TestFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var now, most int
		d := &sleepy{NewMemoryDriver(), func() {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Minute)
			mu.Lock()
			now--
			mu.Unlock()
		}}
		l := New(d, nil)
		defer l.Close()
		for i := range 100 {
			if _, err := l.Mutex(fmt.Sprint(i), nil).Lock(t.Context()); err != nil {
				t.Fatalf("Lock error = %v", err)
			}
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(DefaultTTL)
		mu.Lock()
		defer mu.Unlock()
		if most != maxFlights {
			t.Errorf("%d renewals at once, want %d", most, maxFlights)
		}
	})
}

// Who waits for long is woken at once, although others have come and gone.
func TestLongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemoryDriver()
		a, b := New(store, nil), New(store, nil)
		defer a.Close()
		defer b.Close()
		lease, err := a.Mutex("k", nil).Lock(t.Context())
		if err != nil {
			t.Fatalf("Lock error = %v", err)
		}
		other, err := a.Mutex("other", nil).Lock(t.Context())
		if err != nil {
			t.Fatalf("Lock error = %v", err)
		}
		brief := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, _ = b.Mutex("other", nil).Lock(ctx)
		}
		brief()
		time.Sleep(idleEar / 2)
		got := make(chan time.Time)
		go func() {
			next, err := b.Mutex("k", nil).Lock(t.Context())
			if err != nil {
				t.Errorf("Lock error = %v", err)
			} else {
				defer next.Unlock(t.Context())
			}
			got <- time.Now()
		}()
		time.Sleep(idleEar / 4)
		brief()
		time.Sleep(2*idleEar + 500*time.Millisecond)
		start := time.Now()
		_ = lease.Unlock(t.Context())
		if took := (<-got).Sub(start); took != 0 {
			t.Errorf("handed over in %v, want at once", took)
		}
		_ = other.Unlock(t.Context())
	})
}

// A locker without leases, waiters and leftovers runs nothing.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemoryDriver()
		a, b := New(store, nil), New(store, nil)
		before := runtime.NumGoroutine()
		lease, err := a.Mutex("k", nil).Lock(t.Context())
		if err != nil {
			t.Fatalf("Lock error = %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Mutex("k", nil).Lock(ctx); err == nil {
			t.Fatal("Lock of a held lock = nil")
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatalf("Unlock error = %v", err)
		}
		time.Sleep(DefaultTTL + idleEar)
		synctest.Wait()
		if now := runtime.NumGoroutine(); now > before {
			t.Errorf("%d goroutines are left", now-before)
		}
	})
}

// LK-30: keys that were used once leave no memory behind, in the store and in
// the Locker, whether they were unlocked or left to expire.
func TestMemoryReturns(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	store := NewMemoryDriver()
	l := New(store, nil)
	defer l.Close()
	before := heap()
	for i := range 300_000 {
		lease, err := l.Mutex(fmt.Sprint("key", i), nil).Lock(t.Context())
		if err != nil {
			t.Fatalf("Lock error = %v", err)
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatalf("Unlock error = %v", err)
		}
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("%d KiB are left of 3·10^5 keys used one after another", (after-before)>>10)
	}
	func() {
		leases := make([]*Lease, 100_000)
		for i := range leases {
			leases[i], _ = l.Mutex(fmt.Sprint("key", i), nil).Lock(t.Context())
		}
		for _, lease := range leases {
			_ = lease.Unlock(t.Context())
		}
	}()
	if after := heap(); after > before+1<<20 {
		t.Errorf("%d KiB are left of 10^5 keys used at once", (after-before)>>10)
	}
	for i := range 200_000 {
		_, _ = store.Acquire(t.Context(), Claim{Key: fmt.Sprint("key", i), Token: "t", TTL: 1}, false)
	}
	if n := len(store.keys.m); n > 2*minSweep {
		t.Errorf("%d keys that expired are kept", n)
	}
}

// A waiter whose Locker has gone is passed over.
func TestMemoryDeadWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemoryDriver()
		a, b := New(store, nil), New(store, nil)
		defer a.Close()
		defer b.Close()
		lease, err := a.Mutex("k", nil).Lock(t.Context())
		if err != nil {
			t.Fatalf("Lock error = %v", err)
		}
		_, _ = store.Acquire(t.Context(), Claim{Key: "k", Token: newToken(newOwner()), TTL: time.Minute}, true)
		got := make(chan time.Time)
		go func() {
			if _, err := b.Mutex("k", nil).Lock(t.Context()); err != nil {
				t.Errorf("Lock error = %v", err)
			}
			got <- time.Now()
		}()
		synctest.Wait()
		start := time.Now()
		_ = lease.Unlock(t.Context())
		if took := (<-got).Sub(start); took != 0 {
			t.Errorf("handed over in %v, want at once", took)
		}
	})
}

// What is told to the logger names the key, and is told outside of the lock.
func TestLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var text bytes.Buffer
		var l *Locker
		logger := slog.New(slog.NewTextHandler(writer(func(p []byte) {
			_ = l.Stats() // would wait for ever under l.mu
			mu.Lock()
			defer mu.Unlock()
			text.Write(p)
		}), nil))
		store := NewMemoryDriver()
		l = New(store, &Options{Logger: logger})
		defer l.Close()
		lease, err := l.Mutex("stock:7", nil).Lock(t.Context())
		if err != nil {
			t.Fatalf("Lock error = %v", err)
		}
		_, _ = store.Release(t.Context(), lease.claim)
		<-lease.Context().Done()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if got := text.String(); !strings.Contains(got, "lease lost") || !strings.Contains(got, "stock:7") || strings.Contains(got, lease.claim.Token) {
			t.Errorf("log = %q, want the loss and the key, and no token", got)
		}
	})
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// A Locker, its mutexes and its contexts can be printed while they are used.
func TestPrint(t *testing.T) {
	l := NewMemory(nil)
	defer l.Close()
	m := l.Mutex("k", nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 100 {
			_ = Do(t.Context(), m, func(ctx context.Context, _ uint64) error {
				_ = fmt.Sprintf("%v %s", ctx, ctx)
				return nil
			})
		}
	})
	for range 100 {
		if text := fmt.Sprintf("%v %+v %s %d %v", l, m, l, l, l.driver); strings.Contains(text, l.owner) {
			t.Fatalf("printed: %s", text)
		}
	}
	wg.Wait()
}

// A tenth of the TTL and at most a second, but a millisecond where there is
// room for it.
func TestMargin(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		time.Millisecond:       time.Millisecond / 2,
		5 * time.Millisecond:   time.Millisecond,
		100 * time.Millisecond: 10 * time.Millisecond,
		5 * time.Second:        time.Second / 2,
		time.Minute:            time.Second,
		MaxTTL:                 time.Second,
	} {
		if got := margin(ttl); got != want {
			t.Errorf("margin(%v) = %v, want %v", ttl, got, want)
		}
	}
}

// LK-17: a waiter whose context ends in the moment that its turn comes passes
// the turn on.
func TestCancelAtTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewMemory(nil)
		defer l.Close()
		for i := range 500 {
			m := l.Mutex(fmt.Sprint(i), nil)
			lease, err := m.Lock(t.Context())
			if err != nil {
				t.Fatalf("Lock error = %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for _, ctx := range []context.Context{ctx, t.Context()} {
				wg.Go(func() {
					if lease, err := m.Lock(ctx); err == nil {
						_ = lease.Unlock(t.Context())
					} else if !errors.Is(err, context.Canceled) {
						t.Errorf("Lock error = %v", err)
					}
				})
				synctest.Wait()
			}
			// The first in line wakes by its context, and then finds its turn come.
			l.mu.Lock()
			cancel()
			runtime.Gosched()
			l.leave(lease)
			l.mu.Unlock()
			_ = lease.Unlock(t.Context())
			wg.Wait()
		}
	})
}

func TestHeap(t *testing.T) {
	var h heap[*undoing]
	base := time.Now()
	var in []*undoing
	for range 2000 {
		switch k := rand.IntN(4); {
		case k < 2 || len(in) == 0:
			u := &undoing{at: base.Add(rand.N(time.Hour))}
			h.push(u)
			in = append(in, u)
		case k == 2:
			u := in[rand.IntN(len(in))]
			u.at = base.Add(rand.N(time.Hour))
			h.move(u)
		default:
			i := rand.IntN(len(in))
			h.take(in[i])
			if in[i].index != -1 {
				t.Fatalf("index of what was taken = %d, want -1", in[i].index)
			}
			in = append(in[:i], in[i+1:]...)
		}
		for i, u := range h {
			if u.index != i || i > 0 && u.before(h[(i-1)/2]) {
				t.Fatalf("out of order at %d", i)
			}
		}
		if len(h) != len(in) {
			t.Fatalf("%d in the heap, want %d", len(h), len(in))
		}
	}
}

func FuzzParseGrant(f *testing.F) {
	f.Add("1796061760749320")
	f.Add("0")
	f.Add("-1")
	f.Add("1.7e+15")
	f.Fuzz(func(t *testing.T, reply string) {
		g, err := parseGrant(reply, nil)
		if (err == nil) != (g.Fence != 0) || g.Remaining != 0 {
			t.Errorf("parseGrant(%q) = %+v, %v", reply, g, err)
		}
	})
}

func FuzzParseRefusal(f *testing.F) {
	f.Add(int64(1500), " by worker-3")
	f.Add(int64(-1), "by hand")
	f.Add(int64(-2), "")
	f.Add(int64(50), " next")
	f.Fuzz(func(t *testing.T, left int64, text string) {
		g, err := parseGrant([]any{left, text}, nil)
		if err != nil || g.Fence != 0 || g.Remaining < 0 || g.Remaining > MaxTTL || len(g.Holder) > maxHolder {
			t.Errorf("parseGrant(%d, %q) = %+v, %v", left, text, g, err)
		}
		if g.Holder != "" && " by "+g.Holder != text || g.Passing != (text == " next") {
			t.Errorf("parseGrant(%d, %q) = %+v", left, text, g)
		}
		if _, err := parseGrant([]any{left}, nil); err == nil {
			t.Errorf("half a reply was accepted")
		}
	})
}
