package relocation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// dialHubs opens a session with hubs of a rig.
func dialHubs(r *hubRig, addrs ...string) *Conn {
	r.Helper()
	c, err := Dial(r.Context(), Addresses(addrs), r.net, nil)
	if err != nil {
		r.Fatalf("Dial error = %v, want nil", err)
	}
	r.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// onceInOrder checks what the handlers were given, whichever hub they are of:
// each message once, in order and unmarked.
func onceInOrder(r *hubRig, want int) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, text := range r.handled {
		if _, got, _ := strings.Cut(text, ":"); got != fmt.Sprintf("%d:%d", i+1, i+1) {
			r.Fatalf("the handling number %d is %q", i+1, text)
		}
	}
	if len(r.handled) != want {
		r.Errorf("%d messages were handled, want %d", len(r.handled), want)
	}
}

// RL-08: a drain under load moves the client with a pause of two round trips,
// and nothing is lost, doubled or marked, either way.
func TestConnMovesBetweenHubs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const way = 10 * time.Millisecond
		r := newHubRig(t)
		var handledAt []time.Time
		r.handle = func(_ context.Context, _ string, s *Session, m Message) error {
			r.mu.Lock()
			handledAt = append(handledAt, time.Now())
			r.mu.Unlock()
			return s.Reply(m.Data)
		}
		a := r.start("a", nil)
		r.start("b", nil)
		r.net.Delay("a", BothWays, way)
		r.net.Delay("b", BothWays, way)
		c := dialHubs(r, "a")
		states := watchStates(t, c)
		drained := make(chan error, 1)
		for i := range 400 {
			if i == 100 {
				go func() {
					drained <- a.Drain(context.Background(), &DrainOptions{Targets: []string{"b"}, ReadyDelay: -1, Spread: -1})
				}()
			}
			sendAll(t, c, fmt.Sprint(i+1))
			time.Sleep(time.Millisecond)
		}
		flush(t, c)
		onceInOrder(r, 400)
		for i := range 400 {
			if m := receive(t, c, fmt.Sprint(i+1)); m.Redelivered {
				t.Errorf("%q is marked", m.Data)
			}
		}
		if err := <-drained; err != nil {
			t.Errorf("Drain error = %v, want nil", err)
		}
		pause := time.Duration(0)
		for i := 1; i < len(handledAt); i++ {
			pause = max(pause, handledAt[i].Sub(handledAt[i-1]))
		}
		if pause > 4*way+2*time.Millisecond {
			t.Errorf("the pause was %v, want two round trips of %v", pause, 2*way)
		}
		if got := states(); len(got) != 3 || c.Addr() != "b" {
			t.Errorf("states %v at %q", got, c.Addr())
		}
		if s := c.Stats(); s.Duplicates != 0 || s.Resent != 0 || s.Moves != 1 {
			t.Errorf("Stats = %+v, want one move", s)
		}
	})
}

// RL-21: of two processes with one token, over hubs that share a store, one
// ends and one goes on.
func TestConnTakenBetweenHubs(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			r := newHubRig(t)
			r.start("a", nil)
			r.start("b", nil)
			c := dialHubs(r, "a", "b")
			sendAll(t, c, "1")
			flush(t, c)
			for _, addr := range []string{"a", "b"} {
				r.net.Refuse(addr, true)
				r.net.Cut(addr)
			}
			fakeState(t, c, Reconnecting)
			d := cloned(c)
			for _, addr := range []string{"a", "b"} {
				r.net.Refuse(addr, false)
			}
			time.Sleep(time.Minute)
			loser, winner := c, d
			if c.State() != Closed {
				loser, winner = d, c
			}
			if loser.State() != Closed || winner.State() != Connected {
				t.Fatalf("the two are %v and %v, want CLOSED and CONNECTED", loser.State(), winner.State())
			}
			if err := loser.Send(t.Context(), nil); !errors.Is(err, ErrSessionTaken) {
				t.Errorf("Send error = %v, want ErrSessionTaken", err)
			}
			if n := c.Stats().Connections + d.Stats().Connections; n > 5 {
				t.Errorf("%d connections, want a few: they took it from each other", n)
			}
			sendAll(t, winner, "2")
			flush(t, winner)
			onceInOrder(r, 2)
			if err := d.Close(t.Context()); err != nil {
				t.Errorf("Close error = %v, want nil", err)
			}
		})
	}
}

// RL-37: a Close that comes while a hub resumes the session ends it in the
// store, not only when it expires.
func TestConnClosesDuringResumeAtHub(t *testing.T) {
	for ms := range 60 {
		synctest.Test(t, func(t *testing.T) {
			r := newHubRig(t)
			a := r.start("a", nil)
			r.start("b", nil)
			c := dialHubs(r, "a")
			id := r.onlySession("a")
			for _, addr := range []string{"a", "b"} {
				r.net.Delay(addr, BothWays, 10*time.Millisecond)
			}
			go func() {
				_ = a.Drain(context.Background(), &DrainOptions{Targets: []string{"b"}, ReadyDelay: -1, Spread: -1})
			}()
			time.Sleep(time.Duration(2*ms) * time.Millisecond)
			if err := c.Close(t.Context()); err != nil {
				t.Errorf("Close error = %v, want nil", err)
			}
			if _, err := r.store.Read(t.Context(), id, 0, 1); !errors.Is(err, ErrExpired) {
				t.Errorf("after %dms: the store says %v, want ErrExpired", 2*ms, err)
			}
		})
	}
}

// RL-04: what Send took while the path was dead is handled once.
func TestConnFrozenPathToHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		r.start("b", nil)
		c := dialHubs(r, "a")
		c.addrs = Addresses([]string{"a", "b"})
		r.net.Freeze("a", BothWays)
		sendAll(t, c, numbered(1, 5000)...)
		flush(t, c)
		onceInOrder(r, 5000)
	})
}
