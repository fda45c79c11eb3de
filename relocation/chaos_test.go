//go:build unix

package relocation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/faultnet"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/relocation"
	"github.com/go-transparency/transparency/relocation/relocationtest"
)

// How long chaos lasts, as a duration, and which faults there are: without
// them, a few seconds of always the same. What is scheduled when differs all
// the same.
const (
	envChaos     = "TRANSPARENCY_CHAOS"
	envChaosSeed = "TRANSPARENCY_CHAOS_SEED"
)

func chaos(t *testing.T) (time.Duration, *rand.Rand) {
	t.Helper()
	d, seed := 5*time.Second, uint64(1)
	if s := os.Getenv(envChaos); s != "" {
		var err error
		if d, err = time.ParseDuration(s); err != nil {
			t.Fatalf("%s: %v", envChaos, err)
		}
		seed = rand.Uint64()
	}
	if s := os.Getenv(envChaosSeed); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", envChaosSeed, err)
		}
	}
	t.Logf("%v of chaos, %s=%d", d, envChaosSeed, seed)
	return d, rand.New(rand.NewPCG(seed, 0))
}

// TestChaos has clients send, and be sent to, while server processes are
// killed, stopped and drained, networks freeze, dawdle and break, and Redis is
// paused. With the effects of messages in the handlers' own database each is
// there once, in order, whatever paused process thought that it was its turn.
func TestChaos(t *testing.T) {
	t.Parallel()
	d, random := chaos(t)
	w := startWild(t, 3, 6)
	deadline := time.Now().Add(d)
	for faults := 0; ; faults++ {
		if time.Now().After(deadline) {
			counts := w.finish()
			t.Logf("%d faults: %d messages sent, %d lost, %d effects twice, order kept", faults, counts.Sent, counts.Sent-counts.Handled, counts.Again)
			return
		}
		w.fault(random)
		w.pause(random, 300*time.Millisecond)
	}
}

// A wild is servers behind bad networks, and clients that keep on.
type wild struct {
	t        *testing.T
	server   *redistest.Server
	redis    *redis.Client
	instance instance
	hub      *relocation.Hub
	started  int
	servers  servers
	hosts    []*wildHost
	clients  []*wildClient
	checker  relocationtest.Checker
	stop     chan struct{} // closed when enough was sent
	running  sync.WaitGroup
	pending  sync.WaitGroup // faults that end later
}

type wildHost struct {
	process *process
	proxy   *faultnet.Proxy
	addr    string
}

type wildClient struct {
	name   string
	conn   *relocation.Conn
	pushed atomic.Int64
	got    atomic.Int64
}

func startWild(t *testing.T, hosts, clients int) *wild {
	t.Helper()
	server := redistest.StartServer(t)
	w := &wild{
		t: t, server: server, redis: server.Client(t), stop: make(chan struct{}),
		instance: instance{Redis: server.Addr(), Prefix: server.Prefix(), Key: []byte("an example of a key"), Rough: true},
	}
	w.hub = relocation.NewHub(
		relocation.NewRedisStore(w.redis, &relocation.RedisOptions{Prefix: w.instance.Prefix}),
		func(context.Context, *relocation.Session, relocation.Message) error {
			return errors.New("serves nobody")
		},
		&relocation.HubOptions{Keys: [][]byte{w.instance.Key}},
	)
	t.Cleanup(func() { _ = w.hub.Close() })
	for range hosts {
		w.hosts = append(w.hosts, w.start())
	}
	for n := range clients {
		c := &wildClient{name: fmt.Sprintf("c%d", n)}
		conn, err := relocation.Dial(t.Context(), w.servers.list, new(relocation.WebSocketDialer), &relocation.DialOptions{
			BufferMessages: 16, MinBackoff: 10 * time.Millisecond, MaxBackoff: 300 * time.Millisecond,
			DialTimeout: time.Second, MigrateTimeout: time.Second,
		})
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		c.conn = conn
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		w.clients = append(w.clients, c)
		w.running.Go(func() { w.send(c) })
		w.running.Go(func() { w.push(c) })
		go w.receive(c)
	}
	return w
}

func (w *wild) start() *wildHost {
	w.t.Helper()
	i := w.instance
	i.Name = fmt.Sprint("p", w.started)
	w.started++
	p := startInstance(w.t, i)
	proxy := faultnet.New(w.t, strings.TrimSuffix(strings.TrimPrefix(p.addr, "ws://"), "/"))
	h := &wildHost{process: p, proxy: proxy, addr: "ws://" + proxy.Addr() + "/"}
	w.servers.add(h.addr)
	return h
}

// replace starts another server in the place of one, which leaves the list.
func (w *wild) replace(n int) *wildHost {
	w.t.Helper()
	old := w.hosts[n]
	w.servers.remove(old.addr)
	w.hosts[n] = w.start()
	return old
}

// pause waits up to d: the time of the faults is the wall clock's.
func (w *wild) pause(random *rand.Rand, d time.Duration) {
	select {
	case <-time.After(time.Duration(random.Int64N(int64(d)))):
	case <-w.t.Context().Done():
	}
}

// later calls f after up to d.
func (w *wild) later(random *rand.Rand, d time.Duration, f func()) {
	after := time.After(time.Duration(random.Int64N(int64(d))))
	w.pending.Go(func() {
		select {
		case <-after:
		case <-w.t.Context().Done():
		}
		f()
	})
}

// fault does one thing that goes wrong.
func (w *wild) fault(random *rand.Rand) {
	n := random.IntN(len(w.hosts))
	h := w.hosts[n]
	dir := faultnet.Dir(1 + random.IntN(3))
	switch random.IntN(8) {
	case 0:
		w.replace(n).process.kill(w.t)
	case 1: // longer than a lease, half of the time
		_ = h.process.cmd.Process.Signal(syscall.SIGSTOP)
		w.later(random, 2*time.Second, func() { _ = h.process.cmd.Process.Signal(syscall.SIGCONT) })
	case 2:
		old := w.replace(n)
		_, _ = fmt.Fprintln(old.process.stdin, w.hosts[n].addr)
	case 3:
		h.proxy.Freeze(dir)
		w.later(random, 1500*time.Millisecond, func() { h.proxy.Thaw(dir) })
	case 4:
		h.proxy.Reset()
	case 5:
		h.proxy.Delay(dir, 20*time.Millisecond)
		w.later(random, time.Second, func() { h.proxy.Delay(dir, 0) })
	case 6:
		h.proxy.CutAfter(dir, random.Int64N(1000))
	case 7:
		w.server.Pause()
		w.pause(random, 500*time.Millisecond)
		w.server.Resume()
	}
}

func (w *wild) send(c *wildClient) {
	for n := 0; ; n++ {
		select {
		case <-w.stop:
			return
		case <-w.t.Context().Done():
			return
		default:
		}
		err := w.checker.Send(c.name+" up", fmt.Sprintf("%s %d", c.name, n), func(p []byte) error { return c.conn.Send(w.t.Context(), p) })
		if err != nil {
			w.t.Errorf("Send: %v", err)
			return
		}
	}
}

// push sends to the client from here. What may have been sent is sent as
// something else again.
func (w *wild) push(c *wildClient) {
	var session string
	testkit.Eventually(w.t, "a first message to be handled", testkit.Limit, func() bool {
		session, _ = w.redis.Get(w.t.Context(), w.instance.name(c.name)).Result()
		return session != ""
	})
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-w.stop:
			return
		case <-w.t.Context().Done():
			return
		}
		if _, err := w.hub.Send(w.t.Context(), session, fmt.Append(nil, c.pushed.Load()+1)); err == nil {
			c.pushed.Add(1)
		}
	}
}

// receive checks that pushes come in order: once, or with those whose outcome
// was unknown between them.
func (w *wild) receive(c *wildClient) {
	for last := uint64(0); ; last++ {
		m, err := c.conn.Receive(w.t.Context())
		if err != nil {
			if !errors.Is(err, relocation.ErrClosed) && w.t.Context().Err() == nil {
				w.t.Errorf("Receive: %v", err)
			}
			return
		}
		push, err := strconv.ParseInt(string(m.Data), 10, 64)
		got := c.got.Load()
		if err != nil || m.Seq != last+1 || push != got && push != got+1 {
			w.t.Errorf("%s received %q as %d, after %d as %d", c.name, m.Data, m.Seq, got, last)
		}
		c.got.Store(push)
	}
}

// finish ends the faults and the senders, waits for what is under way, and
// checks everything.
func (w *wild) finish() relocationtest.Counts {
	t := w.t
	t.Helper()
	w.pending.Wait()
	close(w.stop)
	w.running.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, c := range w.clients {
		if err := c.conn.Flush(ctx); err != nil {
			t.Fatalf("Flush: %v", err)
		}
		testkit.Eventually(t, "all pushes", time.Minute, func() bool { return c.got.Load() >= c.pushed.Load() })
		if err := c.conn.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		w.instance.check(ctx, t, w.redis, c.name, &w.checker)
	}
	if err := w.checker.Final(); err != nil {
		t.Error(err)
	}
	return w.checker.Counts()
}
