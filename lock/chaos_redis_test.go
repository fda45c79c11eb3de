//go:build unix

package lock_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/faultnet"
	"github.com/go-transparency/transparency/internal/redistest"
)

const (
	chaosPace    = 300 * time.Millisecond // and TTL, on one node
	failoverTTL  = 2 * time.Second        // longer than a failover takes, mostly
	chaosHolders = 4
)

// A crowd is the holders of one run, and what they have seen.
type crowd struct {
	*chronicle
	t       *testing.T
	orders  []orders   // of each, but for the seed
	mu      sync.Mutex // guards what follows
	rng     *rand.Rand
	clients int
	now     []*process
}

func startCrowd(t *testing.T, seed uint64, all []orders) *crowd {
	c := &crowd{chronicle: newChronicle(), t: t, orders: all, rng: rand.New(rand.NewPCG(seed, 1)), now: make([]*process, len(all))}
	for i := range all {
		c.start(i)
	}
	t.Cleanup(func() {
		for _, p := range c.now {
			p.kill(c.chronicle) // nothing, when it has ended
		}
	})
	return c
}

// start starts the i-th holder, and returns it.
func (c *crowd) start(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.orders[i]
	o.Seed = c.rng.Uint64()
	c.clients++
	c.now[i] = startHolder(c.t, o, c.clients, c.chronicle)
}

// trouble stops holders for a while, and kills some, until ctx ends.
func (c *crowd) trouble(ctx context.Context, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	for pause(ctx, rng, chaosPace) {
		i := rng.IntN(len(c.now))
		p := c.now[i]
		if rng.IntN(3) == 0 {
			p.kill(c.chronicle)
			c.start(i)
			continue
		}
		_ = p.cmd.Process.Signal(syscall.SIGSTOP)
		pause(ctx, rng, 2*chaosPace)
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
	}
}

// finish has all holders end by themselves.
func (c *crowd) finish() {
	for _, p := range c.now {
		p.finish(c.chronicle)
	}
}

// pause waits for up to d, and reports whether ctx has not ended.
func pause(ctx context.Context, rng *rand.Rand, d time.Duration) bool {
	timer := time.NewTimer(time.Duration(rng.Int64N(int64(d)) + 1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// disturb makes a network bad in one way after another, until ctx ends, and
// then good again.
func disturb(ctx context.Context, rng *rand.Rand, nets []*faultnet.Proxy) {
	dirs := []faultnet.Dir{faultnet.ToServer, faultnet.ToClient, faultnet.Both}
	for pause(ctx, rng, chaosPace) {
		n, dir := nets[rng.IntN(len(nets))], dirs[rng.IntN(len(dirs))]
		switch rng.IntN(7) {
		case 0:
			n.Delay(dir, time.Duration(rng.Int64N(int64(chaosPace/8))))
			pause(ctx, rng, 2*chaosPace)
			n.Delay(dir, 0)
		case 1:
			n.Freeze(dir)
			pause(ctx, rng, 2*chaosPace)
			n.Thaw(dir)
		case 2:
			n.Drop(dir, true)
			pause(ctx, rng, 2*chaosPace)
			n.Drop(dir, false)
			n.Reset() // what was dropped has broken them
		case 3:
			n.CutAfter(dir, rng.Int64N(300))
		case 4:
			n.Reset()
		case 5:
			n.Refuse(true)
			pause(ctx, rng, chaosPace)
			n.Refuse(false)
		case 6: // slow replies, and then none: what is valid counts from the request
			n.Delay(faultnet.ToClient, chaosPace/10+time.Duration(rng.Int64N(int64(chaosPace/20))))
			pause(ctx, rng, 2*chaosPace)
			n.Drop(faultnet.Both, true)
			pause(ctx, rng, 2*chaosPace)
			n.Delay(faultnet.ToClient, 0)
			n.Drop(faultnet.Both, false)
			n.Reset()
		}
	}
	for _, n := range nets {
		n.CutAfter(faultnet.Both, -1)
	}
}

// LK-29 with processes: holders that are stopped and killed, networks that
// lose, a server that stands still. The history of holders of every key is
// linearizable, as is that of the resource that it guards, and neither key nor
// goroutine is left.
func TestChaosRedis(t *testing.T) {
	t.Parallel()
	d, seed := chaos(t)
	s := redistest.StartServer(t)
	resource := redistest.StartServer(t)
	o := orders{
		Guard: resource.Addr(), Prefix: s.Prefix(), TTL: chaosPace, Pace: chaosPace,
		Begun: now(), Each: 2 * time.Second,
	}
	var nets []*faultnet.Proxy
	var all []orders
	for range chaosHolders {
		n := faultnet.New(t, s.Addr())
		o.Addr = n.Addr()
		nets, all = append(nets, n), append(all, o)
	}
	c := startCrowd(t, seed, all)

	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { c.trouble(ctx, seed) })
	wg.Go(func() { disturb(ctx, rand.New(rand.NewPCG(seed, 3)), nets) })
	rng := rand.New(rand.NewPCG(seed, 4))
	for pause(ctx, rng, 5*chaosPace) {
		s.Pause()
		pause(ctx, rng, chaosPace*4/3)
		s.Resume()
	}
	wg.Wait()
	c.finish()
	c.verdict(resource.Client(t), o, onOneNode)
	if t.Failed() || c.counts[begins] < 10 || c.counts[accepts] < 10 {
		t.Errorf("%v", c.counts)
	}
	nothingLeft(t, s.Client(t), o.Prefix)
}

// Under failover of an asynchronously replicated Redis two can hold a lock.
// What a resource outside that Redis accepts never goes back, and it goes on
// accepting: fences rise over the failover.
func TestChaosSentinel(t *testing.T) {
	t.Parallel()
	d, seed := chaos(t)
	s := redistest.StartSentinel(t)
	resource := redistest.StartServer(t)
	o := orders{
		Sentinels: s.Addrs(), Master: s.Options().MasterName,
		Guard: resource.Addr(), Prefix: s.Prefix(), TTL: failoverTTL, Pace: chaosPace,
		Begun: now(), Each: 10 * time.Second,
	}
	c := startCrowd(t, seed, slices.Repeat([]orders{o}, chaosHolders))

	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { c.trouble(ctx, seed) })
	rng := rand.New(rand.NewPCG(seed, 5))
	primary, other := s.Primary(), s.Replica()
	failovers, last := 0, int64(0)
	for ; failovers == 0 || pause(ctx, rng, time.Second); failovers++ {
		c.await(t, last) // leases of this primary
		primary.Pause()
		s.AwaitPrimary(t, other)
		client := other.Client(t)
		if rng.IntN(3) > 0 { // the replica had heard of nothing
			client.FlushAll(t.Context())
		}
		last = now()
		pause(ctx, rng, chaosPace)
		primary.Resume() // it still takes itself for the primary, for a moment
		primary, other = other, primary
		eventually(t, "the former primary is a replica", func() bool {
			info, err := client.Info(t.Context(), "replication").Result()
			return err == nil && strings.Contains(info, "state=online")
		})
	}
	c.await(t, last)
	cancel()
	wg.Wait()
	c.finish()
	t.Logf("%d failovers", failovers)
	c.verdict(resource.Client(t), o, onSeveral)
	for key, events := range c.events {
		if judge(holderModel, events, nil) != "" {
			t.Logf("%s had two holders at a time, as the package page says", key)
		}
	}
	nothingLeft(t, primary.Client(t), o.Prefix)
}

// await waits until a resource has accepted a write of a lease that began after
// that moment.
func (c *crowd) await(t *testing.T, after int64) {
	t.Helper()
	eventually(t, "a new lease writes", func() bool {
		c.chronicle.mu.Lock()
		defer c.chronicle.mu.Unlock()
		for _, events := range c.events {
			began := map[uint64]bool{}
			for _, e := range events {
				switch {
				case e.Kind == begins && e.Call > after:
					began[e.Fence] = true
				case e.Kind == accepts && began[e.Fence]:
					return true
				}
			}
		}
		return false
	})
}

// verdict checks the histories, with what the guarded resources say.
func (c *crowd) verdict(resource *redis.Client, o orders, models map[string]porcupine.Model) {
	c.t.Helper()
	c.t.Logf("%d holders, %d keys, %v", c.clients, len(c.events), c.counts)
	written := map[string][]string{}
	for key := range c.events {
		texts, err := resource.LRange(c.t.Context(), o.written(key), 0, -1).Result()
		if err != nil {
			c.t.Fatal(err)
		}
		written[key] = texts
		var fences []uint64
		for _, text := range texts {
			fence, err := strconv.ParseUint(strings.Fields(text)[0], 10, 64)
			if err != nil {
				c.t.Fatal(err)
			}
			fences = append(fences, fence)
		}
		if why := backwards(fences); why != "" {
			c.t.Errorf("resource of %s: %s", key, why)
		}
	}
	c.check(c.t, models, func(key, text string) bool { return slices.Contains(written[key], text) })
}

// nothingLeft waits until no lock is left. Fences, and lines in which someone
// stood who was killed, go by themselves.
func nothingLeft(t *testing.T, client *redis.Client, prefix string) {
	t.Helper()
	keys := func() []string {
		t.Helper()
		keys, err := client.Keys(t.Context(), prefix+"*").Result()
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	eventually(t, "no lock is left", func() bool {
		return !slices.ContainsFunc(keys(), func(key string) bool { return strings.HasSuffix(key, "}") })
	})
	for _, key := range keys() {
		if ttl := client.PTTL(t.Context(), key).Val(); ttl == -1 || ttl > time.Hour {
			t.Errorf("%s is left, with a TTL of %v", key, ttl)
		}
	}
}
