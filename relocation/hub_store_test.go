package relocation

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// RL-45: a commit that was done and whose answer was lost is not done twice.
func TestCommitAnswerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		r.handle = func(_ context.Context, _ string, s *Session, m Message) error { return s.Reply(m.Data) }
		c := r.hello("a")
		lost := 0
		r.links["a"].set(func() {
			r.links["a"].lateCommit = func(Update) error {
				if lost++; lost <= 2 {
					return errUncertain
				}
				return nil
			}
		})
		c.send(3)
		c.wantData("1:1", "2:2", "3:3")
		c.wantQuiet(time.Second)
		r.wantHandled(numbers("a", 1, 3, "")...)
	})
}

// RL-45: nor is an append.
func TestAppendAnswerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		c := r.hello("a")
		lost := 0
		r.links["a"].set(func() {
			r.links["a"].lateAppend = func(Batch) error {
				if lost++; lost <= 2 {
					return errUncertain
				}
				return nil
			}
		})
		c.sendFrom(a, "one", "two")
		c.wantData("1:one", "2:two")
		c.wantQuiet(time.Second)
	})
}

// A store that went back ends the session in a named error, whoever sees it
// first.
func TestStoreWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		c := r.hello("a")
		r.links["a"].set(func() {
			r.links["a"].commit = func(Update) error { return ErrStateRegressed }
		})
		c.send(1)
		k, body := c.frame()
		if said, _ := parseClosing(body); k != kindClose || said.Code != closeRegressed {
			t.Errorf("got frame 0x%02x %+v, want CLOSE, regressed", byte(k), said)
		}
		c.wantClosed(CloseNormal)
		synctest.Wait()
		if err := r.lastServed(); !errors.Is(err, ErrStateRegressed) {
			t.Errorf("Serve error = %v, want ErrStateRegressed", err)
		}
	})
}

// A store that went back shows in what a renewal says, and it is told what was
// sent, to see it by itself.
func TestStoreWentBackQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		c := r.hello("a")
		var updates []Update
		r.links["a"].set(func() {
			r.links["a"].commit = func(u Update) error {
				updates = append(updates, u)
				return nil
			}
		})
		c.sendFrom(a, "one", "two")
		c.wantData("1:one", "2:two")
		kept, err := r.store.Read(t.Context(), c.session(), 1, 100)
		if err != nil {
			t.Fatal(err)
		}
		c.send(1)
		c.awaitAck(1)
		if sent := updates[len(updates)-1].Sent; sent.Seq != 2 || sent.Batch != kept[0].Batch {
			t.Errorf("the store was told that %+v was sent, want 2 of its batch", sent)
		}
		r.links["a"].set(func() {
			r.links["a"].lateRenew = func(all []Renewal) { all[0].Progress.Out = 1 }
		})
		k, body := c.frame()
		if said, _ := parseClosing(body); k != kindClose || said.Code != closeRegressed {
			t.Errorf("got frame 0x%02x %+v, want CLOSE, regressed", byte(k), said)
		}
	})
}

// What guards the handler's effect may know before the store that another owns
// the session, that the message had its effect, or that something is missing.
func TestHandlerKnows(t *testing.T) {
	for _, test := range []struct {
		err  error
		want kind
	}{{ErrDuplicate, kindAck}, {ErrFenced, kindReject}, {ErrStateRegressed, kindClose}} {
		synctest.Test(t, func(t *testing.T) {
			r := newHubRig(t)
			r.start("a", nil)
			r.handle = func(context.Context, string, *Session, Message) error {
				return fmt.Errorf("handle: %w", test.err)
			}
			c := r.hello("a")
			c.send(1)
			if k, _ := c.frame(); k != test.want {
				t.Errorf("%v: got frame 0x%02x, want 0x%02x", test.err, byte(k), byte(test.want))
			}
		})
	}
}

// RL-22, RL-23: a store that was emptied, under a session that is attached.
func TestStoreForgot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		c := r.hello("a")
		c.send(2)
		c.awaitAck(2)
		r.links["a"].set(func() { r.links["a"].commit = func(Update) error { return ErrUnknown } })
		c.send(3)
		if rej := c.rejected(); rej.Code != rejectUnknown || !rej.HandledKnown || rej.Handled != 2 {
			t.Errorf("got %+v, want unknown, handled up to 2", rej)
		}
	})
}
