package relocation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// unmarked returns texts without the mark of what was sent again.
func unmarked(texts []string) []string {
	texts = slices.Clone(texts)
	for i, text := range texts {
		texts[i] = strings.TrimSuffix(text, " again")
	}
	return texts
}

// RL-04: what Send took while the path was dead is not lost, although every
// write to it had succeeded.
func TestConnFrozenPathLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		f.terms.Window = 16 << 20
		c := f.dial(nil, "a")
		f.net.Freeze("a", BothWays)
		c.addrs = Addresses([]string{"a", "b"})
		sendAll(t, c, numbered(1, 5000)...)
		synctest.Wait()
		c.mu.Lock()
		written := c.out.written
		c.mu.Unlock()
		if written != 5000 {
			t.Errorf("%d messages were written into the void, want all: the test shows nothing", written)
		}
		f.net.Refuse("a", true)
		flush(t, c)
		if got := f.got(); !slices.Equal(unmarked(got), numbered(1, 5000)) || got[0] != "1 again" {
			t.Errorf("the server got %d messages, from %q", len(got), got[0])
		}
	})
}

// RL-05: a path that died without a sign is left within the interval and the
// timeout of the heartbeat, and Send goes on meanwhile. It is so also when the
// writer hangs in the transport.
func TestConnNoticesSilence(t *testing.T) {
	for _, d := range []Direction{ToServer, ToClient, BothWays} {
		for _, size := range []int{0, 5 << 20} {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, "a")
				f.terms.Window, f.terms.MaxMessage = 64<<20, 8<<20
				c := f.dial(&DialOptions{BufferBytes: 64 << 20}, "a")
				time.Sleep(7 * time.Second)
				f.net.Freeze("a", d)
				start := time.Now()
				if size > 0 {
					sendAll(t, c, string(make([]byte, size)), string(make([]byte, size)))
				}
				fakeState(t, c, Reconnecting)
				if d := time.Since(start); d > 25*time.Second+10*time.Millisecond {
					t.Errorf("direction %d, size %d: noticed after %v, want 25s at most", d, size, d)
				}
				sendAll(t, c, "on")
				f.net.Thaw("a", d)
				flush(t, c)
			})
		}
	}
}

// RL-05: the bound holds after any answer, also when it may take long.
func TestConnNoticesSilenceAfterAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		f.terms.Ping, f.terms.Silence = 5*time.Second, time.Minute
		c := f.dial(nil, "a")
		time.Sleep(5*time.Second + time.Millisecond) // just after an answer
		f.net.Freeze("a", BothWays)
		start := time.Now()
		fakeState(t, c, Reconnecting)
		if d := time.Since(start); d > 65*time.Second+10*time.Millisecond {
			t.Errorf("noticed after %v, want 65s at most", d)
		}
	})
}

// RL-07: a server whose session loop is stuck, while its transport lives, is
// left.
func TestConnLeavesStuckServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		f.frame = func(s *fakePeer, k kind, _ []byte) bool { return s.addr == "a" }
		c := f.dial(nil, "a")
		c.addrs = Addresses([]string{"b"})
		sendAll(t, c, "1")
		flush(t, c)
		if c.Addr() != "b" {
			t.Errorf("the server is %q, want b", c.Addr())
		}
	})
}

// An idle connection is probed once an interval, and one that is used is not.
func TestConnHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		count := 0
		f.frame = func(_ *fakePeer, k kind, _ []byte) bool {
			count += int(number(k == kindPing))
			return false
		}
		pings := func() (n int) {
			synctest.Wait()
			f.with(func() { n, count = count, 0 })
			return n
		}
		c := f.dial(nil, "a")
		time.Sleep(151 * time.Second)
		if n := pings(); n != 10 {
			t.Errorf("%d pings in 151s, want 10", n)
		}
		for range 100 {
			sendAll(t, c, "x")
			time.Sleep(time.Second)
		}
		if n := pings(); n > 1 {
			t.Errorf("%d pings while messages went, want none", n)
		}
		// The server hears something even if the application does nothing.
		for range 100 {
			f.peer("a").send("y")
			time.Sleep(time.Second)
		}
		if n := pings(); n < 6 {
			t.Errorf("%d pings in 100s in which the client had nothing to write, want 6", n)
		}
		if s := c.Stats(); s.Losses != 0 {
			t.Errorf("%d connections were lost, want none", s.Losses)
		}
	})
}

// RL-49: when the machine slept there is one probe, and no judgement by the
// clock.
func TestConnProbesOnceAfterSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		var pings []time.Time
		answer := true
		f.frame = func(_ *fakePeer, k kind, _ []byte) bool {
			if k != kindPing {
				return false
			}
			pings = append(pings, time.Now())
			return !answer
		}
		pinged := func() (p []time.Time) {
			synctest.Wait()
			f.with(func() { p = slices.Clone(pings) })
			return p
		}
		c := f.dial(nil, "a")
		var slept time.Duration
		sleep := func(d time.Duration) {
			c.mu.Lock()
			defer c.mu.Unlock()
			slept += d
		}
		c.mu.Lock()
		c.wall = func() time.Time { return time.Now().Add(slept) }
		c.mu.Unlock()
		time.Sleep(10 * time.Second)
		sleep(time.Hour)
		start := time.Now()
		sendAll(t, c, "awake")
		if p := pinged(); len(p) != 1 || p[0].Sub(start) != 0 {
			t.Errorf("pings at %v, want one at once, at %v", p, start)
		}
		time.Sleep(14 * time.Second)
		if n := len(pinged()); n != 1 || c.State() != Connected {
			t.Errorf("%d pings, state %v, want one and CONNECTED", n, c.State())
		}
		// Asleep again, with a PING under way: its answer has a new chance.
		f.with(func() { answer = false })
		fakeWait(t, "ping", func() bool { return len(pinged()) == 2 })
		sleep(time.Hour)
		f.with(func() { answer = true })
		time.Sleep(20 * time.Second)
		if n := len(pinged()); n != 3 || c.Stats().Losses != 0 {
			t.Errorf("%d pings, %d losses, want 3 and none", n, c.Stats().Losses)
		}
	})
}

// RL-49: a session that expired in a sleep is lost, and says so.
func TestConnExpiredInSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		c := f.dial(nil, "a")
		f.stop("a")
		f.session().ended = true
		f.start("a")
		if _, err := c.Receive(t.Context()); !errors.Is(err, ErrSessionLost) {
			t.Errorf("Receive error = %v, want ErrSessionLost", err)
		}
	})
}

// RL-28: duplicates are dropped and counted; behind a gap nothing is delivered
// until the session was resumed.
func TestConnDropsDuplicatesAndRefusesGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		c := f.dial(nil, "a")
		s := f.peer("a")
		s.send("1")
		s.send("2")
		s.write(appendData(nil, 1, 0, []byte("1")), appendData(nil, 2, dataAgain, []byte("2")))
		receive(t, c, "1")
		receive(t, c, "2")
		synctest.Wait()
		if d := c.Stats().Duplicates; d != 2 {
			t.Errorf("%d duplicates were counted, want 2", d)
		}
		f.mu.Lock()
		s.session.out = append(s.session.out, []byte("3"), []byte("4"))
		f.mu.Unlock()
		s.write(appendData(nil, 4, 0, []byte("4")))
		m := receive(t, c, "3")
		receive(t, c, "4")
		if m.Seq != 3 || len(f.openingsAt("a")) != 2 {
			t.Errorf("after the gap: %+v with %d openings, want a resume", m, len(f.openingsAt("a")))
		}
		fakeWait(t, "close code", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return s.code == CloseProtocol })
	})
}

// RL-29, RL-30: an acknowledgement of what was never sent breaks the protocol,
// one that goes back is nothing.
func TestConnChecksAcknowledgements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		c := f.dial(nil, "a")
		sendAll(t, c, "1", "2")
		flush(t, c)
		s := f.peer("a")
		s.write(appendNumber(nil, kindAck, 1), appendNumber(nil, kindAck, 0))
		time.Sleep(time.Second)
		if st := c.Stats(); st.Acked != 2 || st.Losses != 0 {
			t.Errorf("after an ACK that went back: %+v", st)
		}
		s.write(appendNumber(nil, kindAck, 3))
		fakeWait(t, "resume", func() bool { return c.Stats().Connections == 2 })
		sendAll(t, c, "3")
		flush(t, c)
		if got := f.got(); !slices.Equal(got, numbered(1, 3)) {
			t.Errorf("the server got %v", got)
		}
	})
}

// A server that breaks the protocol three times in a row is not asked a fourth
// time.
func TestConnGivesUpOnBrokenProtocol(t *testing.T) {
	for name, frame := range map[string][]byte{
		"unknown frame":  appendNumber(nil, 0x3f, 1),
		"malformed":      {byte(kindAck), 5, 1},
		"ACK not sent":   appendNumber(nil, kindAck, 9),
		"FIN unasked":    appendNumber(nil, kindFin, 0),
		"HELLO":          appendOpening(nil, opening{}),
		"REJECT":         appendReject(nil, reject{Code: rejectProtocol}),
		"too large":      appendData(nil, 1, 0, make([]byte, 101)),
		"number zero":    appendData(nil, 0, 0, nil),
		"trailing bytes": append(appendNumber(nil, kindPong, 0), 7),
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, "a")
			f.attached = func(s *fakePeer) { s.write(frame) }
			c := f.dial(&DialOptions{MaxMessage: 100, Window: 100}, "a")
			fakeState(t, c, Closed)
			var err error
			for err == nil {
				_, err = c.Receive(t.Context())
			}
			var lost *LostError
			if !errors.Is(err, ErrProtocol) || !errors.As(err, &lost) {
				t.Errorf("%s: Receive error = %v, want ErrProtocol", name, err)
			}
			if n := len(f.openingsAt("a")); n != 3 {
				t.Errorf("%s: %d openings, want 3", name, n)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		f.attached = func(s *fakePeer) {
			f.with(func() { s.session.out = slices.Repeat([][]byte{make([]byte, 100)}, 4) })
		}
		c := f.dial(&DialOptions{MaxMessage: 100, Window: 100}, "a")
		fakeState(t, c, Closed)
		if err := c.Send(t.Context(), nil); !errors.Is(err, ErrProtocol) {
			t.Errorf("Send error = %v, want ErrProtocol after more than the window", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		f.attached = func(s *fakePeer) { s.write(appendNumber(nil, optional|5, 1)) }
		c := f.dial(nil, "a")
		sendAll(t, c, "1")
		flush(t, c)
		if n := len(f.openingsAt("a")); n != 1 {
			t.Errorf("a frame that may be skipped led to %d openings, want 1", n)
		}
	})
}

// RL-34: a server whose first frame is not the answer breaks the protocol, and
// what comes together with the answer is taken after it.
func TestConnWantsTheAnswerFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		early := true
		stop := n.Listen("a", func(ctx context.Context, tr Transport) {
			if _, err := tr.Read(ctx); err != nil {
				return
			}
			data := appendData(nil, 1, 0, []byte("1"))
			answer := appendOpened(nil, kindWelcome, opened{Version: 1, Token: []byte("t"), Generation: 1, MaxMessage: 9, Window: 9})
			if early {
				answer, data = data, answer
			}
			_ = tr.Write(ctx, slices.Concat(answer, data))
			for {
				if _, err := tr.Read(ctx); err != nil {
					return
				}
			}
		})
		defer stop()
		if _, err := Dial(t.Context(), Addresses([]string{"a"}), n, nil); !errors.Is(err, ErrProtocol) || !errors.Is(err, ErrNoServer) {
			t.Errorf("Dial error = %v, want ErrProtocol and ErrNoServer", err)
		}
		early = false
		c, err := Dial(t.Context(), Addresses([]string{"a"}), n, nil)
		if err != nil {
			t.Fatalf("Dial error = %v, want nil", err)
		}
		receive(t, c, "1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c.Close(ctx)
	})
}
