package relocation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
)

// RL-13: a Send that waited for room in vain says so, and its message is never
// delivered.
func TestConnBufferFull(t *testing.T) {
	for name, opts := range map[string]*DialOptions{
		"bytes":    {BufferBytes: 10},
		"messages": {BufferMessages: 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, "a")
			c := f.dial(opts, "a")
			f.net.Refuse("a", true)
			f.net.Cut("a")
			fakeState(t, c, Reconnecting)
			sendAll(t, c, "12345", "67890")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, text := range []string{"never", "neither"} {
				err := c.Send(ctx, []byte(text))
				if !errors.Is(err, ErrBufferFull) && text == "never" || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: Send error = %v, want ErrBufferFull and the context's", name, err)
				}
			}
			// One that waits longer is taken, and a larger one behind it waits on.
			later := make(chan error)
			go func() { later <- c.Send(context.Background(), []byte("later")) }()
			synctest.Wait()
			f.net.Refuse("a", false)
			if err := <-later; err != nil {
				t.Errorf("%s: Send error = %v, want nil", name, err)
			}
			flush(t, c)
			if got := f.got(); !slices.Equal(got, []string{"12345", "67890", "later"}) {
				t.Errorf("%s: the server got %q", name, got)
			}
		})
	}
}

// One message always fits, even if it is larger than buffer and window.
func TestConnOneMessageFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		f.terms.Window = 3
		c := f.dial(&DialOptions{BufferBytes: 2, Window: 3}, "a")
		sendAll(t, c, "12345", "67890", "", "abc")
		flush(t, c)
		if got := f.got(); len(got) != 4 {
			t.Errorf("the server got %q", got)
		}
	})
}

// The window of the server bounds what is under way.
func TestConnKeepsToTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		f.terms.Window = 10
		under, most, asked := 0, 0, 0
		f.frame = func(s *fakePeer, k kind, body []byte) bool {
			if k != kindData {
				return false
			}
			seq, flags, payload, _ := parseData(body)
			s.session.in = seq
			if under += len(payload); flags&dataAckNow != 0 {
				asked++
			}
			most = max(most, under)
			return true
		}
		c := f.dial(nil, "a")
		sendAll(t, c, numbered(100, 139)...)
		for range 13 {
			time.Sleep(time.Second)
			f.with(func() {
				if under != 9 {
					t.Errorf("%d bytes are under way, want 9 of 10", under)
				}
				under = 0
				s := f.peers["a"]
				s.write(appendNumber(nil, kindAck, s.session.in))
			})
		}
		time.Sleep(time.Second)
		if f.with(func() {}); most != 9 || asked < 13 {
			t.Errorf("%d bytes under way, %d asked for an acknowledgement", most, asked)
		}
		f.with(func() { f.frame = nil; s := f.peers["a"]; s.write(appendNumber(nil, kindAck, s.session.in)) })
		flush(t, c)
	})
}

// RL-14 and a mutant of RL-48: whatever the context does, nil means that the
// message is delivered once and in order, and an error that it never is.
func TestConnSendIsAtomic(t *testing.T) {
	const senders, each = 8, 12500
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b", "c")
		for _, addr := range []string{"a", "b", "c"} {
			f.net.Delay(addr, BothWays, time.Millisecond)
		}
		c := f.dial(&DialOptions{BufferBytes: 2000, BufferMessages: 64}, "a", "b", "c")
		var wg sync.WaitGroup
		taken := make([][]string, senders)
		refused := make(map[string]bool)
		var mu sync.Mutex
		for i := range senders {
			wg.Go(func() {
				for n := range each {
					ctx, cancel := context.WithCancel(t.Context())
					switch rand.IntN(4) {
					case 0:
						cancel()
					case 1:
						time.AfterFunc(rand.N(20*time.Millisecond), cancel)
					}
					text := fmt.Sprintf("%d/%d", i, n)
					err := c.Send(ctx, []byte(text))
					cancel()
					if err == nil {
						taken[i] = append(taken[i], text)
						continue
					}
					if !errors.Is(err, context.Canceled) {
						t.Errorf("Send error = %v, want the context's", err)
					}
					mu.Lock()
					refused[text] = true
					mu.Unlock()
				}
			})
		}
		done := make(chan struct{})
		moves := make(chan struct{})
		go func() {
			defer close(moves)
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				case <-time.After(100 * time.Millisecond):
				}
				if i%3 == 0 {
					f.net.Cut(c.Addr())
				} else {
					_ = c.Migrate(t.Context(), "")
				}
			}
		}()
		wg.Wait()
		close(done)
		<-moves
		flush(t, c)
		next := make([]int, senders)
		for _, m := range f.session().got {
			var i, n int
			fmt.Sscanf(string(m.Data), "%d/%d", &i, &n)
			switch text := string(m.Data); {
			case refused[text]:
				t.Fatalf("%q was delivered, and Send had returned an error", text)
			case next[i] >= len(taken[i]) || taken[i][next[i]] != text:
				t.Fatalf("%q was delivered, want what sender %d sent before", text, i)
			}
			next[i]++
		}
		for i := range senders {
			if next[i] != len(taken[i]) {
				t.Errorf("%d of %d messages of sender %d were delivered", next[i], len(taken[i]), i)
			}
		}
		if len(refused) < each || c.Stats().Moves < 5 {
			t.Errorf("%d refused, %+v: the test shows nothing", len(refused), c.Stats())
		} else {
			t.Logf("%d refused, %+v", len(refused), c.Stats())
		}
	})
}

// A mutant of RL-48: a Send whose context has ended takes nothing.
func TestConnSendAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		c := f.dial(nil, "a")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Send(ctx, []byte("x")); !errors.Is(err, context.Canceled) || errors.Is(err, ErrBufferFull) {
			t.Errorf("Send error = %v, want context.Canceled", err)
		}
		if err := c.SendAck(ctx, []byte("x")); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnconfirmed) {
			t.Errorf("SendAck error = %v, want context.Canceled", err)
		}
		sendAll(t, c, "y")
		flush(t, c)
		if got := f.got(); !slices.Equal(got, []string{"y"}) {
			t.Errorf("the server got %q, want y", got)
		}
	})
}

// RL-43, the client's part: numbers go on from where the server begins, and
// after the last Send says so.
func TestConnSequenceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		f.terms.In, f.terms.Out = maxSeq-2, 1<<53-1
		c := f.dial(nil, "a")
		sendAll(t, c, "1", "2")
		if err := c.Send(t.Context(), []byte("3")); !errors.Is(err, ErrSequenceExhausted) {
			t.Errorf("Send error = %v, want ErrSequenceExhausted", err)
		}
		flush(t, c)
		f.peer("a").send("s")
		if m := receive(t, c, "s"); m.Seq != 1<<53 {
			t.Errorf("Receive = %d, want 2^53", m.Seq)
		}
		f.net.Cut("a")
		f.peer("a").send("t")
		if m := receive(t, c, "t"); m.Seq != 1<<53+1 {
			t.Errorf("Receive = %d, want 2^53+1", m.Seq)
		}
	})
}

func TestConnTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		f.terms.MaxMessage = 3
		c := f.dial(nil, "a")
		if err := c.Send(t.Context(), []byte("four")); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Send error = %v, want ErrTooLarge", err)
		}
		sendAll(t, c, "two", "")
		flush(t, c)
		// RL-41, in part: what one server took and the next cannot take ends
		// the session, with a name.
		f.with(func() { f.frame = func(_ *fakePeer, k kind, _ []byte) bool { return k == kindData } })
		sendAll(t, c, "abc")
		synctest.Wait()
		f.with(func() { f.terms.MaxMessage = 2 })
		f.net.Cut("a")
		var lost *LostError
		if err := c.Flush(t.Context()); !errors.Is(err, ErrTooLarge) || !errors.As(err, &lost) || lost.Unacked != 1 {
			t.Errorf("Flush error = %v, want a LostError for ErrTooLarge", err)
		}
	})
}

// Nothing panics that does not come from Dial.
func TestConnUnusable(t *testing.T) {
	for _, c := range []*Conn{nil, {}} {
		for name, err := range map[string]error{
			"Send": c.Send(t.Context(), nil), "SendAck": c.SendAck(t.Context(), nil), "Flush": c.Flush(t.Context()),
			"Migrate": c.Migrate(t.Context(), ""),
		} {
			if !errors.Is(err, transparency.ErrInvalid) {
				t.Errorf("%s error = %v, want ErrInvalid", name, err)
			}
		}
		if _, err := c.Receive(t.Context()); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("Receive error = %v, want ErrInvalid", err)
		}
		c.Ack(Message{})
		for range c.Changes(t.Context()) {
			t.Error("a change")
		}
		if c.Unacked() != nil || c.State() != Closed || c.Addr() != "" || c.Stats() != (ConnStats{}) || c.Close(t.Context()) != nil {
			t.Errorf("%v is something", c)
		}
	}
	good := Addresses([]string{"a"})
	for name, dial := range map[string]func() (*Conn, error){
		"no addresses function": func() (*Conn, error) { return Dial(t.Context(), nil, NewNetwork(), nil) },
		"no dialer":             func() (*Conn, error) { return Dial(t.Context(), good, nil, nil) },
		"negative bound":        func() (*Conn, error) { return Dial(t.Context(), good, NewNetwork(), &DialOptions{Window: -1}) },
		"negative time":         func() (*Conn, error) { return Dial(t.Context(), good, NewNetwork(), &DialOptions{DialTimeout: -1}) },
	} {
		if c, err := dial(); c != nil || !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("Dial with %s = %v, %v, want ErrInvalid", name, c, err)
		}
	}
	if _, err := Dial(t.Context(), Addresses(nil), NewNetwork(), nil); !errors.Is(err, ErrNoServer) {
		t.Errorf("Dial without addresses: %v, want ErrNoServer", err)
	}
}

// Send copies what it takes, and those that wait for room keep their turn: a
// small message does not pass a large one for ever.
func TestConnSendCopiesAndKeepsTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		c := f.dial(&DialOptions{BufferBytes: 10}, "a")
		f.net.Refuse("a", true)
		f.net.Cut("a")
		fakeState(t, c, Reconnecting)
		p := []byte("12345")
		if err := c.Send(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		copy(p, "wrong")
		sends := make(chan error)
		for _, text := range []string{"a large one", "x", "y"} {
			go func() {
				p := []byte(text)
				err := c.Send(context.Background(), p)
				clear(p)
				sends <- err
			}()
			synctest.Wait()
		}
		select {
		case err := <-sends:
			t.Errorf("a Send behind one that waits returned %v", err)
		default:
		}
		f.net.Refuse("a", false)
		for range 3 {
			if err := <-sends; err != nil {
				t.Errorf("Send error = %v, want nil", err)
			}
		}
		flush(t, c)
		if got := f.got(); !slices.Equal(got, []string{"12345", "a large one", "x", "y"}) {
			t.Errorf("the server got %q", got)
		}
	})
}

// A Send that gives up lets those behind it go on.
func TestConnSendGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		f.frame = func(_ *fakePeer, k kind, _ []byte) bool { return k == kindData }
		c := f.dial(&DialOptions{BufferBytes: 10}, "a")
		sendAll(t, c, "12345")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		large, small := make(chan error), make(chan error)
		go func() { large <- c.Send(ctx, make([]byte, 9)) }()
		synctest.Wait()
		go func() { small <- c.Send(context.Background(), []byte("x")) }()
		synctest.Wait()
		if err := <-large; !errors.Is(err, ErrBufferFull) {
			t.Errorf("Send error = %v, want ErrBufferFull", err)
		}
		if err := <-small; err != nil {
			t.Errorf("Send error = %v, want nil once the large one gave up", err)
		}
	})
}
