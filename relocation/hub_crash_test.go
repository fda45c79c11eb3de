package relocation

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// RL-01: what was handled and not committed when the server died comes again,
// marked, and the rest once, in order.
func TestCrashBeforeCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		r.start("b", nil)
		c := r.hello("a")
		c.send(6)
		c.awaitAck(6)
		r.links["a"].set(func() { r.links["a"].down = true })
		r.handle = func(ctx context.Context, hub string, _ *Session, m Message) error {
			if hub == "a" && m.Seq == 8 { // it never gets further
				<-ctx.Done()
			}
			return nil
		}
		c.send(10)
		synctest.Wait()
		r.kill("a")
		next := c.resume("b", 1, 0, 6)
		if next.said.In != 6 {
			t.Fatalf("RESUMED says %d, want 6", next.said.In)
		}
		next.send(10)
		next.awaitAck(10)
		got := r.handledBy("b")
		want := []string{"b:7:7!", "b:8:8!", "b:9:9!", "b:10:10!"}
		if !slices.Equal(got, want) {
			t.Errorf("b handled %q, want %q", got, want)
		}
		if got := r.handledBy("a"); !slices.Equal(got[:7], numbers("a", 1, 7, "")) {
			t.Errorf("a handled %q", got)
		}
	})
}

// RL-01: with a handler that commits the number with its effect, the effect is
// there once.
func TestCrashAtomic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var effects []uint64 // the handler's database
		opts := &HubOptions{Mode: Atomic, Position: func(context.Context, string) (uint64, error) {
			mu.Lock()
			defer mu.Unlock()
			return uint64(len(effects)), nil
		}}
		r := newHubRig(t)
		r.start("a", opts)
		r.start("b", opts)
		r.handle = func(_ context.Context, _ string, _ *Session, m Message) error {
			mu.Lock()
			defer mu.Unlock()
			effects = append(effects, m.Seq)
			return nil
		}
		c := r.hello("a")
		c.send(6)
		c.awaitAck(6)
		r.links["a"].set(func() { r.links["a"].down = true })
		c.send(7)
		synctest.Wait()
		r.kill("a")
		next := c.resume("b", 1, 0, 6)
		if next.said.In != 7 {
			t.Fatalf("RESUMED says %d, want 7, which has its effect", next.said.In)
		}
		next.send(10)
		next.awaitAck(10)
		if want := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(effects, want) {
			t.Errorf("effects %v, want %v", effects, want)
		}
	})
}

// RL-01: the instance that took over tells the client of an effect only when the
// store has it too. Else the client would know more than the store when it
// comes to a third.
func TestCrashAtomicTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := &HubOptions{Mode: Atomic, Position: func(context.Context, string) (uint64, error) { return 7, nil }}
		r := newHubRig(t)
		for _, name := range []string{"a", "b", "c"} {
			r.start(name, opts)
		}
		c := r.hello("a")
		r.links["a"].set(func() { r.links["a"].down = true })
		c.send(7)
		synctest.Wait()
		r.kill("a")
		r.links["b"].set(func() { r.links["b"].commit = func(Update) error { return errDown } })
		if rej := c.refused("b", c.resumption(1, 0, 0)); rej.Code != rejectBusy {
			t.Errorf("got %+v of an instance that cannot commit, want busy", rej)
		}
		next := c.resume("c", 2, 0, 0)
		if next.said.In != 7 {
			t.Fatalf("RESUMED says %d, want 7", next.said.In)
		}
		r.kill("c")
		r.links["b"].set(func() { r.links["b"].commit = nil })
		next.resume("b", 3, 0, 7)
	})
}

// RL-02: what was committed is not handled again when only its
// acknowledgement was lost.
func TestCrashAfterCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		r.start("b", nil)
		c := r.hello("a")
		r.net.Freeze("a", ToClient)
		c.send(7)
		synctest.Wait()
		r.kill("a")
		next := c.resume("b", 1, 0, 0)
		if next.said.In != 7 {
			t.Errorf("RESUMED says %d, want 7", next.said.In)
		}
		next.wantQuiet(time.Second)
		r.wantHandled(numbers("a", 1, 7, "")...)
	})
}

// RL-03: the server goes on after what the client says it has, and the store
// forgets the rest.
func TestResumeAfterLostAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		b := r.start("b", nil)
		c := r.hello("a")
		for range 20 {
			c.sendFrom(r.hubs["a"], "x")
			c.awaitData()
		}
		r.kill("a")
		next := c.resume("b", 1, 20, 0)
		c.sendFrom(b, "next")
		next.wantData("21:next")
		synctest.Wait()
		left, err := r.store.Read(t.Context(), c.session(), 0, 1<<20)
		if err != nil || len(left) != 1 || left[0].Seq != 21 {
			t.Errorf("the store has %v (%v), want 21 alone", left, err)
		}
	})
}

// RL-47: what was appended reaches the client though its server died before it
// wrote it.
func TestCrashBeforeWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		r.start("b", nil)
		c := r.hello("a")
		r.net.Freeze("a", ToClient)
		c.sendFrom(a, "one", "two")
		r.kill("a")
		next := c.resume("b", 1, 0, 0)
		if next.said.Out != 2 {
			t.Errorf("RESUMED says %d messages wait, want 2", next.said.Out)
		}
		next.wantData("1:one", "2:two")
	})
}

// A handler that fails, or panics, or ends its goroutine: the message comes
// again, marked, after the transport was dropped; others are not in doubt.
func TestHandlerFails(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return context.Canceled },
		"panic": func() error { panic("secret") },
		"goexit": func() error {
			runtime.Goexit()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHubRig(t)
				r.start("a", nil)
				r.start("b", nil)
				failed := false
				r.handle = func(_ context.Context, _ string, _ *Session, m Message) error {
					if m.Seq == 3 && !failed {
						failed = true
						return fail()
					}
					return nil
				}
				c := r.hello("a")
				c.send(4)
				c.wantClosed(CloseRetry)
				start := time.Now()
				next := c.resume("b", 1, 0, 0)
				if took := time.Since(start); took > 0 {
					t.Errorf("resuming took %v, want no wait for a lease", took)
				}
				if next.said.In != 2 {
					t.Errorf("RESUMED says %d, want 2", next.said.In)
				}
				next.send(5)
				next.awaitAck(5)
				r.wantHandled("a:1:1", "a:2:2", "a:3:3", "b:3:3!", "b:4:4!", "b:5:5")
			})
		})
	}
}

// After the mere loss of a transport nothing is in doubt, so nothing is
// marked, on whatever instance.
func TestLossIsNoDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		r.start("b", nil)
		c := r.hello("a")
		release := make(chan struct{})
		r.handle = func(_ context.Context, _ string, _ *Session, m Message) error {
			if m.Seq == 3 {
				<-release
			}
			return nil
		}
		c.send(5)
		synctest.Wait()
		r.net.Cut("a")
		time.AfterFunc(500*time.Millisecond, func() { close(release) })
		start := time.Now()
		next := c.resume("b", 1, 0, 0) // waits for the handler
		if took := time.Since(start); took != 500*time.Millisecond {
			t.Errorf("resuming took %v, want 500ms, when the handler has finished", took)
		}
		next.send(5)
		next.awaitAck(5)
		r.wantHandled("a:1:1", "a:2:2", "a:3:3", "b:4:4", "b:5:5")
	})
}

// A doubt ends when all is committed that may have been handled before: what
// follows is not marked, however it comes again.
func TestDoubtEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		r.start("b", nil)
		r.handle = func(_ context.Context, hub string, _ *Session, m Message) error {
			if hub == "b" && m.Seq >= 3 {
				time.Sleep(200 * time.Millisecond)
			}
			return nil
		}
		c := r.hello("a")
		c.send(1)
		c.awaitAck(1)
		r.links["a"].set(func() { r.links["a"].down = true })
		c.send(2)
		synctest.Wait()
		r.kill("a")
		c = c.resume("b", 1, 0, 1)
		c.send(4)
		time.Sleep(100 * time.Millisecond)
		r.net.Cut("b")
		c = c.resume("b", 2, 0, 1)
		c.send(4)
		c.awaitAck(4)
		r.wantHandled("a:1:1", "a:2:2", "b:2:2!", "b:3:3", "b:4:4")
	})
}
