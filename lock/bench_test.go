package lock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/bsm/redislock"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/lock"
)

// The comparisons with other locks are in internal/bench; these are for who
// works on this package.

func benchCycle(ctx context.Context, b *testing.B, m lock.Mutex) {
	b.ReportAllocs()
	for b.Loop() {
		lease, err := m.Lock(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCycleMemory(b *testing.B) {
	l := lock.NewMemory(nil)
	defer l.Close()
	benchCycle(b.Context(), b, l.Mutex("k", nil))
}

func BenchmarkCycleRedis(b *testing.B) {
	s := redistest.StartServer(b)
	l := lock.NewRedis(s.Client(b), nil)
	defer l.Close()
	b.Run("context that can end", func(b *testing.B) { benchCycle(b.Context(), b, l.Mutex("k", nil)) })
	b.Run("context that cannot", func(b *testing.B) { benchCycle(context.Background(), b, l.Mutex("k", nil)) })
}

func BenchmarkCycleRedislock(b *testing.B) {
	client := redislock.New(redistest.StartServer(b).Client(b))
	b.ReportAllocs()
	for b.Loop() {
		l, err := client.Obtain(b.Context(), "k", 30*time.Second, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// From before an Unlock until another process has the lock.
func BenchmarkHandOver(b *testing.B) {
	s := redistest.StartServer(b)
	here, elsewhere := lock.NewRedis(s.Client(b), nil), lock.NewRedis(s.Client(b), nil)
	defer here.Close()
	defer elsewhere.Close()
	var took []time.Duration
	got := make(chan *lock.Lease)
	for b.Loop() {
		lease, err := here.Mutex("k", nil).Lock(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			next, _ := elsewhere.Mutex("k", nil).Lock(b.Context())
			got <- next
		}()
		for elsewhere.Stats().Waiting == 0 {
			time.Sleep(50 * time.Microsecond)
		}
		time.Sleep(200 * time.Microsecond) // it stands in line
		start := time.Now()
		if err := lease.Unlock(b.Context()); err != nil {
			b.Fatal(err)
		}
		next := testkit.Receive(b, "the next lease", got)
		took = append(took, time.Since(start))
		if next == nil || next.Unlock(b.Context()) != nil {
			b.Fatal("not handed over")
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
}
