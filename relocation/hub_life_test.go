package relocation

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// RL-32 and RL-23: the time in which a session can be resumed counts from the
// drop, however long it was idle; then it is remembered how far it came, and
// then nothing.
func TestResumeTimeCountsFromTheDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		r.start("b", nil)
		c := r.hello("a")
		c.send(2)
		c.awaitAck(2)
		for range 3 * 60 * 6 { // three hours
			time.Sleep(10 * time.Second)
			c.write(appendNumber(nil, kindPing, 7))
			c.awaitAck(2)
			if k, body := c.frame(); k != kindPong || body[0] != 7 {
				t.Fatalf("got frame 0x%02x, want PONG after the ACK", byte(k))
			}
		}
		r.net.Cut("a")
		time.Sleep(DefaultResume - time.Second)
		c = c.resume("b", 1, 0, 2)
		if c.said.In != 2 {
			t.Errorf("RESUMED says %d, want 2", c.said.In)
		}
		r.net.Cut("b")
		time.Sleep(DefaultResume + time.Second)
		if rej := c.refused("a", c.resumption(2, 0, 2)); rej.Code != rejectExpired || rej.Handled != 2 {
			t.Errorf("after its time the session is %+v, want expired, handled up to 2", rej)
		}
		time.Sleep(DefaultTombstone)
		if rej := c.refused("a", c.resumption(3, 0, 2)); rej.Code != rejectUnknown {
			t.Errorf("after the tombstone's time it is %+v, want unknown", rej)
		}
	})
}

// The same when the instance died with it.
func TestResumeTimeCountsFromTheCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		r.start("b", nil)
		c := r.hello("a")
		time.Sleep(30 * time.Second)
		r.kill("a")
		time.Sleep(DefaultResume - time.Second)
		c.resume("b", 1, 0, 0)
	})
}

// RL-33: a hundred drops, on two hubs in turn: every resume works and the
// numbers go on.
func TestManyDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		hubs := []string{"a", "b"}
		r.start("a", nil)
		r.start("b", nil)
		c := r.hello("a")
		for i := range uint64(100) {
			at := hubs[i%2]
			c.send(2*i + 2)
			c.awaitAck(2*i + 2)
			c.sendFrom(r.hubs[hubs[(i+1)%2]], "x")
			c.wantData(fmt.Sprintf("%d:x", i+1))
			if i%3 == 0 {
				c.ack(i + 1)
			}
			r.net.Cut(at)
			c = c.resume(hubs[(i+1)%2], i+1, i+1, 2*i+2)
			if c.said.In != 2*i+2 || c.said.Out != i+1 || c.said.Generation != i+2 {
				t.Fatalf("drop %d: RESUMED says in %d, out %d, generation %d", i, c.said.In, c.said.Out, c.said.Generation)
			}
		}
		if got := len(r.handled); got != 200 {
			t.Errorf("handled %d messages, want 200", got)
		}
	})
}

// A client of which nothing is heard is dropped, and its session can be
// resumed.
func TestSilentClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", &HubOptions{Ping: time.Second, Silence: time.Second})
		c := r.hello("a")
		start := time.Now()
		c.wantClosed(CloseRetry)
		if took := time.Since(start); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("dropped after %v, want ping and twice the silence", took)
		}
		c.resume("a", 1, 0, 0)
	})
}

// A handler that takes long stops neither heartbeats nor the lease.
func TestLongHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		r.handle = func(context.Context, string, *Session, Message) error {
			time.Sleep(time.Minute)
			return nil
		}
		c := r.hello("a")
		c.send(1)
		for range 5 {
			time.Sleep(10 * time.Second)
			c.write(appendNumber(nil, kindPing, 1))
			if k, _ := c.frame(); k != kindPong {
				t.Fatalf("got frame 0x%02x, want PONG", byte(k))
			}
		}
		c.awaitAck(1)
		r.wantHandled("a:1:1")
	})
}

// Attached runs while the session is attached, and no longer, though a handler
// does.
func TestAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", &HubOptions{Attached: func(ctx context.Context, s *Session) {
			r.note(fmt.Sprint("in ", s.Generation(), s.Principal()))
			<-ctx.Done()
			r.note(fmt.Sprint("out ", s.Generation()))
			if s.Generation() == 2 {
				panic("it is recovered")
			}
		}})
		r.handle = func(context.Context, string, *Session, Message) error {
			time.Sleep(time.Second)
			r.note("done")
			return nil
		}
		c := r.hello("a")
		synctest.Wait()
		c.send(1)
		synctest.Wait()
		r.net.Cut("a")
		c = c.resume("a", 1, 0, 0)
		synctest.Wait()
		c.write(appendClosing(nil, closing{Code: closeDone}))
		c.wantClosed(CloseNormal)
		synctest.Wait()
		r.wantHandled("in 1ada", "a:1:1", "out 1", "done", "in 2ada", "out 2")
	})
}

// An idle session costs the goroutine that reads.
func TestIdleGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		const n = 500
		r.hello("a")
		synctest.Wait()
		before := runtime.NumGoroutine()
		for range n {
			c := r.hello("a")
			c.send(2)
			c.awaitAck(2)
		}
		synctest.Wait()
		if got := runtime.NumGoroutine() - before; got > n {
			t.Errorf("%d idle sessions have %d goroutines, want one each", n, got)
		}
	})
}

// Close ends everything at once, and no session.
func TestHubClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		r.start("b", nil)
		var cause error // read after Close
		r.handle = func(ctx context.Context, hub string, _ *Session, m Message) error {
			if hub == "a" && m.Seq == 2 {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return ctx.Err()
			}
			return nil
		}
		c := r.hello("a")
		c.send(1)
		c.awaitAck(1)
		c.send(2)
		opening := r.dial("a") // says nothing
		synctest.Wait()
		start := time.Now()
		for range 2 {
			if err := a.Close(); err != nil {
				t.Errorf("Close error = %v", err)
			}
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("Close took %v", took)
		}
		if !errors.Is(cause, ErrClosed) {
			t.Errorf("the handler's context ended with %v, want ErrClosed", cause)
		}
		k, body := c.frame()
		if g, _ := parseGoAway(body); k != kindGoAway || !g.Final || g.In != 1 {
			t.Errorf("got frame 0x%02x %+v, want the final GOAWAY, in 1", byte(k), g)
		}
		c.wantClosed(CloseRestart)
		opening.wantClosed(CloseRetry)
		if _, err := a.Send(t.Context(), c.session(), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Send error = %v, want ErrClosed", err)
		}
		if err := a.Drain(t.Context(), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Drain error = %v, want ErrClosed", err)
		}
		late := r.dial("a")
		if rej := late.rejected(); rej.Code != rejectMoved {
			t.Errorf("after Close an opening gets %+v, want moved", rej)
		}
		next := c.resume("b", 1, 0, 1)
		next.send(2)
		next.awaitAck(2)
		r.wantHandled("a:1:1", "a:2:2", "b:2:2!")
	})
}

// Close does not wait for a store that hangs.
func TestHubCloseHungStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		c := r.hello("a")
		r.links["a"].set(func() { r.links["a"].hang = true })
		c.send(1)
		go a.Send(t.Context(), c.session(), []byte("x"))
		synctest.Wait()
		start := time.Now()
		a.Close()
		if took := time.Since(start); took > 3500*time.Millisecond {
			t.Errorf("Close took %v with a store that hangs", took)
		}
	})
}

// Serve ends with its context, and the client is told to go elsewhere.
func TestServeContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		c := r.hello("a")
		go r.stops["a"]()
		synctest.Wait()
		if err := r.lastServed(); err == nil {
			t.Errorf("Serve error = nil")
		}
		r.start("b", nil)
		c.resume("b", 1, 0, 0)
	})
}

// What can never work is said by every operation, and nothing panics.
func TestBadHubs(t *testing.T) {
	store := NewMemoryStore(nil)
	handler := func(context.Context, *Session, Message) error { return nil }
	for name, h := range map[string]*Hub{
		"nil":         nil,
		"zero":        new(Hub),
		"no store":    NewHub(nil, handler, nil),
		"no handler":  NewHub(store, nil, nil),
		"short key":   NewHub(store, handler, &HubOptions{Keys: [][]byte{[]byte("short")}}),
		"no position": NewHub(store, handler, &HubOptions{Mode: Atomic}),
		"mode":        NewHub(store, handler, &HubOptions{Mode: 7}),
		"lease":       NewHub(store, handler, &HubOptions{Lease: -1}),
		"long lease":  NewHub(store, handler, &HubOptions{Lease: 1 << 62}),
		"resume":      NewHub(store, handler, &HubOptions{Resume: -1}),
		"window":      NewHub(store, handler, &HubOptions{Window: -1}),
		"bytes":       NewHub(store, handler, &HubOptions{MaxUnackedBytes: -1}),
		"name":        NewHub(store, handler, &HubOptions{Name: string(make([]byte, 65))}),
	} {
		if _, err := h.Send(t.Context(), "x", nil); !isInvalid(err) {
			t.Errorf("%s: Send error = %v, want ErrInvalid", name, err)
		}
		if err := h.Drain(t.Context(), nil); !isInvalid(err) {
			t.Errorf("%s: Drain error = %v, want ErrInvalid", name, err)
		}
		if err := h.Serve(t.Context(), nil, Principal{}); !isInvalid(err) {
			t.Errorf("%s: Serve error = %v, want ErrInvalid", name, err)
		}
		if h.Ready() || h.Stats() != (HubStats{}) || h.Close() != nil {
			t.Errorf("%s: Ready, Stats or Close of a hub that cannot work", name)
		}
	}
	var s *Session
	if s.ID() != "" || s.Principal() != "" || s.Generation() != 0 || !isInvalid(s.Reply(nil)) || !isInvalid(new(Session).Reply(nil)) {
		t.Errorf("a nil Session does something")
	}
}
