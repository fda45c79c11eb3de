package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/lock"
)

// faulty is a driver over a network that delays and loses, each way.
type faulty struct {
	lock.Driver

	mu  sync.Mutex // guards rng
	rng *rand.Rand
	ttl time.Duration
}

func (d *faulty) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// pass is a way through the network. It reports false when what was sent is
// lost.
func (d *faulty) pass(ctx context.Context) bool {
	longest := d.ttl / 50
	switch d.roll(20) {
	case 0:
		<-ctx.Done()
		return false
	case 1:
		longest = 2 * d.ttl
	}
	timer := time.NewTimer(time.Duration(d.roll(int(longest))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var errSilence = fmt.Errorf("%w: test", transparency.ErrUncertain)

func (d *faulty) Acquire(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, d.ttl)
	defer cancel()
	if !d.pass(ctx) {
		return lock.Grant{}, errSilence
	}
	g, err := d.Driver.Acquire(context.WithoutCancel(ctx), c, queue)
	if !d.pass(ctx) {
		return lock.Grant{}, errSilence // the engine frees it
	}
	return g, err
}

func (d *faulty) Renew(ctx context.Context, claims []lock.Claim) []error {
	silence := make([]error, len(claims))
	for i := range silence {
		silence[i] = errSilence
	}
	if !d.pass(ctx) {
		return silence
	}
	results := d.Driver.Renew(context.WithoutCancel(ctx), claims)
	if !d.pass(ctx) {
		return silence
	}
	return results
}

func (d *faulty) Release(ctx context.Context, c lock.Claim) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, d.ttl)
	defer cancel()
	if !d.pass(ctx) {
		return false, errSilence
	}
	owned, err := d.Driver.Release(context.WithoutCancel(ctx), c)
	if !d.pass(ctx) {
		return false, errSilence
	}
	return owned, err
}

// inMemory has four Lockers contend for a while of fake time. broken, if not
// nil, replaces their store.
func inMemory(t *testing.T, seed uint64, d time.Duration, broken func(lock.Driver) lock.Driver) *chronicle {
	t.Helper()
	const ttl = 300 * time.Millisecond
	c := newChronicle()
	synctest.Test(t, func(t *testing.T) {
		store := lock.NewMemoryDriver()
		var driver lock.Driver = store
		if broken != nil {
			driver = broken(store)
		}
		var shelf lock.Guard
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		var wg sync.WaitGroup
		for client := range 4 {
			rng := rand.New(rand.NewPCG(seed, uint64(client)))
			l := lock.New(&faulty{Driver: driver, rng: rng, ttl: ttl}, &lock.Options{TTL: ttl, Timeout: ttl})
			m := l.Mutex("k", nil)
			h := &holder{
				rng: rand.New(rand.NewPCG(seed, uint64(client)+100)), pace: ttl,
				mutex: func() (string, lock.Mutex) { return "k", m },
				note:  func(e event) { c.add(client, e) },
				write: func(ctx context.Context, _, _ string, fence uint64) error {
					return shelf.Do(ctx, fence, func(context.Context) error { return nil })
				},
			}
			wg.Go(func() {
				h.run(ctx)
				_ = l.Close()
			})
		}
		wg.Wait()

		l := lockOver(t, store)
		// A TTL, the grace of who is gone and was handed it, and a poll.
		free, done := context.WithTimeout(t.Context(), ttl+2*time.Second)
		defer done()
		lease, err := l.Mutex("k", nil).Lock(free)
		if err != nil {
			t.Fatalf("Lock after all is over = %v, want the key to be free soon", err)
		}
		mustUnlock(t, lease)
	})
	return c
}

// LK-29 in memory: histories stay linearizable when requests and replies come
// late or never. In fake time, so that there is much of it.
func TestChaosMemory(t *testing.T) {
	t.Parallel()
	d, seed := chaos(t)
	rounds, start := 20, time.Now()
	counts := map[kind]int{}
	defer func() { t.Log(counts) }()
	for i := 0; i < rounds || os.Getenv(envChaos) != "" && time.Since(start) < d; i++ {
		c := inMemory(t, seed+uint64(i), 10*time.Second, nil)
		if i == 0 && (c.counts[begins] < 20 || c.counts[holds] < 20 || c.counts[accepts] < 20) {
			t.Errorf("only %v; the check shows little", c.counts)
		}
		for k, n := range c.counts {
			counts[k] += n
		}
		if c.check(t, onOneNode, nil); t.Failed() {
			return
		}
	}
}

// What is broken is found.
func TestChaosCatches(t *testing.T) {
	for name, broken := range map[string]func(lock.Driver) lock.Driver{
		"renewals that renew nothing":     func(d lock.Driver) lock.Driver { return &deadRenewal{d} },
		"fences that fall":                func(d lock.Driver) lock.Driver { return &fallingFence{d} },
		"a key that is given to the next": func(d lock.Driver) lock.Driver { return &generous{Driver: d} },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				c := inMemory(t, seed, 10*time.Second, broken)
				if judge(holderModel, c.events["k"], nil) != "" {
					return
				}
			}
			t.Errorf("nothing was found")
		})
	}
}

type deadRenewal struct{ lock.Driver }

func (*deadRenewal) Renew(_ context.Context, claims []lock.Claim) []error {
	return make([]error, len(claims))
}

type fallingFence struct{ lock.Driver }

func (d *fallingFence) Acquire(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
	g, err := d.Driver.Acquire(ctx, c, queue)
	if g.Fence != 0 {
		g.Fence = 1<<63 - g.Fence
	}
	return g, err
}

// generous takes the key from who has it, now and then.
type generous struct {
	lock.Driver
	mu    sync.Mutex // guards what follows
	last  lock.Claim // that was granted
	asked int
}

func (d *generous) Acquire(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked++; d.asked%5 == 0 {
		_, _ = d.Release(ctx, d.last)
	}
	g, err := d.Driver.Acquire(ctx, c, queue)
	if g.Fence != 0 {
		d.last = c
	}
	return g, err
}
