package relocation

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// The window is the client's: what does not fit waits in the store, and memory
// is bounded. RL-38 in part.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		c := r.dial("a")
		o := testOpening()
		o.Window = 10
		c.write(appendOpening(nil, o))
		c.opened(kindWelcome)
		c.sendFrom(a, "1234", "56", "7890123", "a very long one", "x")
		c.wantData("1:1234", "2:56")
		c.wantQuiet(time.Second)
		c.ack(1)
		c.wantData("3:7890123")
		c.wantQuiet(time.Second)
		c.ack(2)
		c.wantQuiet(time.Second)
		c.ack(3)
		c.wantData("4:a very long one")
		c.wantQuiet(time.Second)
		c.ack(4)
		c.wantData("5:x")
	})
}

// What is kept for a client is bounded, for Hub.Send and for replies; a reply
// waits with its message until there is room.
func TestOutboxBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", &HubOptions{MaxUnackedMessages: 4})
		r.handle = func(_ context.Context, _ string, s *Session, m Message) error {
			for i := range 2 {
				if err := s.Reply(fmt.Appendf(nil, "%d.%d", m.Seq, i)); err != nil {
					return err
				}
			}
			return nil
		}
		c := r.hello("a")
		c.send(9)
		c.wantData("1:1.0", "2:1.1", "3:2.0", "4:2.1")
		c.wantQuiet(time.Second)
		if _, err := a.Send(t.Context(), c.session(), []byte("x")); !errors.Is(err, ErrBufferFull) {
			t.Errorf("Send error = %v, want ErrBufferFull", err)
		}
		for i := 3; i <= 9; i++ {
			c.ack(uint64(2*i - 4))
			c.wantData(fmt.Sprintf("%d:%d.0", 2*i-1, i), fmt.Sprintf("%d:%d.1", 2*i, i))
		}
		c.awaitAck(9)
		if got := len(r.handled); got != 9 {
			t.Errorf("handled %d messages, want 9, each once", got)
		}
		r.net.Cut("a")
	})
}

// A client that leaves while its replies do not fit: the message comes again,
// marked, with its replies.
func TestOutboxFullAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", &HubOptions{MaxUnackedMessages: 1})
		r.handle = func(_ context.Context, _ string, s *Session, m Message) error { return s.Reply(m.Data) }
		c := r.hello("a")
		c.send(2)
		c.wantData("1:1")
		synctest.Wait()
		r.net.Cut("a")
		next := c.resume("a", 1, 1, 1)
		next.send(2)
		next.wantData("2:2")
		r.wantHandled("a:1:1", "a:2:2", "a:2:2!")
	})
}

// Replies are committed with their message: both or neither.
func TestReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", &HubOptions{MaxMessage: 10, MaxUnackedMessages: 3})
		var kept *Session
		r.handle = func(_ context.Context, _ string, s *Session, m Message) error {
			kept = s
			if err := s.Reply(make([]byte, 11)); !errors.Is(err, ErrTooLarge) {
				t.Errorf("Reply of 11 bytes: error = %v, want ErrTooLarge", err)
			}
			for i := range 3 {
				if err := s.Reply(fmt.Append(nil, i)); err != nil {
					t.Errorf("Reply error = %v", err)
				}
			}
			if err := s.Reply(nil); !errors.Is(err, ErrBufferFull) {
				t.Errorf("a fourth Reply: error = %v, want ErrBufferFull", err)
			}
			if m.Seq == 1 && !m.Redelivered {
				return errors.New("no")
			}
			return nil
		}
		c := r.hello("a")
		c.send(1)
		c.wantClosed(CloseRetry)
		if err := kept.Reply(nil); err == nil {
			t.Errorf("Reply with no message being handled: no error")
		}
		next := c.resume("a", 1, 0, 0)
		next.send(1)
		next.wantData("1:0", "2:1", "3:2")
		next.wantQuiet(time.Second)
	})
}

// AtMostOnce: a message whose handler did not come to its end is not handled
// again, by anybody.
func TestAtMostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		opts := &HubOptions{Mode: AtMostOnce}
		r.start("a", opts)
		r.start("b", opts)
		r.handle = func(ctx context.Context, hub string, s *Session, m Message) error {
			switch {
			case m.Seq == 2:
				if err := s.Reply([]byte("nothing")); err != nil {
					t.Errorf("Reply error = %v", err)
				}
				return errors.New("fails, and is lost, with its reply")
			case m.Seq == 5 && hub == "a":
				<-ctx.Done()
			}
			return s.Reply(m.Data)
		}
		c := r.hello("a")
		c.send(6)
		c.wantData("1:1", "2:3", "3:4")
		synctest.Wait()
		r.kill("a")
		next := c.resume("b", 1, 3, 0)
		if next.said.In != 5 {
			t.Errorf("RESUMED says %d, want 5, which was begun", next.said.In)
		}
		next.send(6)
		next.wantData("4:6")
		r.wantHandled("a:1:1", "a:2:2", "a:3:3", "a:4:4", "a:5:5", "b:6:6")
	})
}
