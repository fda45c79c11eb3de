package relocation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A client that sends many small messages to a slow handler is not cut off: its
// PING is answered however much waits.
func TestManySmallMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		r.handle = func(context.Context, string, *Session, Message) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}
		c := dialHubs(r, "a")
		for range 2 * maxQueued {
			if err := c.Send(t.Context(), []byte("1")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Minute)
		if s := c.Stats(); s.Losses != 0 || s.Resent != 0 || s.Acked < 17000 {
			t.Errorf("%+v, want no loss", s)
		}
		if s := a.Stats(); s.Duplicates != 0 {
			t.Errorf("%d duplicates, want none", s.Duplicates)
		}
	})
}

// Calls of Flush in a row, each of which asks for a sign of life, do not put
// off that a dead way is noticed.
func TestFlushAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		c := dialHubs(r, "a")
		r.net.Freeze("a", ToClient)
		if err := c.Send(t.Context(), []byte("1")); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for c.Stats().Losses == 0 && time.Since(start) < time.Minute {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_ = c.Flush(ctx)
			cancel()
		}
		if took := time.Since(start); took > DefaultPing+DefaultSilence+time.Second {
			t.Errorf("noticed after %v, want ping and silence", took)
		}
		r.net.Thaw("a", ToClient)
	})
}

// A client that has more than it says when it resumes, because its application
// is slow, acknowledges it before the server has sent it again: that is no
// breach.
func TestAckOfWhatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.broken = slowReads{r.store}
		a := r.start("a", nil)
		c, err := Dial(t.Context(), Addresses([]string{"a"}), r.net, &DialOptions{Window: 1000})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		session := r.onlySession("a")
		send := func(n int) {
			for range n {
				if _, err := a.Send(t.Context(), session, make([]byte, 100)); err != nil {
					t.Fatal(err)
				}
			}
		}
		receive := func(n int) {
			for range n {
				if _, err := c.Receive(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		send(9)
		time.Sleep(time.Second)
		r.net.Cut("a")
		for c.Stats().Connections < 2 {
			time.Sleep(time.Millisecond)
		}
		receive(9)
		c.Ack(Message{Seq: 9})
		send(9)
		receive(9)
		c.Ack(Message{Seq: 18})
		time.Sleep(time.Minute)
		if s := a.Stats(); s.ProtocolErrors != 0 || s.Resumed != 1 || s.Sessions != 1 {
			t.Errorf("%+v, want no breach", s)
		}
		if s := c.Stats(); s.Received != 18 || s.Duplicates != 0 {
			t.Errorf("%+v, want 18 messages, each once", s)
		}
	})
}

type slowReads struct{ Store }

func (s slowReads) Read(ctx context.Context, id string, after uint64, limit int) ([]Outgoing, error) {
	time.Sleep(100 * time.Millisecond)
	return s.Store.Read(ctx, id, after, limit)
}
