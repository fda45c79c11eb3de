package relocation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
)

// RL-46: what any instance appends while the session moves comes from the new
// owner, once, in the order of the store.
func TestAppendWhileMoving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		r.start("b", nil)
		other := r.start("other", nil)
		c := r.hello("a")
		id := c.session()
		const n = 400
		var mu sync.Mutex
		texts := make(map[uint64]string)
		var senders sync.WaitGroup
		for i := range 4 {
			senders.Go(func() {
				for j := range n / 4 {
					text := fmt.Sprintf("%d.%d", i, j)
					seq, err := other.Send(t.Context(), id, []byte(text))
					if err != nil {
						t.Errorf("Send error = %v", err)
						return
					}
					mu.Lock()
					if texts[seq] != "" {
						t.Errorf("number %d was given twice", seq)
					}
					texts[seq] = text
					mu.Unlock()
					time.Sleep(time.Millisecond)
				}
			})
		}
		var received uint64
		got := make(map[uint64]string)
		for move := uint64(1); received < n; move++ {
			for range 20 {
				if received == n {
					break
				}
				m := c.awaitData()
				if m.Seq != received+1 {
					t.Fatalf("got %d after %d", m.Seq, received)
				}
				received, got[m.Seq] = m.Seq, string(m.Data)
			}
			switch move % 3 {
			case 0:
				c.ack(received)
			case 1:
				r.net.Cut([]string{"a", "b"}[(move-1)%2])
			}
			c = c.resume([]string{"a", "b"}[move%2], move, received, 0)
		}
		senders.Wait()
		for seq, text := range texts {
			if got[seq] != text {
				t.Errorf("%d came as %q, want %q", seq, got[seq], text)
			}
		}
	})
}

// Concurrent sends are appended together, in the order in which they came.
func TestSendTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		c := r.hello("a")
		batches := 0
		r.links["a"].set(func() {
			r.links["a"].append = func(Batch) error {
				batches++
				time.Sleep(time.Millisecond)
				return nil
			}
		})
		var calls sync.WaitGroup
		for i := range uint64(100) {
			calls.Go(func() {
				if seq, err := a.Send(t.Context(), c.session(), fmt.Append(nil, i+1)); seq != i+1 || err != nil {
					t.Errorf("Send returned %d, %v, want %d", seq, err, i+1)
				}
			})
			synctest.Wait()
		}
		calls.Wait()
		for i := range 100 {
			c.wantData(fmt.Sprintf("%d:%d", i+1, i+1))
		}
		if batches > 3 {
			t.Errorf("100 concurrent sends made %d requests", batches)
		}
	})
}

// A Send whose context ends says what it knows: not sent, or unknown.
func TestSendContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		c := r.hello("a")
		link := r.links["a"]
		link.set(func() { link.hang = true })
		first, cancelFirst := context.WithCancel(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		errs := make([]error, 2)
		var calls sync.WaitGroup
		for i, ctx := range []context.Context{first, ctx} {
			calls.Go(func() { _, errs[i] = a.Send(ctx, c.session(), fmt.Append(nil, i)) })
			synctest.Wait()
		}
		cancel() // while it waits for the first
		synctest.Wait()
		cancelFirst()
		calls.Wait()
		if !errors.Is(errs[0], transparency.ErrUncertain) || !errors.Is(errs[0], context.Canceled) {
			t.Errorf("the first Send: error = %v, want ErrUncertain and the context's", errs[0])
		}
		if errors.Is(errs[1], transparency.ErrUncertain) || !errors.Is(errs[1], context.Canceled) {
			t.Errorf("the second Send: error = %v, want the context's alone", errs[1])
		}
		if _, err := a.Send(ctx, c.session(), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Send with an ended context: error = %v", err)
		}
		link.set(func() { link.hang = false })
		time.Sleep(10 * time.Second)
		seq, err := a.Send(t.Context(), c.session(), []byte("x"))
		if err != nil || seq > 2 {
			t.Errorf("Send returned %d, %v: the second was sent", seq, err)
		}
	})
}

// What Send is told by the store, and what it refuses by itself.
func TestSendErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", &HubOptions{MaxMessage: 10})
		c := r.hello("a")
		if _, err := a.Send(t.Context(), "nobody", nil); !errors.Is(err, ErrUnknown) {
			t.Errorf("Send to nobody: error = %v, want ErrUnknown", err)
		}
		if _, err := a.Send(t.Context(), c.session(), make([]byte, 11)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Send of 11 bytes: error = %v, want ErrTooLarge", err)
		}
		link := r.links["a"]
		link.set(func() { link.down = true })
		if _, err := a.Send(t.Context(), c.session(), nil); !transparency.Retryable(err) {
			t.Errorf("Send without a store: error = %v, want one that is safe to retry", err)
		}
		link.set(func() { link.down, link.lateAppend = false, func(Batch) error { return errUncertain } })
		if _, err := a.Send(t.Context(), c.session(), nil); !errors.Is(err, transparency.ErrUncertain) {
			t.Errorf("Send without answers: error = %v, want ErrUncertain", err)
		}
	})
}

// A message that the client takes from nobody ends the session in a named
// error.
func TestTooLargeForTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		c := r.dial("a")
		o := testOpening()
		o.MaxMessage = 3
		c.write(appendOpening(nil, o))
		c.opened(kindWelcome)
		c.sendFrom(a, "123", "1234")
		c.wantData("1:123")
		k, body := c.frame()
		if said, _ := parseClosing(body); k != kindClose || said.Code != closeTooLarge {
			t.Errorf("got frame 0x%02x %+v, want CLOSE, too large", byte(k), said)
		}
		c.wantClosed(CloseNormal)
		if rej := c.refused("a", c.resumption(1, 1, 0)); rej.Code != rejectExpired {
			t.Errorf("resuming gets %+v, want expired", rej)
		}
	})
}

// With hints, they come at once.
func TestSendHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		b := r.start("b", nil)
		c := r.hello("a")
		c.sendFrom(b, "one")
		start := time.Now()
		c.wantData("1:one")
		if took := time.Since(start); took > 0 {
			t.Errorf("it came after %v, want at once", took)
		}
	})
}

// Without hints, new messages are found when the lease is renewed.
func TestSendWithoutHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		b := r.start("b", nil)
		c := r.hello("a")
		r.links["a"].set(func() { r.links["a"].deaf = true })
		c.sendFrom(b, "one")
		start := time.Now()
		c.wantData("1:one")
		if took := time.Since(start); took > DefaultLease/2 {
			t.Errorf("it came after %v, want with the next renewal", took)
		}
		a := r.hubs["a"]
		c.sendFrom(b, "two")
		a.hear(Event{Kind: Missed})
		start = time.Now()
		c.wantData("2:two")
		if took := time.Since(start); took > 0 {
			t.Errorf("after Missed it came after %v, want at once", took)
		}
	})
}

// A Send whose context has ended asks nothing of the store.
func TestSendAfterContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		c := r.hello("a")
		r.links["a"].set(func() {
			r.links["a"].append = func(Batch) error {
				t.Error("the store was asked")
				return nil
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.Send(ctx, c.session(), []byte("x")); !errors.Is(err, context.Canceled) {
			t.Errorf("Send error = %v, want context.Canceled", err)
		}
		c.wantQuiet(time.Second)
	})
}
