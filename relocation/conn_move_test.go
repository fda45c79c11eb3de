package relocation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
)

// countedDialer counts dials, and how many were under way at once.
type countedDialer struct {
	Dialer
	dials, now, most atomic.Int64
}

func (d *countedDialer) Dial(ctx context.Context, addr string) (Transport, error) {
	d.dials.Add(1)
	now := d.now.Add(1)
	defer d.now.Add(-1)
	for most := d.most.Load(); now > most && !d.most.CompareAndSwap(most, now); most = d.most.Load() {
	}
	return d.Dialer.Dial(ctx, addr)
}

func (s *fakePeer) goAway(g goAway) { s.write(appendGoAway(nil, g)) }

// RL-08: a planned move dials first, pauses for two round trips, and loses,
// doubles and marks nothing.
func TestConnMovesAsPlanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		var last, first time.Time // DATA at a and b
		byeAfterDial := false
		accepted := false
		stop := f.net.Listen("b", func(ctx context.Context, tr Transport) {
			f.with(func() { accepted = true })
			f.serve(&fakePeer{fleet: f, ctx: ctx, tr: tr, addr: "b"})
		})
		defer stop()
		f.frame = func(s *fakePeer, k kind, _ []byte) bool {
			switch {
			case k == kindBye:
				byeAfterDial = accepted
			case k == kindData && s.addr == "a":
				last = time.Now()
			case k == kindData && first.IsZero():
				first = time.Now()
			}
			return false
		}
		const way = 10 * time.Millisecond
		c := f.dial(nil, "a")
		c.addrs = Addresses([]string{"a", "b"})
		states := watchStates(t, c)
		f.net.Delay("a", BothWays, way)
		f.net.Delay("b", BothWays, way)
		sent := 0
		send := func(n int) {
			for range n {
				sent++
				sendAll(t, c, fmt.Sprint(sent))
				f.session() // the server sends, too
				f.with(func() {
					x := f.sessions["1"]
					x.out = append(x.out, fmt.Append(nil, "s", len(x.out)+1))
					if s := f.peers["b"]; s != nil {
						s.write(appendData(nil, uint64(len(x.out)), 0, x.out[len(x.out)-1]))
					} else {
						f.peers["a"].write(appendData(nil, uint64(len(x.out)), 0, x.out[len(x.out)-1]))
					}
				})
				time.Sleep(time.Millisecond)
			}
		}
		send(100)
		f.peer("a").goAway(goAway{Deadline: time.Minute, Locations: []string{"b"}})
		send(300)
		flush(t, c)
		if got := f.got(); !slices.Equal(got, numbered(1, sent)) {
			t.Errorf("the server got %d messages: %v", len(got), got)
		}
		for i := range sent {
			if m := receive(t, c, fmt.Sprint("s", i+1)); m.Redelivered {
				t.Errorf("%q is marked", m.Data)
			}
		}
		if c.Addr() != "b" || !byeAfterDial {
			t.Errorf("the server is %q, BYE after the dial: %v", c.Addr(), byeAfterDial)
		}
		if gap := first.Sub(last); gap > 4*way+2*time.Millisecond {
			t.Errorf("the pause was %v, want two round trips of %v", gap, 2*way)
		}
		if got := states(); !slices.Equal(got, []State{Migrating, Reconnecting, Connected}) {
			t.Errorf("states %v", got)
		}
		if s := c.Stats(); s.Moves != 1 || s.Losses != 0 || s.Resent != 0 {
			t.Errorf("Stats = %+v, want one move and nothing else", s)
		}
	})
}

// RL-09: while a move is under way there is one dial loop, whatever else
// happens, and nothing is told twice.
func TestConnMovesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b", "c")
		d := &countedDialer{Dialer: f.net}
		c, err := Dial(t.Context(), Addresses([]string{"a"}), d, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		states := watchStates(t, c)
		f.net.Hang("b", true)
		a := f.peer("a")
		for range 5 {
			a.goAway(goAway{Deadline: time.Minute, Locations: []string{"b"}})
			time.Sleep(100 * time.Millisecond)
		}
		if got := states(); !slices.Equal(got, []State{Migrating}) {
			t.Errorf("states %v, want MIGRATING once", got)
		}
		f.net.Cut("a")
		time.Sleep(time.Second)
		f.net.Hang("b", false)
		fakeState(t, c, Connected)
		if got := states(); !slices.Equal(got, []State{Migrating, Reconnecting, Connected}) || c.Addr() != "b" {
			t.Errorf("states %v at %q", got, c.Addr())
		}
		if d.most.Load() != 1 || d.dials.Load() != 2 {
			t.Errorf("%d dials, %d at once, want 2, one after the other", d.dials.Load(), d.most.Load())
		}
	})
}

// RL-09: the nearest deadline counts: a server that does not finish by then is
// left.
func TestConnNearestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		f.frame = func(s *fakePeer, k kind, _ []byte) bool { return k == kindBye }
		c := f.dial(&DialOptions{MigrateTimeout: time.Hour}, "a")
		a := f.peer("a")
		start := time.Now()
		a.goAway(goAway{Deadline: time.Hour, Spread: time.Hour, Locations: []string{"b"}})
		a.goAway(goAway{Deadline: 30 * time.Second, Locations: []string{"b"}})
		a.goAway(goAway{Deadline: time.Hour, Spread: time.Hour, Locations: []string{"b"}})
		fakeState(t, c, Migrating)
		fakeWait(t, "b", func() bool { return c.State() == Connected && c.Addr() == "b" })
		if d := time.Since(start).Round(10 * time.Millisecond); d != 30*time.Second {
			t.Errorf("moved after %v, want 30s", d)
		}
	})
}

// MigrateTimeout bounds the wait for FIN; then what is unacknowledged is sent
// again, marked.
func TestConnMigrateTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		f.frame = func(s *fakePeer, k kind, _ []byte) bool { return s.addr == "a" }
		c := f.dial(nil, "a", "b")
		for c.Addr() != "a" {
			if err := c.Migrate(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		sendAll(t, c, "1")
		synctest.Wait()
		start := time.Now()
		f.peer("a").goAway(goAway{Deadline: time.Hour, Locations: []string{"b"}})
		flush(t, c)
		if d := time.Since(start).Round(10 * time.Millisecond); d != DefaultMigrateTimeout {
			t.Errorf("moved after %v, want %v", d, DefaultMigrateTimeout)
		}
		if got := f.got(); !slices.Equal(got, []string{"1 again"}) {
			t.Errorf("the server got %q", got)
		}
	})
}

// RL-10: servers that point to each other are followed for three hops, those
// that asked to be left are avoided, and after that the addresses are asked, at
// a pace.
func TestConnFollowsThreeHops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b", "c", "d", "e", "f", "z")
		next := map[string]string{"b": "c", "c": "d", "d": "e", "e": "f"}
		f.opening = func(s *fakePeer, o opening) *reject {
			if to := next[s.addr]; to != "" {
				return &reject{Code: rejectMoved, Locations: []string{"a", to}}
			}
			return nil
		}
		c := f.dial(nil, "a")
		c.addrs = Addresses([]string{"a", "z"})
		f.peer("a").goAway(goAway{Deadline: time.Minute, Locations: []string{"b"}})
		fakeWait(t, "z", func() bool { return c.State() == Connected && c.Addr() == "z" })
		var addrs []string
		for _, o := range f.openingsAt("") {
			addrs = append(addrs, o.addr)
			if next[o.addr] != "" && !o.at.Equal(f.openingsAt("b")[0].at) {
				t.Errorf("asked %q later than b", o.addr)
			}
		}
		if !slices.Equal(addrs, []string{"a", "b", "c", "d", "e", "z"}) {
			t.Errorf("asked %v", addrs)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		moved := false
		f.opening = func(s *fakePeer, o opening) *reject {
			if !moved {
				return nil
			}
			return &reject{Code: rejectMoved, Locations: []string{"a", "b"}}
		}
		c := f.dial(nil, "a")
		c.addrs = Addresses([]string{"a", "b"})
		f.with(func() { moved = true })
		f.peer("a").goAway(goAway{Deadline: time.Minute, Locations: []string{"b"}})
		time.Sleep(time.Minute)
		n := len(f.openingsAt(""))
		if n < 3 || n > 40 {
			t.Errorf("%d openings in a minute in which each server points to the other, want few", n)
		}
		f.with(func() { moved = false })
		fakeState(t, c, Connected)
	})
}

// Servers that accept a client and send it away at once do not make it spin.
func TestConnDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		f.attached = func(s *fakePeer) {
			s.goAway(goAway{Deadline: time.Millisecond, Locations: []string{"a", "b"}})
		}
		f.dial(nil, "a", "b")
		time.Sleep(time.Minute)
		if n := len(f.openingsAt("")); n > 40 {
			t.Errorf("%d openings in a minute, want few", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		addrs := numbered(0, 99)
		f := newFleet(t, addrs...)
		f.attached = func(s *fakePeer) {
			var i int
			fmt.Sscan(s.addr, &i)
			s.goAway(goAway{Deadline: time.Minute, Locations: []string{fmt.Sprint(i + 1)}})
		}
		f.dial(nil, "0")
		time.Sleep(time.Minute)
		if n := len(f.openingsAt("")); n > 40 {
			t.Errorf("%d openings in a minute, each at another address, want few", n)
		}
	})
}

// RL-11: when no target can be had the old server serves on until its
// deadline, and the addresses are asked.
func TestConnTargetRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b", "c")
		c := f.dial(nil, "a")
		c.addrs = Addresses([]string{"a", "b", "c"})
		states := watchStates(t, c)
		f.net.Refuse("b", true)
		f.net.Refuse("c", true)
		f.peer("a").goAway(goAway{Deadline: time.Minute, Locations: []string{"b", "a"}})
		for i := range 30 {
			sendAll(t, c, fmt.Sprint(i))
			flush(t, c)
			if c.State() != Migrating || c.Addr() != "a" {
				t.Fatalf("after %ds: %v at %q, want MIGRATING at a", i, c.State(), c.Addr())
			}
			time.Sleep(time.Second)
		}
		if n := c.Stats().Failures; n < 3 || n > 30 {
			t.Errorf("%d attempts failed in 30s, want few", n)
		}
		f.net.Refuse("c", false)
		fakeState(t, c, Connected)
		if c.Addr() != "c" {
			t.Errorf("the server is %q, want c", c.Addr())
		}
		if got := states(); !slices.Equal(got, []State{Migrating, Reconnecting, Connected}) {
			t.Errorf("states %v", got)
		}
	})
}

// RL-09: a server that dies before its clients have left leaves them its
// targets.
func TestConnLostBeforeDeparture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		c := f.dial(nil, "a")
		f.peer("a").goAway(goAway{Deadline: 2 * time.Hour, Spread: 2 * time.Hour, Locations: []string{"b"}})
		fakeState(t, c, Migrating)
		f.net.Refuse("a", true)
		f.net.Cut("a")
		fakeState(t, c, Connected)
		if c.Addr() != "b" || c.Stats().Failures != 0 {
			t.Errorf("the server is %q after %d failures, want b at once", c.Addr(), c.Stats().Failures)
		}
	})
}

// RL-12, the client's part: the final GOAWAY says how far the server came, and
// the session goes on elsewhere.
func TestConnFinalGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		f.frame = func(s *fakePeer, k kind, body []byte) bool {
			if k == kindData && s.addr == "a" {
				s.session.in, _, _, _ = parseData(body)
				return true
			}
			return false
		}
		c := f.dial(nil, "a")
		sendAll(t, c, "1", "2")
		synctest.Wait()
		a := f.peer("a")
		f.net.Refuse("b", true)
		a.goAway(goAway{Final: true, Deadline: time.Minute, In: 2, Locations: []string{"b"}})
		a.tr.Close(CloseRestart, "")
		fakeState(t, c, Reconnecting)
		if c.Unacked() != nil {
			t.Errorf("Unacked = %v, want none", c.Unacked())
		}
		f.net.Refuse("b", false)
		c.addrs = Addresses([]string{"b"})
		fakeWait(t, "resume", func() bool { return c.Stats().Connections == 2 })
		if c.Addr() != "b" {
			t.Errorf("the server is %q, want b", c.Addr())
		}
	})
}

// The end of its context ends the dial of Migrate, so that another can be made.
func TestConnMigrateEndsItsDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b", "c")
		c := f.dial(nil, "a")
		f.net.Hang("b", true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := c.Migrate(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Migrate = %v, want the context's error", err)
		}
		if err := c.Migrate(t.Context(), "c"); err != nil || time.Since(start) != time.Second {
			t.Errorf("Migrate = %v after %v, want nil at once", err, time.Since(start)-time.Second)
		}
	})
}

// Migrate moves, or stays and says why.
func TestConnMigrate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b", "c")
		c := f.dial(nil, "a")
		c.addrs = Addresses([]string{"a", "b"})
		if err := c.Migrate(t.Context(), "c"); err != nil || c.Addr() != "c" {
			t.Errorf("Migrate = %v, at %q, want nil at c", err, c.Addr())
		}
		if err := c.Migrate(t.Context(), ""); err != nil || c.Addr() == "c" {
			t.Errorf("Migrate = %v, at %q, want nil elsewhere", err, c.Addr())
		}
		if err := c.Migrate(t.Context(), "a"); err != nil || c.Addr() != "a" {
			t.Errorf("Migrate = %v, at %q, want nil at a", err, c.Addr())
		}
		states := watchStates(t, c)
		f.net.Refuse("b", true)
		for _, to := range []string{"b", "", "nobody"} {
			if err := c.Migrate(t.Context(), to); !errors.Is(err, transparency.ErrUnavailable) || c.State() != Connected || c.Addr() != "a" {
				t.Errorf("Migrate(%q) = %v, %v at %q, want ErrUnavailable, CONNECTED at a", to, err, c.State(), c.Addr())
			}
		}
		f.net.Hang("b", true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		result := make(chan error)
		go func() { result <- c.Migrate(ctx, "b") }()
		synctest.Wait()
		if err := c.Migrate(t.Context(), "c"); !errors.Is(err, transparency.ErrRejected) {
			t.Errorf("Migrate during another = %v, want ErrRejected", err)
		}
		if err := <-result; !errors.Is(err, context.DeadlineExceeded) || c.State() != Connected {
			t.Errorf("Migrate = %v, %v, want the context's error, CONNECTED", err, c.State())
		}
		if err := c.Migrate(ctx, "c"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Migrate = %v, want the context's error", err)
		}
		sendAll(t, c, "1")
		flush(t, c)
		want := slices.Repeat([]State{Migrating, Connected}, 4)
		if got := states(); !slices.Equal(got, want) {
			t.Errorf("states %v, want %v", got, want)
		}
		if n := len(f.openingsAt("")); n != 4 {
			t.Errorf("%d openings, want 4", n)
		}
		f.net.Refuse("a", true)
		f.net.Cut("a")
		fakeState(t, c, Reconnecting)
		if err := c.Migrate(t.Context(), ""); !errors.Is(err, transparency.ErrUnavailable) {
			t.Errorf("Migrate while reconnecting = %v, want ErrUnavailable", err)
		}
	})
}
