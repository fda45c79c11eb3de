package relocation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
)

// RL-24: whatever is wrong with a token, the answer is the same, to the byte,
// and the session that it may have meant lives on.
func TestForgedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		c := r.hello("a")
		id := c.session()
		keys, other := newTokenKeys([][]byte{testKey}), newTokenKeys(nil)
		flip := func(i int) []byte {
			token := clone(c.said.Token)
			token[(i+len(token))%len(token)] ^= 1
			return token
		}
		var first []byte
		for name, token := range map[string][]byte{
			"unknown session":    makeToken(keys, "nobody's", 1, "ada"),
			"another principal":  makeToken(keys, id, 1, "bob"),
			"another key":        makeToken(other, id, 1, "ada"),
			"another generation": flip(12),
			"another session":    flip(14),
			"another MAC":        flip(-1),
			"another format":     flip(0),
			"short":              c.said.Token[:20],
			"noise":              bytes.Repeat([]byte("x"), 80),
		} {
			o := c.resumption(1, 0, 0)
			o.Token = token
			next := r.dial("a")
			next.write(appendOpening(nil, o))
			k, body := next.frame()
			if first == nil {
				first = body
			}
			if rej, _ := parseReject(body); k != kindReject || rej.Code != rejectUnknown || !bytes.Equal(body, first) {
				t.Errorf("%s: got frame 0x%02x %+v, want REJECT, unknown, as the others", name, byte(k), rej)
			}
			next.wantClosed(CloseRefused)
		}
		c.send(1)
		c.awaitAck(1)
	})
}

// RL-24: a token is its principal's alone.
func TestForeignPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", &HubOptions{Authenticate: func(_ context.Context, p Principal, credentials []byte) (Principal, error) {
			if len(credentials) > 0 {
				p.ID = string(credentials)
			}
			return p, nil
		}})
		c := r.hello("a")
		o := c.resumption(1, 0, 0)
		o.Credentials = []byte("bob")
		if rej := c.refused("a", o); rej.Code != rejectUnknown {
			t.Errorf("bob gets %+v with ada's token, want unknown", rej)
		}
		c.send(1)
		c.awaitAck(1)
	})
}

// RL-25: tokens of the key before are good while it is kept, and no longer.
func TestKeyRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		fresh := []byte("the key that comes next, 32 byte")
		r.start("old", nil)
		r.start("both", &HubOptions{Keys: [][]byte{fresh, testKey}})
		r.start("new", &HubOptions{Keys: [][]byte{fresh}})
		c := r.hello("old")
		if rej := c.refused("new", c.resumption(1, 0, 0)); rej.Code != rejectUnknown {
			t.Errorf("a hub without the key answers %+v, want unknown", rej)
		}
		c.resume("both", 1, 0, 0).resume("new", 2, 0, 0)
	})
}

// RL-27: a new session begins at one, whatever the one before has seen.
func TestNewSessionBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		c := r.hello("a")
		c.send(3)
		c.awaitAck(3)
		c.write(appendClosing(nil, closing{Code: closeDone}))
		c.wantClosed(CloseNormal)
		again := r.hello("a")
		again.send(1)
		again.awaitAck(1)
		r.wantHandled("a:1:1", "a:2:2", "a:3:3", "a:1:1")
	})
}

// RL-28: what comes twice is dropped and counted; after a gap nothing is
// handled, and the session can be resumed.
func TestDuplicatesAndGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		c := r.hello("a")
		c.send(3)
		c.sent = 0
		c.send(4)
		c.awaitAck(4)
		if got := a.Stats().Duplicates; got != 3 {
			t.Errorf("counted %d duplicates, want 3", got)
		}
		frames := appendData(nil, 6, 0, []byte("early"))
		c.write(appendData(frames, 5, 0, []byte("late")))
		if rej := c.rejected(); rej.Code != rejectProtocol {
			t.Errorf("a gap is answered with %+v, want protocol", rej)
		}
		c.wantClosed(CloseProtocol)
		next := c.resume("a", 1, 0, 4)
		next.send(5)
		next.awaitAck(5)
		r.wantHandled(numbers("a", 1, 5, "")...)
		if !errors.Is(r.lastServed(), ErrProtocol) {
			t.Errorf("Serve error = %v, want ErrProtocol", r.lastServed())
		}
	})
}

// RL-30: an acknowledgement that is lower than the last is ignored.
func TestAckBackwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		c := r.hello("a")
		c.sendFrom(a, "one", "two")
		c.wantData("1:one", "2:two")
		c.ack(2)
		c.ack(1)
		c.ack(0)
		c.sendFrom(a, "three")
		c.wantData("3:three")
	})
}

// RL-29 and its kind: what breaks the protocol ends the transport, not the
// session, and nothing else.
func TestBreaches(t *testing.T) {
	big := make([]byte, 60)
	for name, frames := range map[string][]byte{
		"RL-29: ACK of what was never sent": appendNumber(nil, kindAck, 2),
		"ACK beyond all numbers":            appendNumber(nil, kindAck, 1<<63),
		"no kind that is known":             appendFrame(nil, 0x7f, nil),
		"HELLO again":                       appendOpening(nil, testOpening()),
		"a server's frame":                  appendNumber(nil, kindFin, 0),
		"empty DATA":                        appendFrame(nil, kindData, nil),
		"DATA number zero":                  appendData(nil, 0, 0, nil),
		"DATA beyond all numbers":           appendData(nil, 1<<63, 0, nil),
		"a frame cut short":                 {byte(kindAck), 9, 1},
		"BYE of what did not come":          appendNumber(nil, kindBye, 1),
		"more than the window":              appendData(appendData(appendData(nil, 1, 0, big), 2, 0, big), 3, 0, big),
		"too large":                         appendData(nil, 1, 0, make([]byte, 101)),
		"DATA after BYE":                    appendData(appendNumber(nil, kindBye, 0), 1, 0, nil),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHubRig(t)
				a := r.start("a", &HubOptions{Window: 150, MaxMessage: 100})
				block := make(chan struct{})
				defer close(block)
				r.handle = func(context.Context, string, *Session, Message) error {
					<-block
					return nil
				}
				c := r.hello("a")
				c.sendFrom(a, "one")
				c.wantData("1:one")
				c.write(frames)
				if rej := c.rejected(); rej.Code != rejectProtocol {
					t.Errorf("got %+v, want protocol", rej)
				}
				c.wantClosed(CloseProtocol)
				if got := a.Stats().ProtocolErrors; got != 1 {
					t.Errorf("counted %d breaches, want 1", got)
				}
				if name == "more than the window" {
					return // its handler waits
				}
				c.resume("a", 1, 0, 0)
			})
		})
	}
}

// RL-34: the answer is the first frame, though messages wait.
func TestAnswerComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		b := r.start("b", nil)
		c := r.hello("a")
		r.net.Cut("a")
		c.sendFrom(a, "one", "two")
		next := r.dial("b")
		stop := make(chan struct{})
		go func() { // appending all the time
			defer close(stop)
			for i := range 100 {
				b.Send(t.Context(), c.session(), fmt.Append(nil, i))
			}
		}()
		next.write(appendOpening(nil, c.resumption(1, 0, 0)))
		next.opened(kindResumed) // fails if another frame is first
		next.wantData("1:one", "2:two")
		<-stop
		for i := range 100 {
			next.wantData(fmt.Sprintf("%d:%d", i+3, i))
		}
	})
}

// RL-37: a session that is closed right after it was resumed is over now.
func TestCloseAfterResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		r.start("b", nil)
		c := r.hello("a")
		c.send(2)
		c.awaitAck(2)
		next := r.dial("b")
		next.write(appendClosing(appendOpening(nil, c.resumption(1, 0, 2)), closing{Code: closeDone}))
		next.opened(kindResumed)
		next.wantClosed(CloseNormal)
		for _, hub := range []string{"a", "b"} {
			rej := next.refused(hub, next.resumption(2, 0, 2))
			if rej.Code != rejectExpired || !rej.HandledKnown || rej.Handled != 2 {
				t.Errorf("resuming at %s gets %+v, want expired, handled up to 2", hub, rej)
			}
		}
		if _, err := r.hubs["a"].Send(t.Context(), c.session(), nil); !errors.Is(err, ErrExpired) {
			t.Errorf("Hub.Send error = %v, want ErrExpired", err)
		}
	})
}

// RL-56: versions are agreed upon or refused, and what is newer is skipped.
func TestVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		o := testOpening()
		o.MinVersion, o.MaxVersion = 2, 3
		c := &fakeClient{r: r}
		if rej := c.refused("a", o); rej.Code != rejectVersion {
			t.Errorf("a client of versions 2 and 3 gets %+v, want version", rej)
		}
		c = r.dial("a")
		o.MinVersion, o.MaxVersion, o.Features = 0, 9, 1<<40
		newer := append(appendOpening(nil, o), 0)[2:] // with a field more
		c.write(appendFrame(appendFrame(nil, 0x99, []byte("a hint before")), kindHello, newer))
		c.opened(kindWelcome)
		if c.said.Version != 1 || c.said.Features != 0 {
			t.Errorf("agreed on version %d, features %b, want 1 and none", c.said.Version, c.said.Features)
		}
		c.write(appendFrame(nil, 0x99, []byte("a hint")))
		c.send(1)
		c.awaitAck(1)
	})
}

// The first frame has to be one that opens, and in time.
func TestBadOpenings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		for name, frames := range map[string][]byte{
			"not an opening": appendNumber(nil, kindPing, 1),
			"noise":          []byte("GET / HTTP/1.1"),
			"no token":       appendFrame(nil, kindResume, appendNumbers(nil, 1, 1, 0, 1, 1, 0, 0, 1, 0, 0)),
		} {
			c := r.dial("a")
			c.write(frames)
			if rej := c.rejected(); rej.Code != rejectProtocol {
				t.Errorf("%s: got %+v, want protocol", name, rej)
			}
			c.wantClosed(CloseProtocol)
		}
		start := time.Now()
		r.dial("a").wantClosed(CloseRetry)
		if took := time.Since(start); took != DefaultOpenTimeout {
			t.Errorf("a silent client was dropped after %v, want %v", took, DefaultOpenTimeout)
		}
		synctest.Wait()
		if s := a.Stats(); s.Openings != 0 || s.Sessions != 0 || s.Rejected != 3 {
			t.Errorf("stats %+v, want nothing open, 3 rejected", s)
		}
	})
}

// RL-53: credentials are checked at each opening; what has expired ends the
// transport, and a refusal is final, while trouble is not.
func TestCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		trouble := false
		r.start("a", &HubOptions{Authenticate: func(_ context.Context, p Principal, credentials []byte) (Principal, error) {
			switch {
			case trouble:
				return p, errors.New("the directory is down")
			case string(credentials) == "good":
				return Principal{ID: "ada", Expires: time.Now().Add(time.Minute)}, nil
			}
			return p, fmt.Errorf("%w: secret", transparency.ErrDenied)
		}})
		open := func(o opening, credentials string) opening {
			o.Credentials = []byte(credentials)
			return o
		}
		c := r.dial("a")
		c.write(appendOpening(nil, open(testOpening(), "good")))
		c.opened(kindWelcome)
		c.send(1)
		c.awaitAck(1)
		start := time.Now()
		for time.Since(start) < 59*time.Second {
			time.Sleep(10 * time.Second)
			c.ack(0)
		}
		c.wantClosed(CloseRetry)
		if took := time.Since(start); took > 61*time.Second {
			t.Errorf("the transport was ended after %v, want a minute", took)
		}
		if rej := c.refused("a", open(c.resumption(1, 0, 1), "bad")); rej.Code != rejectDenied || rej.Text != "denied" {
			t.Errorf("bad credentials get %+v, want denied", rej)
		}
		trouble = true
		if rej := c.refused("a", open(c.resumption(2, 0, 1), "good")); rej.Code != rejectBusy || rej.Retry == 0 {
			t.Errorf("trouble of the directory gets %+v, want busy, with a time", rej)
		}
		trouble = false
		next := r.dial("a")
		next.write(appendOpening(nil, open(c.resumption(3, 0, 1), "good")))
		next.opened(kindResumed)
		if next.said.In != 1 {
			t.Errorf("RESUMED says %d, want 1", next.said.In)
		}
	})
}
