package relocation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
)

// cloned returns a Conn that has what another had when it was reconnecting, as
// the Conn of a virtual machine that was copied.
func cloned(c *Conn) *Conn {
	d := newConn(c.addrs, c.dialer, c.opts)
	c.mu.Lock()
	defer c.mu.Unlock()
	d.token, d.generation, d.attempt, d.peerMax = c.token, c.generation, c.attempt, c.peerMax
	d.out.acked, d.out.last, d.out.written = c.out.acked, c.out.last, c.out.written
	d.in = c.in
	d.mu.Lock()
	defer d.unlock()
	d.setState(Reconnecting, "", nil)
	d.startMover()
	return d
}

// RL-21: of two processes with one token one goes on, and the other ends, and
// does not come back.
func TestConnTaken(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, "a", "b")
			c := f.dial(nil, "a", "b")
			sendAll(t, c, "1")
			flush(t, c)
			for _, addr := range []string{"a", "b"} {
				f.net.Refuse(addr, true)
				f.net.Cut(addr)
			}
			fakeState(t, c, Reconnecting)
			d := cloned(c)
			for _, addr := range []string{"a", "b"} {
				f.net.Refuse(addr, false)
			}
			time.Sleep(time.Hour)
			loser, winner := c, d
			if c.State() != Closed {
				loser, winner = d, c
			}
			if loser.State() != Closed || winner.State() != Connected {
				t.Fatalf("the two are %v and %v, want CLOSED and CONNECTED", loser.State(), winner.State())
			}
			var lost *LostError
			if err := loser.Send(t.Context(), nil); !errors.Is(err, ErrSessionTaken) || !errors.As(err, &lost) {
				t.Errorf("Send error = %v, want ErrSessionTaken", err)
			}
			if n := len(f.openingsAt("")); n > 6 {
				t.Errorf("%d openings, want a few: they took it from each other", n)
			}
			sendAll(t, winner, "2")
			flush(t, winner)
			if err := d.Close(t.Context()); err != nil {
				t.Errorf("Close error = %v, want nil", err)
			}
		})
	}
}

// RL-21: a client whose session is taken ends at once.
func TestConnSuperseded(t *testing.T) {
	for _, code := range []rejectCode{rejectSuperseded, rejectTaken} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, "a")
			c := f.dial(nil, "a")
			f.peer("a").write(appendReject(nil, reject{Code: code}))
			if _, err := c.Receive(t.Context()); !errors.Is(err, ErrSessionTaken) {
				t.Errorf("code %d: Receive error = %v, want ErrSessionTaken", code, err)
			}
			time.Sleep(time.Hour)
			if n := len(f.openingsAt("")); n != 1 {
				t.Errorf("code %d: %d openings, want no other", code, n)
			}
		})
	}
}

// RL-22, RL-23, RL-24 and the rest of the REJECTs: what ends a session ends it
// with a name, what was handled, and what is open; nothing is sent again.
func TestConnLost(t *testing.T) {
	for name, test := range map[string]struct {
		reject  reject
		want    error
		unacked int
		known   bool
	}{
		"unknown":             {reject{Code: rejectUnknown}, ErrSessionLost, 3, false},
		"expired":             {reject{Code: rejectExpired}, ErrSessionLost, 3, false},
		"expired, two known":  {reject{Code: rejectExpired, Handled: 3, HandledKnown: true}, ErrSessionLost, 1, true},
		"expired, none known": {reject{Code: rejectExpired, Handled: 1, HandledKnown: true}, ErrSessionLost, 3, true},
		"expired, nonsense":   {reject{Code: rejectExpired, Handled: 9, HandledKnown: true}, ErrSessionLost, 3, false},
		"taken":               {reject{Code: rejectTaken}, ErrSessionTaken, 3, false},
		"regressed":           {reject{Code: rejectRegressed}, ErrStateRegressed, 3, false},
		"denied":              {reject{Code: rejectDenied}, transparency.ErrDenied, 3, false},
		"version":             {reject{Code: rejectVersion}, ErrProtocol, 3, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, "a")
			keep := false
			f.frame = func(_ *fakePeer, k kind, _ []byte) bool { return keep && k == kindData }
			c := f.dial(nil, "a")
			states := watchStates(t, c)
			sendAll(t, c, "1")
			flush(t, c)
			f.peer("a").send("received")
			f.with(func() { keep = true })
			sendAll(t, c, "2", "3", "4")
			synctest.Wait()
			waiting := make(chan error)
			go func() { waiting <- c.Flush(context.Background()) }()
			synctest.Wait()
			f.with(func() { f.opening = func(*fakePeer, opening) *reject { return &test.reject } })
			f.net.Cut("a")
			err := <-waiting
			var lost *LostError
			var open *UnconfirmedError
			if !errors.Is(err, test.want) || !errors.As(err, &lost) || !errors.As(err, &open) || open.Unacked != test.unacked {
				t.Fatalf("%s: Flush error = %v, want an UnconfirmedError with a LostError", name, err)
			}
			if transparency.Retryable(err) {
				t.Errorf("%s: the error counts as retryable: %v", name, err)
			}
			if lost.Unacked != test.unacked || lost.HandledKnown != test.known || lost.HandledKnown && lost.Handled != test.reject.Handled {
				t.Errorf("%s: %+v, want %d unacked, known: %v", name, lost, test.unacked, test.known)
			}
			if u := c.Unacked(); len(u) != test.unacked || string(u[len(u)-1].Data) != "4" {
				t.Errorf("%s: Unacked = %v, want %d up to 4", name, u, test.unacked)
			}
			receive(t, c, "received")
			for name, err := range map[string]error{
				"Send": c.Send(t.Context(), nil), "Migrate": c.Migrate(t.Context(), ""),
			} {
				if !errors.Is(err, test.want) {
					t.Errorf("%s after the loss: %v, want %v", name, err, test.want)
				}
			}
			if _, err := c.Receive(t.Context()); !errors.Is(err, test.want) {
				t.Errorf("%s: Receive error = %v, want %v", name, err, test.want)
			}
			if got := states(); !slices.Equal(got, []State{Reconnecting, Closed}) {
				t.Errorf("%s: states %v", name, got)
			}
			time.Sleep(time.Hour)
			if n := len(f.openingsAt("")); n != 2 {
				t.Errorf("%s: %d openings, want two", name, n)
			}
			if err := c.Close(t.Context()); !errors.Is(err, ErrUnconfirmed) || !errors.Is(err, test.want) {
				t.Errorf("%s: Close error = %v, want an UnconfirmedError", name, err)
			}
		})
	}
}

// A server that knows less or more than this side has done went back.
func TestConnRegressed(t *testing.T) {
	for name, change := range map[string]func(*fakeSession){
		"In below acked":     func(s *fakeSession) { s.in = 1 },
		"In above sent":      func(s *fakeSession) { s.in = 3 },
		"Out below received": func(s *fakeSession) { s.out = nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, "a")
			c := f.dial(nil, "a")
			sendAll(t, c, "1", "2")
			flush(t, c)
			f.peer("a").send("x")
			receive(t, c, "x")
			f.with(func() {
				f.blind = true
				change(f.sessions["1"])
			})
			f.net.Cut("a")
			fakeState(t, c, Closed)
			if err := c.Send(t.Context(), nil); !errors.Is(err, ErrStateRegressed) {
				t.Errorf("%s: Send error = %v, want ErrStateRegressed", name, err)
			}
		})
	}
}

// CLOSE from the server ends the session, with its reason.
func TestConnPeerCloses(t *testing.T) {
	for code, want := range map[closeReason]error{
		closeDone: ErrPeerClosed, closeRegressed: ErrStateRegressed, closeExhausted: ErrSequenceExhausted,
		closeTooLarge: ErrTooLarge, closeProtocol: ErrProtocol, 99: ErrPeerClosed,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, "a")
			c := f.dial(nil, "a")
			f.peer("a").send("last words")
			f.peer("a").write(appendClosing(nil, closing{Code: code}))
			synctest.Wait()
			receive(t, c, "last words")
			if _, err := c.Receive(t.Context()); !errors.Is(err, want) {
				t.Errorf("code %d: Receive error = %v, want %v", code, err, want)
			}
			synctest.Wait()
			f.with(func() {
				if got := f.peers["a"].code; got != CloseNormal {
					t.Errorf("code %d: the client closed the transport with %d, want %d", code, got, CloseNormal)
				}
			})
		})
	}
}

// RL-36: Close in the middle of a move whose dial hangs is done in time.
func TestConnCloseDuringHangingDial(t *testing.T) {
	for name, cut := range map[string]bool{"migrating": false, "reconnecting": true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, "a", "b")
			f.frame = func(_ *fakePeer, k kind, _ []byte) bool { return k == kindData }
			c := f.dial(&DialOptions{BufferMessages: 1}, "a")
			f.net.Hang("b", true)
			f.peer("a").goAway(goAway{Deadline: time.Minute, Locations: []string{"b"}})
			sendAll(t, c, "1")
			fakeState(t, c, Migrating)
			if cut {
				f.net.Refuse("a", true)
				f.net.Cut("a")
				fakeState(t, c, Reconnecting)
			}
			pending := make(chan error)
			calls := []func() error{
				func() error { return c.Send(context.Background(), nil) },
				func() error { _, err := c.Receive(context.Background()); return err },
				func() error { return c.Flush(context.Background()) },
				func() error { return c.SendAck(context.Background(), nil) },
			}
			for _, call := range calls {
				go func() { pending <- call() }()
			}
			synctest.Wait()
			start := time.Now()
			err := c.Close(t.Context())
			var open *UnconfirmedError
			if !errors.Is(err, ErrUnconfirmed) || !errors.As(err, &open) || open.Unacked != 1 {
				t.Errorf("%s: Close error = %v, want an UnconfirmedError about one", name, err)
			}
			if d := time.Since(start); d != 0 {
				t.Errorf("%s: Close took %v, want no time", name, d)
			}
			for range calls {
				if err := <-pending; !errors.Is(err, ErrClosed) {
					t.Errorf("%s: a call that was pending: %v, want ErrClosed", name, err)
				}
			}
			if again := c.Close(t.Context()); again == nil || again.Error() != err.Error() {
				t.Errorf("%s: the second Close error = %v, want the same", name, again)
			}
			if c.State() != Closed || !cut && !f.session().ended {
				t.Errorf("%s: %v, ended on the server: %v", name, c.State(), f.session().ended)
			}
		})
	}
}

// RL-37: a Close that comes while the RESUME is under way ends the session on
// the server too, wherever in the opening it comes.
func TestConnCloseDuringResume(t *testing.T) {
	for ms := range 60 {
		for _, planned := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, "a", "b")
				for _, addr := range []string{"a", "b"} {
					f.net.Delay(addr, BothWays, 10*time.Millisecond)
				}
				c := f.dial(&DialOptions{MinBackoff: time.Nanosecond}, "a")
				c.addrs = Addresses([]string{"b"})
				if planned {
					f.peer("a").goAway(goAway{Deadline: time.Minute, Locations: []string{"b"}})
				} else {
					f.net.Cut("a")
				}
				time.Sleep(time.Duration(ms) * time.Millisecond)
				synctest.Wait()
				n := len(f.openingsAt("b"))
				if err := c.Close(t.Context()); err != nil {
					t.Errorf("Close error = %v, want nil", err)
				}
				ended := false
				f.with(func() { ended = f.sessions["1"].ended })
				if asked := n > 0 || len(f.openingsAt("b")) > 0; !ended && (planned || asked) {
					t.Errorf("after %dms, planned %v: the session goes on after Close", ms, planned)
				}
			})
		}
	}
}

// Close keeps to its context, also when the server does not answer.
func TestConnCloseIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		ctx  func() (context.Context, context.CancelFunc)
		want time.Duration
	}{
		"no deadline": {func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) }, 5 * time.Second},
		"deadline": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), time.Second)
		}, time.Second},
		"over": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return ctx, cancel
		}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, "a")
			c := f.dial(&DialOptions{BufferMessages: 1}, "a")
			f.net.Freeze("a", BothWays)
			sendAll(t, c, "1")
			pending := make(chan error, 1)
			ctx, cancel := test.ctx()
			defer cancel()
			start := time.Now()
			go func() {
				pending <- c.Send(context.Background(), nil)
				if d := time.Since(start); d != 0 {
					t.Errorf("%s: Send returned after %v, want at once", name, d)
				}
			}()
			synctest.Wait()
			c.Close(ctx)
			if err := <-pending; !errors.Is(err, ErrClosed) {
				t.Errorf("%s: Send error = %v, want ErrClosed", name, err)
			}
			if d := time.Since(start); d != test.want {
				t.Errorf("%s: Close took %v, want %v", name, d, test.want)
			}
		})
	}
}

// RL-53: credentials are fetched for every opening; when they are refused, or
// there are none any more, that is the end.
func TestConnCredentials(t *testing.T) {
	for name, fetch := range map[string]func() ([]byte, error){
		"refused by the server":   func() ([]byte, error) { return []byte("old"), nil },
		"refused to this process": func() ([]byte, error) { return nil, fmt.Errorf("%w: logged out", transparency.ErrDenied) },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, "a")
			n, bad := 0, false
			c := f.dial(&DialOptions{Credentials: func(context.Context) ([]byte, error) {
				if bad {
					return fetch()
				}
				if n++; n == 3 {
					return nil, errors.New("not now")
				}
				return fmt.Append(nil, n), nil
			}}, "a")
			f.with(func() {
				f.opening = func(_ *fakePeer, o opening) *reject {
					if string(o.Credentials) == "old" {
						return &reject{Code: rejectDenied}
					}
					return nil
				}
			})
			expire := func() { f.peer("a").tr.Close(CloseRetry, "credentials") }
			for range 3 {
				expire()
				fakeWait(t, "resume", func() bool { return c.State() == Connected })
				sendAll(t, c, "x")
				flush(t, c)
			}
			var shown []string
			for _, o := range f.openingsAt("a") {
				shown = append(shown, string(o.Credentials))
			}
			if !slices.Equal(shown, []string{"1", "2", "4", "5"}) {
				t.Errorf("%s: shown %v", name, shown)
			}
			bad = true
			expire()
			if _, err := c.Receive(t.Context()); !errors.Is(err, transparency.ErrDenied) {
				t.Errorf("%s: Receive error = %v, want ErrDenied", name, err)
			}
		})
	}
}

// RL-24: no token, credentials, payload or user of an address is in a log or
// an error, or printed with a Conn.
func TestConnTellsNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const addr, other = "ws://me:hush@a/path?key=hush", "ws://me:hush@b/path?key=hush"
		f := newFleet(t, addr, other)
		var buf lockedBuffer
		c := f.dial(&DialOptions{
			Logger:      slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Credentials: func(context.Context) ([]byte, error) { return []byte("hush"), nil },
		}, addr, other)
		sendAll(t, c, "hush")
		f.with(func() { f.frame = func(_ *fakePeer, k kind, _ []byte) bool { return k == kindData } })
		token := string(c.token)
		f.net.Refuse(other, true)
		f.net.Cut(addr)
		f.net.Cut(other)
		fakeWait(t, "resume", func() bool { return c.Stats().Connections == 2 })
		sendAll(t, c, "hush")
		f.with(func() {
			f.opening = func(*fakePeer, opening) *reject { return &reject{Code: rejectUnknown, Text: "hush"} }
		})
		f.net.Cut(addr)
		err := c.Flush(t.Context())
		text := fmt.Sprintf("%v %+v %#v %s %v %v", c, c, c, c, err, c.Close(t.Context())) + buf.String()
		if strings.Contains(text, "hush") || strings.Contains(text, token) || !strings.Contains(text, "RECONNECTING") {
			t.Errorf("told: %s", text)
		}
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
