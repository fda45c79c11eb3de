package relocation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
)

// The server's PING is answered with its number, after an acknowledgement, and
// many that come at once with the last.
func TestConnAnswersPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		var seen []string
		f.frame = func(_ *fakePeer, k kind, body []byte) bool {
			n, _ := parseNumber(body)
			seen = append(seen, fmt.Sprintf("%d:%d", k, n))
			return false
		}
		c := f.dial(nil, "a")
		synctest.Wait()
		f.peer("a").send("x")
		receive(t, c, "x")
		c.Ack(Message{Seq: 1})
		f.peer("a").write(appendNumber(nil, kindPing, 6), appendNumber(nil, kindPing, 7))
		synctest.Wait()
		f.with(func() {
			want := []string{fmt.Sprintf("%d:0", kindAck), fmt.Sprintf("%d:1", kindAck), fmt.Sprintf("%d:7", kindPong)}
			if !slices.Equal(seen, want) {
				t.Errorf("the client wrote %v, want %v", seen, want)
			}
		})
	})
}

// RL-21: the new token is shown at once, so that a copy of the old one is
// good for nothing.
func TestConnShowsTheNewToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		frames := 0
		f.frame = func(*fakePeer, kind, []byte) bool { frames++; return false }
		f.dial(nil, "a")
		for i := range 3 {
			synctest.Wait()
			f.with(func() {
				if frames != i+1 {
					t.Errorf("%d frames after %d openings, want one each", frames, i+1)
				}
			})
			f.net.Cut("a")
			time.Sleep(time.Second)
		}
		var tokens []string
		for _, o := range f.openingsAt("a") {
			tokens = append(tokens, string(o.Token))
		}
		if !slices.Equal(tokens, []string{"", "1/1", "1/2", "1/3"}) {
			t.Errorf("the client showed %q", tokens)
		}
	})
}

// Frames share transport messages, and no message has more than 64 KiB beside
// one frame.
func TestConnCoalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		d := &sizedDialer{Dialer: f.net}
		c, err := Dial(t.Context(), Addresses([]string{"a"}), d, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		f.net.Freeze("a", ToServer) // the writer goes on
		for range 2000 {
			sendAll(t, c, string(make([]byte, 100)))
		}
		sendAll(t, c, string(make([]byte, 200<<10)), string(make([]byte, 100)))
		f.net.Thaw("a", ToServer)
		flush(t, c)
		for _, m := range d.messages {
			largest, n := 0, 0
			for rest := m; len(rest) > 0; n++ {
				before := len(rest)
				_, _, rest, _ = nextFrame(rest)
				largest = max(largest, before-len(rest))
			}
			if len(m)-largest > 64<<10 {
				t.Errorf("a message of %d bytes has %d frames, the largest of %d", len(m), n, largest)
			}
		}
		if len(d.messages) > 1000 {
			t.Errorf("%d transport messages for 2002", len(d.messages))
		}
	})
}

// sizedDialer keeps what is written.
type sizedDialer struct {
	Dialer
	messages [][]byte
}

type sizedTransport struct {
	Transport
	d *sizedDialer
}

func (d *sizedDialer) Dial(ctx context.Context, addr string) (Transport, error) {
	t, err := d.Dialer.Dial(ctx, addr)
	return sizedTransport{t, d}, err
}

func (t sizedTransport) Write(ctx context.Context, p []byte) error {
	t.d.messages = append(t.d.messages, bytes.Clone(p))
	return t.Transport.Write(ctx, p)
}

// The mark of the server is the mark of the message.
func TestConnRedelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		c := f.dial(nil, "a")
		f.with(func() {
			s := f.peers["a"]
			s.session.out = [][]byte{[]byte("1"), []byte("2")}
			s.write(appendData(nil, 1, dataAgain, []byte("1")), appendData(nil, 2, 0, []byte("2")))
		})
		if m := receive(t, c, "1"); !m.Redelivered {
			t.Error("the mark is lost")
		}
		if m := receive(t, c, "2"); m.Redelivered {
			t.Error("the mark is made up")
		}
	})
}

// A mutant of RL-48: an answer of an old generation is not taken.
func TestConnComparesGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		c := f.dial(nil, "a")
		f.net.Cut("a")
		fakeWait(t, "resume", func() bool { return c.Stats().Connections == 2 })
		f.with(func() { f.terms.Generation = 2 })
		f.net.Cut("a")
		fakeState(t, c, Closed)
		if err := c.Send(t.Context(), nil); !errors.Is(err, ErrProtocol) || len(f.openingsAt("a")) != 5 {
			t.Errorf("Send error = %v after %d openings, want ErrProtocol after five", err, len(f.openingsAt("a")))
		}
	})
}

// What a client keeps for an application that does nothing is bounded, however
// often it resumes, and nothing of it is lost.
func TestConnInboxIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		// This server keeps to the window, from what it was told.
		f.mute = true
		write := func(s *fakePeer) {
			x := s.session
			for seq := x.acked + 1; seq <= x.acked+10 && seq <= uint64(len(x.out)); seq++ {
				s.write(appendData(nil, seq, 0, x.out[seq-1]))
			}
		}
		f.attached = func(s *fakePeer) { f.with(func() { write(s) }) }
		f.frame = func(s *fakePeer, k kind, body []byte) bool {
			if n, _ := parseNumber(body); k == kindAck && n > s.session.acked {
				s.session.acked = n
				write(s)
			}
			return k == kindAck
		}
		c := f.dial(&DialOptions{Window: 100, MaxMessage: 10}, "a")
		cuts := 0
		fill := func(to int) {
			f.with(func() {
				x := f.sessions["1"]
				for i := len(x.out); i < to; i++ {
					x.out = append(x.out, fmt.Appendf(nil, "%010d", i))
				}
			})
			for range 10 {
				f.net.Cut("a")
				cuts++
				fakeWait(t, "resume", func() bool { return c.Stats().Connections == uint64(cuts+1) })
				synctest.Wait()
				c.mu.Lock()
				bytes := c.in.bytes
				c.mu.Unlock()
				if bytes > 150 {
					t.Fatalf("%d bytes are kept after %d resumes, want one and a half windows at most", bytes, cuts)
				}
			}
		}
		fill(4) // less than half a window: reported as received
		fill(100)
		for i := range 100 {
			receive(t, c, fmt.Sprintf("%010d", i))
		}
		if s := c.Stats(); s.Losses != 20 || s.Duplicates == 0 {
			t.Errorf("%+v, want the 20 cuts, and duplicates", s)
		}
	})
}

// The back-off grows with every attempt, starts anew after a connection that
// stood, and keeps to what a busy server asks for.
func TestConnBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		c := f.dial(nil, "a")
		outage := func(d time.Duration) int {
			before := c.Stats().Failures
			f.net.Refuse("a", true)
			f.net.Cut("a")
			time.Sleep(d)
			n := int(c.Stats().Failures - before)
			f.net.Refuse("a", false)
			fakeState(t, c, Connected)
			return n
		}
		if n := outage(time.Hour); n < 200 || n > 700 {
			t.Errorf("%d attempts in an hour, want one in 10s", n)
		}
		time.Sleep(5 * time.Second)
		if n := outage(10 * time.Second); n > 5 {
			t.Errorf("%d attempts in 10s after a connection that lasted 5s, want few", n)
		}
		time.Sleep(11 * time.Second)
		if n := outage(10 * time.Second); n < 4 {
			t.Errorf("%d attempts in 10s after a connection that stood, want more", n)
		}
		time.Sleep(11 * time.Second)
		before := len(f.openingsAt("a"))
		f.with(func() {
			f.opening = func(*fakePeer, opening) *reject { return &reject{Code: rejectBusy, Retry: 30 * time.Second} }
		})
		f.net.Cut("a")
		time.Sleep(31 * time.Second)
		if n := len(f.openingsAt("a")) - before; n < 1 || n > 2 {
			t.Errorf("%d openings in 31s, want the server's 30s between them", n)
		}
	})
}

// What the functions that a Conn is given do wrong is a failed attempt.
func TestConnBadHelpers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		size := 0
		c := f.dial(&DialOptions{Credentials: func(context.Context) (p []byte, _ error) {
			f.with(func() { p = make([]byte, size) })
			return p, nil
		}}, "a")
		f.with(func() { size = maxCredentials + 1 })
		f.net.Cut("a")
		fakeWait(t, "failures", func() bool { return c.Stats().Failures > 2 })
		f.with(func() { size = maxCredentials })
		sendAll(t, c, "1")
		flush(t, c)
		if _, err := Dial(t.Context(), Addresses([]string{"a"}), emptyDialer{}, nil); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("Dial with a dialer that returns nothing: %v, want ErrInvalid", err)
		}
	})
}

type emptyDialer struct{}

func (emptyDialer) Dial(context.Context, string) (Transport, error) { return nil, nil }
