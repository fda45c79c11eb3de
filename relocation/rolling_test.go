//go:build unix

package relocation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/relocation"
	"github.com/go-transparency/transparency/relocation/relocationtest"
)

// RL-50: three server processes on one Redis are replaced, one after the
// other, under a hundred clients that send and receive all the time.
func TestRollingRestart(t *testing.T) {
	f := startFleet(t, 3, 100)
	old := f.processes
	var targets []string // not those that are about to go
	for n := range old {
		fresh := f.start(fmt.Sprintf("new%d", n))
		targets = append(targets, fresh.addr)
		f.servers.remove(old[n].addr)
		old[n].drain(t, targets)
		f.awaitTraffic(fresh)
	}
	counts, moves := f.finish()
	if counts.Again > 0 {
		t.Errorf("%d messages were handled twice, want none in a planned move", counts.Again)
	}
	if moves > 2 {
		t.Errorf("a client moved %d times, want at most 2", moves)
	}
	t.Logf("rolling restart of 3 processes under %d clients: %d messages sent both ways, %d lost, %d doubled, order kept, at most %d moves a client",
		len(f.clients), counts.Sent, counts.Sent-counts.Handled, counts.Again, moves)
}

// RL-01, RL-04 and RL-18 in the field: a process is killed under its clients.
// What it had handled and not committed comes again, marked; nothing is lost.
func TestKilledInstance(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2, 30)
	victim := f.processes[0]
	f.servers.remove(victim.addr)
	victim.kill(t)
	f.start("next")
	for _, c := range f.clients {
		testkit.Eventually(t, "a client to be with a living server", testkit.Limit, func() bool {
			return c.conn.State() == relocation.Connected && c.conn.Addr() != victim.addr
		})
	}
	counts, _ := f.finish()
	t.Logf("a killed process: %d messages sent both ways, %d lost, %d handled again and marked, order kept",
		counts.Sent, counts.Sent-counts.Handled, counts.Again)
}

// A fleet is servers, clients, and somebody who sends to the clients through
// a Hub of his own.
type fleet struct {
	t         *testing.T
	instance  instance
	redis     *redis.Client
	hub       *relocation.Hub
	servers   servers
	processes []*process
	clients   []*rollingClient
	checker   relocationtest.Checker
	stop      chan struct{} // closed when enough was sent
	running   sync.WaitGroup
}

type rollingClient struct {
	name     string
	conn     *relocation.Conn
	moves    atomic.Int64
	replies  atomic.Int64
	pushes   atomic.Int64
	sent     atomic.Int64
	pushed   atomic.Int64
	received chan struct{} // one token for each reply
}

func startFleet(t *testing.T, processes, clients int) *fleet {
	t.Helper()
	server := redistest.StartServer(t)
	f := &fleet{
		t: t, redis: server.Client(t), stop: make(chan struct{}),
		instance: instance{Redis: server.Addr(), Prefix: server.Prefix(), Key: []byte("an example of a key")},
	}
	f.hub = relocation.NewHub(
		relocation.NewRedisStore(f.redis, &relocation.RedisOptions{Prefix: f.instance.Prefix}),
		func(context.Context, *relocation.Session, relocation.Message) error {
			return errors.New("serves nobody")
		},
		&relocation.HubOptions{Keys: [][]byte{f.instance.Key}},
	)
	t.Cleanup(func() { _ = f.hub.Close() })
	for n := range processes {
		f.start(fmt.Sprintf("old%d", n))
	}
	for n := range clients {
		f.connect(fmt.Sprintf("c%d", n))
	}
	for _, p := range f.processes {
		f.awaitTraffic(p)
	}
	return f
}

func (f *fleet) start(name string) *process {
	f.t.Helper()
	i := f.instance
	i.Name = name
	p := startInstance(f.t, i)
	f.processes = append(f.processes[:len(f.processes):len(f.processes)], p)
	f.servers.add(p.addr)
	return p
}

// connect starts a client, its three loops, and its follower of changes.
func (f *fleet) connect(name string) {
	f.t.Helper()
	conn, err := relocation.Dial(f.t.Context(), f.servers.list, new(relocation.WebSocketDialer), &relocation.DialOptions{
		MinBackoff: 20 * time.Millisecond, MaxBackoff: time.Second,
	})
	if err != nil {
		f.t.Fatalf("Dial: %v", err)
	}
	c := &rollingClient{name: name, conn: conn, received: make(chan struct{}, 8)}
	f.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	f.clients = append(f.clients, c)
	f.running.Go(func() { f.send(c) })
	f.running.Go(func() { f.push(c) })
	go f.receive(c)
	changes := conn.Changes(f.t.Context())
	go func() {
		for change := range changes {
			if change.To == relocation.Connected {
				c.moves.Add(1)
			}
		}
	}()
}

// send sends, with at most eight messages unanswered, until it is told to stop.
func (f *fleet) send(c *rollingClient) {
	for n := range cap(c.received) {
		f.sendOne(c, n)
	}
	for n := cap(c.received); ; n++ {
		select {
		case <-c.received:
			f.sendOne(c, n)
		case <-f.stop:
			return
		case <-f.t.Context().Done():
			return
		}
	}
}

func (f *fleet) sendOne(c *rollingClient, n int) {
	message := fmt.Sprintf("%s %d", c.name, n)
	_ = f.checker.Send(c.name+" replies", "re "+message, func([]byte) error {
		err := f.checker.Send(c.name+" up", message, func(p []byte) error { return c.conn.Send(f.t.Context(), p) })
		if err != nil {
			f.t.Errorf("Send: %v", err)
		}
		return err
	})
	c.sent.Add(1)
}

// push sends to the client from here, which is none of the servers, one
// message for each ten replies, until it is told to stop.
func (f *fleet) push(c *rollingClient) {
	var session string
	testkit.Eventually(f.t, "a first message to be handled", testkit.Limit, func() bool {
		session, _ = f.redis.Get(f.t.Context(), f.instance.name(c.name)).Result()
		return session != ""
	})
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ticker.C:
		case <-f.stop:
			return
		case <-f.t.Context().Done():
			return
		}
		err := f.checker.Send(c.name+" pushes", fmt.Sprintf("push %d", n), func(p []byte) error {
			_, err := f.hub.Send(f.t.Context(), session, p)
			return err
		})
		if err != nil {
			f.t.Errorf("Hub.Send: %v", err)
			return
		}
		c.pushed.Add(1)
	}
}

func (f *fleet) receive(c *rollingClient) {
	for last := uint64(0); ; last++ {
		m, err := c.conn.Receive(f.t.Context())
		if err != nil {
			if !errors.Is(err, relocation.ErrClosed) && f.t.Context().Err() == nil {
				f.t.Errorf("Receive: %v", err)
			}
			return
		}
		if m.Seq != last+1 {
			f.t.Errorf("%s received %d after %d", c.name, m.Seq, last)
		}
		if strings.HasPrefix(string(m.Data), "push ") {
			f.checker.Handle(c.name+" pushes", relocationtest.Handling{Seq: uint64(c.pushes.Load() + 1), Payload: string(m.Data)})
			c.pushes.Add(1)
			continue
		}
		f.checker.Handle(c.name+" replies", relocationtest.Handling{Seq: uint64(c.replies.Load() + 1), Payload: string(m.Data)})
		c.replies.Add(1)
		select {
		case c.received <- struct{}{}:
		case <-f.stop:
		}
	}
}

// awaitTraffic returns when some client is with p, and was answered there.
func (f *fleet) awaitTraffic(p *process) {
	f.t.Helper()
	for _, c := range f.clients {
		if c.conn.Addr() != p.addr {
			continue
		}
		before := c.replies.Load()
		testkit.Eventually(f.t, "answers from a new server", testkit.Limit, func() bool { return c.replies.Load() > before })
		return
	}
}

// finish stops the senders, waits for what is under way, checks everything,
// and returns the counts and the most moves that any client made.
func (f *fleet) finish() (relocationtest.Counts, int64) {
	t := f.t
	t.Helper()
	close(f.stop)
	f.running.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit)
	defer cancel()
	moves := int64(0)
	for _, c := range f.clients {
		if err := c.conn.Flush(ctx); err != nil {
			t.Fatalf("Flush: %v", err)
		}
		testkit.Eventually(t, "all answers", testkit.Limit, func() bool {
			return c.replies.Load() >= c.sent.Load() && c.pushes.Load() >= c.pushed.Load()
		})
		moves = max(moves, c.moves.Load())
		if err := c.conn.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		f.instance.check(ctx, t, f.redis, c.name, &f.checker)
	}
	if err := f.checker.Final(); err != nil {
		t.Error(err)
	}
	return f.checker.Counts(), moves
}
