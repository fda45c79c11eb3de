package relocation

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// RL-15: a Receive that ends with its context harms nothing.
func TestConnReceiveTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		c := f.dial(nil, "a")
		for i := range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := c.Receive(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Receive error = %v, want the context's", err)
			}
			cancel()
			f.peer("a").send(fmt.Sprint(i))
			receive(t, c, fmt.Sprint(i))
		}
		if s := c.Stats(); s.Losses != 0 || s.Connections != 1 {
			t.Errorf("Stats = %+v, want one connection", s)
		}
	})
}

// A message is acknowledged by the next Receive, or by Ack.
func TestConnAcknowledges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		c := f.dial(nil, "a")
		acked := func(within time.Duration, want uint64) {
			t.Helper()
			time.Sleep(within)
			synctest.Wait()
			f.with(func() {
				if got := f.sessions["1"].acked; got != want {
					t.Errorf("the server knows of %d handled, want %d", got, want)
				}
			})
		}
		f.peer("a").send("1")
		m := receive(t, c, "1")
		acked(time.Minute, 0)
		c.Ack(Message{Seq: 7})
		acked(time.Minute, 0)
		c.Ack(m)
		acked(49*time.Millisecond, 0)
		acked(time.Millisecond, 1)
		for i := range 40 {
			f.peer("a").send(fmt.Sprint(i))
		}
		c.Ack(receive(t, c, "0"))
		acked(49*time.Millisecond, 1)
		acked(time.Millisecond, 2)
		for i := 1; i < 34; i++ {
			receive(t, c, fmt.Sprint(i))
		}
		acked(0, 34)
		// Asked for at once.
		f.with(func() {
			s := f.peers["a"]
			s.session.out = append(s.session.out, []byte("now"))
			s.write(appendData(nil, uint64(len(s.session.out)), dataAckNow, []byte("now")))
		})
		for i := 34; i < 40; i++ {
			receive(t, c, fmt.Sprint(i))
		}
		m = receive(t, c, "now")
		acked(0, 34)
		c.Ack(m)
		acked(0, 42)
		// 64 KiB.
		for range 3 {
			f.peer("a").send(string(make([]byte, 30<<10)))
		}
		for range 3 {
			receive(t, c, string(make([]byte, 30<<10)))
		}
		acked(0, 42)
		c.Ack(Message{Seq: 45})
		acked(0, 45)
	})
}

// SendAck and Flush wait for the acknowledgement, and say what they do not know.
func TestConnUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		keep := false
		f.frame = func(_ *fakePeer, k kind, _ []byte) bool { return keep && k == kindData }
		c := f.dial(nil, "a")
		if err := c.SendAck(t.Context(), []byte("1")); err != nil {
			t.Errorf("SendAck error = %v, want nil", err)
		}
		f.with(func() { keep = true })
		sendAll(t, c, "2")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for name, call := range map[string]func() error{
			"SendAck": func() error { return c.SendAck(ctx, []byte("3")) },
			"Flush":   func() error { <-ctx.Done(); return c.Flush(ctx) },
		} {
			err := call()
			var open *UnconfirmedError
			if errors.As(err, &open) && (open.Seq < 2 || open.Unacked != int(open.Seq-1)) ||
				!errors.Is(err, ErrUnconfirmed) && name == "Flush" || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s error = %v, want an UnconfirmedError with the context's", name, err)
			}
		}
		unacked := c.Unacked()
		if len(unacked) == 0 || unacked[0].Seq != 2 || string(unacked[0].Data) != "2" {
			t.Errorf("Unacked = %v, want 2 and what follows", unacked)
		}
		f.with(func() { keep = false })
		f.net.Cut("a")
		flush(t, c)
		if c.Unacked() != nil {
			t.Errorf("Unacked = %v, want none", c.Unacked())
		}
	})
}

// Flush does not wait for the server's leisure, neither for a message that is
// written already.
func TestConnFlushIsPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		// A server that acknowledges after 50ms, or with a PONG, or when asked.
		f.frame = func(s *fakePeer, k kind, body []byte) bool {
			if k != kindData {
				if n, _ := parseNumber(body); k == kindPing {
					s.write(appendNumber(nil, kindAck, s.session.in), appendNumber(nil, kindPong, n))
				}
				return k == kindPing
			}
			seq, flags, _, _ := parseData(body)
			if s.session.in = seq; flags&dataAckNow != 0 {
				s.write(appendNumber(nil, kindAck, seq))
			}
			return true
		}
		c := f.dial(nil, "a")
		start := time.Now()
		sendAll(t, c, "1")
		synctest.Wait()
		flush(t, c)
		if err := c.SendAck(t.Context(), []byte("2")); err != nil {
			t.Errorf("SendAck error = %v, want nil", err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("they took %v, want no more than a round trip", d)
		}
	})
}
