package relocation

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func (c *fakeClient) awaitGoAway() goAway {
	c.r.Helper()
	k, body := c.frame()
	g, err := parseGoAway(body)
	if k != kindGoAway || err != nil {
		c.r.Fatalf("got frame 0x%02x (%v), want GOAWAY", byte(k), err)
	}
	return g
}

// RL-51: readiness first, then the wait, then GOAWAY; who comes meanwhile is
// told where to go; all is handled, committed and released before Drain
// returns.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		r.start("b", nil)
		r.handle = func(_ context.Context, hub string, s *Session, m Message) error {
			if hub == "a" {
				time.Sleep(100 * time.Millisecond)
			}
			return s.Reply(m.Data)
		}
		c := r.hello("a")
		drained := make(chan error, 1)
		start := time.Now()
		go func() {
			drained <- a.Drain(t.Context(), &DrainOptions{
				Targets: []string{"b"}, ReadyDelay: 2 * time.Second, Spread: 3 * time.Second, Deadline: 20 * time.Second,
			})
		}()
		synctest.Wait()
		if a.Ready() {
			t.Errorf("Ready while draining")
		}
		rej := (&fakeClient{r: r}).refused("a", testOpening())
		if rej.Code != rejectMoved || !slices.Equal(rej.Locations, []string{"b"}) {
			t.Errorf("an opening gets %+v, want moved to b", rej)
		}
		g := c.awaitGoAway()
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("GOAWAY came after %v, want the delay of 2s", took)
		}
		if g.Final || g.Spread != 3*time.Second || g.Deadline != 20*time.Second || !slices.Equal(g.Locations, []string{"b"}) {
			t.Errorf("GOAWAY says %+v", g)
		}
		// It goes on working, and then leaves.
		c.send(2)
		c.wantData("1:1", "2:2")
		c.send(4)
		c.write(appendNumber(nil, kindBye, 4))
		c.awaitAck(4)
		k, body := c.frame()
		if in, _ := parseNumber(body); k != kindFin || in != 4 {
			t.Errorf("got frame 0x%02x %d, want FIN 4", byte(k), in)
		}
		moved := time.Now()
		next := c.resume("b", 1, 2, 2)
		if took := time.Since(moved); took > 0 {
			t.Errorf("resuming after FIN took %v, want no wait", took)
		}
		if next.said.In != 4 {
			t.Errorf("RESUMED says %d, want 4", next.said.In)
		}
		next.wantData("3:3", "4:4")
		c.wantClosed(CloseNormal)
		if err := <-drained; err != nil {
			t.Errorf("Drain error = %v", err)
		}
		if err := r.lastServed(); err != nil {
			t.Errorf("Serve error = %v, want nil", err)
		}
		if got := a.Stats(); got.Sessions != 0 || got.Released != 1 {
			t.Errorf("stats %+v, want no session, one released", got)
		}
		r.wantHandled(numbers("a", 1, 4, "")...)
	})
}

// RL-12: a client that stays is told at the deadline, with the number of the
// last message committed, and its transport is closed with 1012; its session
// can be resumed.
func TestDrainDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		r.start("b", nil)
		r.handle = func(_ context.Context, hub string, _ *Session, m Message) error {
			if hub == "a" && m.Seq == 3 {
				time.Sleep(5500 * time.Millisecond) // half a second beyond the deadline
			}
			return nil
		}
		c := r.hello("a")
		c.send(2)
		c.awaitAck(2)
		start := time.Now()
		drained := make(chan error, 1)
		go func() { drained <- a.Drain(t.Context(), &DrainOptions{Deadline: 5 * time.Second, Spread: -1}) }()
		if g := c.awaitGoAway(); g.Final || g.Spread != 0 {
			t.Errorf("first GOAWAY %+v", g)
		}
		c.send(4)
		synctest.Wait()
		c.awaitAck(3)
		if g := c.awaitGoAway(); !g.Final || g.In != 3 {
			t.Errorf("last GOAWAY %+v, want final, in 3", g)
		}
		c.wantClosed(CloseRestart)
		if err := <-drained; err != nil || time.Since(start) != 5500*time.Millisecond {
			t.Errorf("Drain error = %v after %v", err, time.Since(start))
		}
		next := c.resume("b", 1, 0, 3)
		next.send(4)
		next.awaitAck(4)
		r.wantHandled("a:1:1", "a:2:2", "a:3:3", "b:4:4")
	})
}

// A handler that takes too long keeps its client no longer than a second after
// the deadline, and Drain no longer than its context.
func TestDrainLongHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		block := make(chan struct{})
		r.handle = func(_ context.Context, _ string, _ *Session, m Message) error {
			<-block
			return nil
		}
		c := r.hello("a")
		c.send(1)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		drained := make(chan error, 1)
		go func() { drained <- a.Drain(ctx, nil) }()
		if g := c.awaitGoAway(); g.Deadline != 9*time.Second || g.Spread > 7*time.Second {
			t.Errorf("GOAWAY %+v, want within the context of Drain", g)
		}
		if g := c.awaitGoAway(); !g.Final || g.In != 0 {
			t.Errorf("last GOAWAY %+v", g)
		}
		c.wantClosed(CloseRestart)
		if err := <-drained; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain error = %v, want the context's", err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("Drain took %v, want 10s", took)
		}
		close(block)
	})
}

// Of many targets each client gets some, not all the same first.
func TestDrainTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		var targets []string
		for i := range 40 {
			targets = append(targets, string(rune('A'+i)))
		}
		var clients []*fakeClient
		for range 30 {
			clients = append(clients, r.hello("a"))
		}
		go a.Drain(t.Context(), &DrainOptions{Targets: targets, Deadline: time.Second})
		first := make(map[string]bool)
		for _, c := range clients {
			g := c.awaitGoAway()
			if len(g.Locations) != maxLocations {
				t.Fatalf("%d locations, want %d", len(g.Locations), maxLocations)
			}
			first[g.Locations[0]] = true
		}
		if len(first) < 10 {
			t.Errorf("30 clients are sent to %d targets first", len(first))
		}
	})
}

// What cannot be a target is refused, and nothing begins.
func TestDrainBadTargets(t *testing.T) {
	r := newHubRig(t)
	a := r.start("a", nil)
	for _, target := range []string{"", string(make([]byte, 257))} {
		if err := a.Drain(t.Context(), &DrainOptions{Targets: []string{target}}); !isInvalid(err) {
			t.Errorf("Drain to a target of %d bytes: error = %v, want ErrInvalid", len(target), err)
		}
	}
	if !a.Ready() {
		t.Errorf("not Ready after a Drain that was refused")
	}
	if err := a.Drain(t.Context(), &DrainOptions{ReadyDelay: -1, Spread: 1 << 62, Deadline: 1 << 62}); err != nil {
		t.Errorf("Drain of nothing: error = %v", err)
	}
}

// A lost transport during BYE: what was not handled is handled elsewhere.
func TestByeThenLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		r.start("b", nil)
		r.handle = func(_ context.Context, hub string, _ *Session, _ Message) error {
			if hub == "a" {
				time.Sleep(300 * time.Millisecond)
			}
			return nil
		}
		c := r.hello("a")
		c.send(3)
		c.write(appendNumber(nil, kindBye, 3))
		synctest.Wait()
		r.net.Cut("a")
		next := c.resume("b", 1, 0, 0)
		next.send(3)
		next.awaitAck(3)
		r.wantHandled("a:1:1", "b:2:2", "b:3:3")
	})
}
