package relocation

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// RL-18: an instance that was stopped while another took its session changes
// nothing any more, ends the handler's context and the transport, and calls
// the handler no more.
func TestStoppedOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		b := r.start("b", nil)
		causes := make(chan error, 1)
		r.handle = func(ctx context.Context, hub string, s *Session, m Message) error {
			if hub == "a" && m.Seq == 3 {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return s.Reply([]byte("late"))
			}
			return nil
		}
		c := r.hello("a")
		c.send(2)
		c.awaitAck(2)
		c.send(3)
		synctest.Wait()
		link := r.links["a"]
		link.set(func() { link.hang = true })
		next := c.resume("b", 1, 0, 2)
		link.set(func() { link.hang = false })
		c.send(4) // by a client that does not know; a must not handle it
		for range 2 {
			if k, _, err := c.next(); err != nil || k != kindReject {
				break
			}
		}
		next.send(4)
		next.awaitAck(4)
		time.Sleep(10 * time.Second)
		r.wantHandled("a:1:1", "a:2:2", "a:3:3", "b:3:3!", "b:4:4")
		cause := <-causes
		if !errors.Is(cause, ErrFenced) && !errors.Is(cause, errLeaseLost) {
			t.Errorf("the handler's context ended with %v, want ErrFenced or the lease lost", cause)
		}
		if s := a.Stats(); s.Sessions != 0 || s.Fenced+s.Lost != 1 {
			t.Errorf("a has %+v, want no session, and one that was fenced or lost", s)
		}
		if got := b.Stats().Sessions; got != 1 {
			t.Errorf("b has %d sessions, want 1", got)
		}
		next.wantQuiet(time.Second) // no reply of a's
	})
}

// RL-18: the first request of an owner that was forced out tells it, and its
// transport is told.
func TestForcedOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		r.start("b", nil)
		c := r.hello("a")
		r.links["a"].set(func() { r.links["a"].deaf = true })
		block := make(chan struct{})
		r.handle = func(_ context.Context, hub string, _ *Session, _ Message) error {
			if hub == "a" {
				<-block
			}
			return nil
		}
		c.send(1)
		synctest.Wait()
		start := time.Now()
		next := c.resume("b", 1, 0, 0)
		if took := time.Since(start); took != DefaultHandoffGrace {
			t.Errorf("taking the session took %v, want the grace of %v", took, DefaultHandoffGrace)
		}
		close(block) // a commits, in vain
		if rej := c.rejected(); rej.Code != rejectSuperseded {
			t.Errorf("the old transport was told %+v, want superseded", rej)
		}
		c.wantClosed(CloseRefused)
		next.send(1)
		next.awaitAck(1)
		r.wantHandled("a:1:1", "b:1:1!")
	})
}

// RL-19: an instance that is cut off from the store stops handling, not only
// acknowledging, and lets its client go.
func TestCutFromStore(t *testing.T) {
	for name, cut := range map[string]func(*storeLink){
		"refused": func(l *storeLink) { l.down = true },
		"hangs":   func(l *storeLink) { l.hang = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHubRig(t)
				a := r.start("a", nil)
				r.start("b", nil)
				c := r.hello("a")
				c.send(1)
				c.awaitAck(1)
				link := r.links["a"]
				link.set(func() { cut(link) })
				start := time.Now()
				c.send(2)
				for c.sent < 20 {
					time.Sleep(200 * time.Millisecond)
					c.send(c.sent + 1)
				}
				c.wantClosed(CloseRetry)
				if took := time.Since(start); took > DefaultLease {
					t.Errorf("the client was let go after %v, want within the lease of %v", took, DefaultLease)
				}
				handled := len(r.handledBy("a"))
				next := c.resume("b", 1, 0, 1)
				next.again = 20
				next.send(20)
				next.awaitAck(20)
				time.Sleep(10 * time.Second)
				if got := len(r.handledBy("a")); got != handled {
					t.Errorf("a handled %d more after it had lost the session", got-handled)
				}
				if s := a.Stats(); s.Sessions != 0 || s.Lost != 1 {
					t.Errorf("a has %+v, want no session, and one lost", s)
				}
				// What a handled and could not commit, b was told to doubt.
				for _, h := range r.handledBy("b") {
					if h[len(h)-1] != '!' {
						t.Errorf("b handled %q, unmarked", h)
					}
				}
			})
		})
	}
}

// While the store does not answer, the handler is not called for more than was
// under way: less is handled twice.
func TestStoreTroublePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		c := r.hello("a")
		link := r.links["a"]
		link.set(func() { link.down = true })
		c.send(1)
		synctest.Wait()
		c.send(5)
		time.Sleep(time.Second)
		r.wantHandled("a:1:1")
		link.set(func() { link.down = false })
		c.awaitAck(5)
		r.wantHandled(numbers("a", 1, 5, "")...)
	})
}

// RL-21: of two clients with one token the later attempt has the session, the
// other is told so and cannot take it back.
func TestTwoClientsOneToken(t *testing.T) {
	for _, hub := range []string{"a", "b"} {
		t.Run("resumed at "+hub, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHubRig(t)
				r.start("a", nil)
				r.start("b", nil)
				c := r.hello("a")
				c.send(1)
				c.awaitAck(1)
				copied := c.resume(hub, 1, 0, 1)
				if rej := c.rejected(); rej.Code != rejectSuperseded {
					t.Errorf("the first client is told %+v, want superseded", rej)
				}
				c.wantClosed(CloseRefused)
				if rej := c.refused(hub, c.resumption(1, 0, 1)); rej.Code != rejectSuperseded {
					t.Errorf("the same attempt gets %+v, want superseded", rej)
				}
				copied.ack(0) // it has read RESUMED
				synctest.Wait()
				for _, at := range []string{"a", "b"} {
					if rej := c.refused(at, c.resumption(7, 0, 1)); rej.Code != rejectTaken {
						t.Errorf("a later attempt with the old token gets %+v at %s, want taken", rej, at)
					}
				}
				copied.send(2)
				copied.awaitAck(2)
			})
		})
	}
}

// A claim that is not good does not disturb the session, on the same hub and
// on another.
func TestBadClaimsDisturbNobody(t *testing.T) {
	for _, hub := range []string{"a", "b"} {
		t.Run("at "+hub, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHubRig(t)
				a := r.start("a", nil)
				r.start("b", nil)
				c := r.hello("a").resume("a", 3, 0, 0)
				c.sendFrom(a, "one", "two")
				c.wantData("1:one", "2:two")
				c.ack(2)
				synctest.Wait()
				for _, test := range []struct {
					o    opening
					want rejectCode
				}{
					{c.resumption(3, 2, 0), rejectSuperseded},
					{c.resumption(4, 1, 0), rejectTaken},
					{c.resumption(4, 3, 0), rejectRegressed},
					{c.resumption(4, 2, 9), rejectRegressed},
				} {
					if hub == "a" && test.want == rejectRegressed {
						continue // a asks the store, for what it knows may be old
					}
					if rej := c.refused(hub, test.o); rej.Code != test.want {
						t.Errorf("attempt %d, received %d, acked %d: %+v, want code %d",
							test.o.Attempt, test.o.Received, test.o.Acked, rej, test.want)
					}
				}
				c.send(1)
				c.awaitAck(1)
			})
		})
	}
}

// An owner that is asked to yield gives nothing more to the handler, lets the
// one that runs end, commits, and releases; by another hub and by its own.
func TestYield(t *testing.T) {
	for _, hub := range []string{"a", "b"} {
		t.Run("to "+hub, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHubRig(t)
				r.start("a", nil)
				r.start("b", nil)
				slow := true
				r.handle = func(_ context.Context, _ string, s *Session, m Message) error {
					if slow {
						time.Sleep(330 * time.Millisecond)
					}
					return s.Reply(m.Data)
				}
				c := r.hello("a")
				c.send(3)
				time.Sleep(100 * time.Millisecond)
				start := time.Now()
				next := c.resume(hub, 1, 0, 0)
				if took := time.Since(start); took != 230*time.Millisecond {
					t.Errorf("the owner yielded after %v, want 230ms, when the handler had ended", took)
				}
				if next.said.In != 1 {
					t.Errorf("RESUMED says %d, want 1", next.said.In)
				}
				next.send(3)
				next.wantData("1:1", "2:2", "3:3")
				r.wantHandled("a:1:1", hub+":2:2", hub+":3:3")
			})
		})
	}
}

// One that does not finish within the grace loses the session at once, also to
// its own hub.
func TestGraceOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		causes := make(chan error, 1)
		r.handle = func(ctx context.Context, _ string, s *Session, m Message) error {
			if s.Generation() == 1 {
				<-ctx.Done()
				causes <- context.Cause(ctx)
			}
			return nil
		}
		c := r.hello("a")
		c.send(1)
		synctest.Wait()
		start := time.Now()
		next := c.resume("a", 1, 0, 0)
		if took := time.Since(start); took != DefaultHandoffGrace {
			t.Errorf("taking the session took %v, want the grace of %v", took, DefaultHandoffGrace)
		}
		if cause := <-causes; !errors.Is(cause, ErrFenced) || time.Since(start) != DefaultHandoffGrace {
			t.Errorf("the handler's context ended with %v after %v, want ErrFenced at once", cause, time.Since(start))
		}
		next.send(1)
		next.awaitAck(1)
		r.wantHandled("a:1:1", "a:1:1!")
		if s := a.Stats(); s.Fenced != 1 {
			t.Errorf("stats %+v, want one fenced", s)
		}
	})
}

// A grace without end, or none, is fine.
func TestOddGrace(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{1<<63 - 1: DefaultLease * 2, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			r := newHubRig(t)
			r.start("a", nil)
			r.start("b", &HubOptions{HandoffGrace: grace})
			r.handle = func(_ context.Context, hub string, _ *Session, _ Message) error {
				if hub == "a" {
					time.Sleep(2 * DefaultLease)
				}
				return nil
			}
			c := r.hello("a")
			c.send(1)
			synctest.Wait()
			start := time.Now()
			c.resume("b", 1, 0, 0)
			if took := time.Since(start); took > want {
				t.Errorf("with a grace of %v taking the session took %v, want at most %v", grace, took, want)
			}
		})
	}
}

// Of two openings under way the later attempt has the session, in whatever
// order the hub hears of them.
func TestOpeningsMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		c := r.hello("a")
		r.net.Cut("a")
		synctest.Wait()
		held := make(chan struct{})
		r.links["a"].set(func() {
			r.links["a"].lateAttach = func(claim Claim) {
				if claim.Attempt == 1 {
					<-held
				}
			}
		})
		early := r.dial("a")
		early.write(appendOpening(nil, c.resumption(1, 0, 0)))
		synctest.Wait()
		late := c.resume("a", 2, 0, 0)
		close(held)
		if rej := early.rejected(); rej.Code != rejectSuperseded {
			t.Errorf("the earlier attempt gets %+v, want superseded", rej)
		}
		late.send(1)
		late.awaitAck(1)
	})
}

// An opening that is under way when Drain begins is sent elsewhere, and leaves
// nothing behind.
func TestOpeningMeetsDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		r.start("b", nil)
		c := r.hello("b")
		r.net.Cut("b")
		synctest.Wait()
		held := make(chan struct{})
		r.links["a"].set(func() { r.links["a"].lateAttach = func(Claim) { <-held } })
		early := r.dial("a")
		early.write(appendOpening(nil, c.resumption(1, 0, 0)))
		synctest.Wait()
		if err := a.Drain(t.Context(), &DrainOptions{Targets: []string{"b"}}); err != nil {
			t.Errorf("Drain error = %v", err)
		}
		close(held)
		if rej := early.rejected(); rej.Code != rejectMoved || len(rej.Locations) != 1 {
			t.Errorf("the opening gets %+v, want moved to b", rej)
		}
		start := time.Now()
		next := c.resume("b", 2, 0, 0)
		if took := time.Since(start); took > 0 {
			t.Errorf("resuming took %v, want no wait for a", took)
		}
		next.again = 1
		next.send(1)
		next.awaitAck(1)
		r.wantHandled("b:1:1")
	})
}

// RL-19: nothing is handed to the handler from the moment when the lease is not
// sure, whoever looks first.
func TestLeaseEndsBetweenLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		c := r.hello("a")
		time.Sleep(123 * time.Millisecond)
		c.send(1)
		c.awaitAck(1) // renews, at a time of its own
		r.links["a"].set(func() { r.links["a"].down = true })
		s := a.session(c.session())
		s.mu.Lock()
		valid := s.valid
		s.mu.Unlock()
		time.Sleep(time.Until(valid))
		c.send(2)
		c.wantClosed(CloseRetry)
		r.wantHandled("a:1:1")
	})
}

// A lease is over when either clock says so.
func TestLeaseByBothClocks(t *testing.T) {
	now := time.Now()
	until := now.Add(time.Second)
	for _, test := range []struct {
		mono, wall time.Duration
		want       bool
	}{{0, 0, true}, {time.Second, 0, false}, {0, time.Hour, false}, {0, -time.Hour, true}} {
		if got := lasts(until, now.Add(test.mono), now.Add(test.wall).Round(0)); got != test.want {
			t.Errorf("after %v, and %v by the clock on the wall: lasts = %v, want %v", test.mono, test.wall, got, test.want)
		}
	}
}

// A Yield that comes late ends no newer session.
func TestLateYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		c := r.hello("a").resume("a", 1, 0, 0)
		a.hear(Event{Kind: Yield, Session: c.session(), From: "b", Generation: 1})
		c.send(1)
		c.awaitAck(1)
	})
}
