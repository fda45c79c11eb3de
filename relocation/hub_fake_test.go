package relocation

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A fakeClient speaks the client's side of the protocol as a test says.
type fakeClient struct {
	r     *hubRig
	tr    Transport
	rest  []byte
	said  opened // WELCOME or RESUMED
	sent  uint64
	again uint64 // up to here it was sent before
}

// dial opens a transport to a hub.
func (r *hubRig) dial(hub string) *fakeClient {
	r.Helper()
	tr, err := r.net.Dial(r.Context(), hub)
	if err != nil {
		r.Fatalf("Dial(%q) error = %v", hub, err)
	}
	return &fakeClient{r: r, tr: tr}
}

func testOpening() opening {
	return opening{MinVersion: 1, MaxVersion: 1, MaxMessage: 1 << 20, Window: 1 << 20}
}

// hello opens a new session.
func (r *hubRig) hello(hub string) *fakeClient {
	r.Helper()
	c := r.dial(hub)
	c.write(appendOpening(nil, testOpening()))
	c.opened(kindWelcome)
	return c
}

// resume opens a session again, as a client does that had c.
func (c *fakeClient) resume(hub string, attempt, received, acked uint64) *fakeClient {
	c.r.Helper()
	next := c.r.dial(hub)
	next.again = c.sent
	next.write(appendOpening(nil, c.resumption(attempt, received, acked)))
	next.opened(kindResumed)
	next.sent = next.said.In
	return next
}

func (c *fakeClient) resumption(attempt, received, acked uint64) opening {
	o := testOpening()
	o.Token, o.Attempt, o.Received, o.Acked = c.said.Token, attempt, received, acked
	return o
}

// refused opens a session again, in vain.
func (c *fakeClient) refused(hub string, o opening) reject {
	c.r.Helper()
	next := c.r.dial(hub)
	next.write(appendOpening(nil, o))
	return next.rejected()
}

func (c *fakeClient) opened(want kind) {
	c.r.Helper()
	k, body := c.frame()
	if k == kindReject {
		r, _ := parseReject(body)
		c.r.Fatalf("the opening was rejected: %+v", r)
	}
	said, err := parseOpened(body)
	if k != want || err != nil {
		c.r.Fatalf("the first frame is 0x%02x (%v), want 0x%02x", byte(k), err, byte(want))
	}
	said.Token = clone(said.Token)
	c.said = said
}

func (c *fakeClient) rejected() reject {
	c.r.Helper()
	k, body := c.frame()
	rej, err := parseReject(body)
	if k != kindReject || err != nil {
		c.r.Fatalf("got frame 0x%02x (%v), want REJECT", byte(k), err)
	}
	return rej
}

func (c *fakeClient) write(frames []byte) {
	c.r.Helper()
	if err := c.tr.Write(c.r.Context(), frames); err != nil {
		c.r.Fatalf("Write error = %v", err)
	}
}

// send sends messages that hold their numbers, up to that one.
func (c *fakeClient) send(to uint64) {
	c.r.Helper()
	var frames []byte
	for c.sent < to {
		c.sent++
		var flags uint64
		if c.sent <= c.again {
			flags = dataAgain
		}
		frames = appendData(frames, c.sent, flags, fmt.Appendf(nil, "%d", c.sent))
	}
	c.write(frames)
}

func (c *fakeClient) ack(n uint64) { c.r.Helper(); c.write(appendNumber(nil, kindAck, n)) }

// frame returns the next frame.
func (c *fakeClient) frame() (kind, []byte) {
	c.r.Helper()
	k, body, err := c.next()
	if err != nil {
		c.r.Fatalf("Read error = %v, want a frame", err)
	}
	return k, body
}

// next waits for the next frame, for a minute at most.
func (c *fakeClient) next() (kind, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for len(c.rest) == 0 {
		b, err := c.tr.Read(ctx)
		if err != nil {
			return 0, nil, err
		}
		c.rest = clone(b)
	}
	k, body, rest, err := nextFrame(c.rest)
	c.rest = rest
	return k, body, err
}

// awaitAck waits for the acknowledgement of a message, and skips others.
func (c *fakeClient) awaitAck(n uint64) {
	c.r.Helper()
	for {
		k, body := c.frame()
		if k != kindAck {
			c.r.Fatalf("got frame 0x%02x, want ACK %d", byte(k), n)
		}
		if got, _ := parseNumber(body); got >= n {
			return
		}
	}
}

// awaitData returns the next message, and skips acknowledgements.
func (c *fakeClient) awaitData() Message {
	c.r.Helper()
	for {
		k, body := c.frame()
		switch k {
		case kindAck:
			continue
		case kindData:
			seq, flags, payload, err := parseData(body)
			if err != nil {
				c.r.Fatalf("DATA: %v", err)
			}
			return Message{Seq: seq, Data: payload, Redelivered: flags&dataAgain != 0}
		}
		c.r.Fatalf("got frame 0x%02x, want DATA", byte(k))
	}
}

// wantData checks the next messages: seq:data.
func (c *fakeClient) wantData(want ...string) {
	c.r.Helper()
	for _, w := range want {
		m := c.awaitData()
		if got := fmt.Sprintf("%d:%s", m.Seq, m.Data); got != w || m.Redelivered {
			c.r.Fatalf("got %q (again: %v), want %q", got, m.Redelivered, w)
		}
	}
}

// wantQuiet checks that nothing comes for a time, acknowledgements aside.
func (c *fakeClient) wantQuiet(d time.Duration) {
	c.r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	for {
		for len(c.rest) == 0 {
			b, err := c.tr.Read(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				c.r.Fatalf("Read error = %v, want nothing for %v", err, d)
			}
			c.rest = clone(b)
		}
		k, body, rest, err := nextFrame(c.rest)
		if c.rest = rest; k != kindAck {
			c.r.Fatalf("got frame 0x%02x %q (%v), want nothing for %v", byte(k), body, err, d)
		}
	}
}

// wantClosed checks that the transport ends with that code, and that no frame
// but acknowledgements comes before.
func (c *fakeClient) wantClosed(code CloseCode) {
	c.r.Helper()
	for {
		k, _, err := c.next()
		if err == nil && k == kindAck {
			continue
		}
		var closed *CloseError
		if !errors.As(err, &closed) || closed.Code != code {
			c.r.Fatalf("got frame 0x%02x (%v), want the end with code %d", byte(k), err, code)
		}
		return
	}
}

// session is the ID of the client's session, which only hubs can read.
func (c *fakeClient) session() string {
	c.r.Helper()
	id, _, ok := readToken(newTokenKeys([][]byte{testKey}), c.said.Token, "ada")
	if !ok {
		c.r.Fatalf("the token cannot be read")
	}
	return id
}

// sendFrom sends from a hub to the client.
func (c *fakeClient) sendFrom(h *Hub, texts ...string) {
	c.r.Helper()
	for _, text := range texts {
		if _, err := h.Send(c.r.Context(), c.session(), []byte(text)); err != nil {
			c.r.Fatalf("Hub.Send error = %v", err)
		}
	}
}
