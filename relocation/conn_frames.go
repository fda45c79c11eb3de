package relocation

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

var errStale = errors.New("not the present transport")

// read handles what comes from a transport until it ends; rest is what came
// together with the answer to the opening.
func (l *link) read(rest []byte) {
	err := l.handle(rest)
	for err == nil {
		p, failure := l.t.Read(l.conn.ctx)
		if failure != nil {
			l.conn.lost(l, failure)
			return
		}
		err = l.handle(p)
	}
	if !errors.Is(err, errStale) {
		l.conn.broken(l, err)
	}
}

// handle handles the frames of a transport message. Its error is one against
// the protocol, or errStale.
func (l *link) handle(p []byte) error {
	c := l.conn
	c.mu.Lock()
	defer c.unlock()
	if c.link == l {
		l.heard, l.pinged = c.now(), instant{}
	}
	for len(p) > 0 {
		if c.link != l {
			return errStale
		}
		k, body, rest, err := nextFrame(p)
		if err == nil {
			err = l.frame(k, body)
		}
		if err != nil {
			return err
		}
		p = rest
	}
	return nil
}

// frame handles one frame. Requires conn.mu.
func (l *link) frame(k kind, body []byte) error {
	switch k {
	case kindData:
		return l.message(body)
	case kindReject:
		r, err := parseReject(body)
		if err != nil {
			return err
		}
		return l.reject(r)
	case kindGoAway:
		g, err := parseGoAway(body)
		if err != nil {
			return err
		}
		return l.goAway(g)
	case kindClose:
		cl, err := parseClosing(body)
		if err != nil {
			return err
		}
		l.conn.closed(cl)
		return nil
	case kindAck, kindPing, kindPong, kindFin:
		n, err := parseNumber(body)
		if err != nil {
			return err
		}
		return l.number(k, n)
	}
	if k&optional != 0 {
		return nil
	}
	return fmt.Errorf("%w: frame %#02x", ErrProtocol, byte(k))
}

// number requires conn.mu.
func (l *link) number(k kind, n uint64) error {
	c := l.conn
	switch k {
	case kindAck:
		return l.acknowledged(n)
	case kindPing:
		l.pongDue, l.pong = true, n
		c.wake()
	case kindFin:
		if err := l.acknowledged(n); err != nil {
			return err
		}
		if !l.bye {
			return fmt.Errorf("%w: FIN without BYE", ErrProtocol)
		}
		l.fin = true
		wakeUp(c.kick)
	}
	return nil
}

// acknowledged drops what is acknowledged. Requires conn.mu.
func (l *link) acknowledged(n uint64) error {
	c := l.conn
	switch {
	case n > l.sent:
		return fmt.Errorf("%w: message %d acknowledged, of %d sent", ErrProtocol, n, l.sent)
	case n <= c.out.acked:
		return nil
	}
	before := c.out.bytes
	c.acknowledge(n)
	l.inflight -= before - c.out.bytes
	c.admit()
	c.wake()
	return nil
}

// acknowledge requires c.mu, and that n is not above what was sent.
func (c *Conn) acknowledge(n uint64) {
	if n > c.out.acked {
		c.out.ack(n)
		c.waits.acked(n)
	}
}

// message takes a message. Requires conn.mu.
func (l *link) message(body []byte) error {
	c := l.conn
	seq, flags, payload, err := parseData(body)
	switch {
	case err != nil:
		return err
	case seq <= c.in.received:
		c.stats.Duplicates++
		return nil
	case seq != c.in.received+1:
		return fmt.Errorf("%w: message %d after %d", ErrProtocol, seq, c.in.received)
	case len(payload) > c.opts.MaxMessage:
		return fmt.Errorf("%w: a message of %d bytes", ErrProtocol, len(payload))
	case c.in.bytes > 2*c.opts.Window:
		// One and a half are legal; see inbox.report.
		return fmt.Errorf("%w: more than the window", ErrProtocol)
	}
	c.in.add(Message{Seq: seq, Data: append([]byte{}, payload...), Redelivered: flags&dataAgain != 0})
	if flags&dataAckNow != 0 {
		c.in.urgent = seq
	}
	wakeUp(c.arrived)
	return nil
}

// reject handles a REJECT on a transport that was open already: the server
// ends it. Requires conn.mu.
func (l *link) reject(r reject) error {
	c := l.conn
	v := judge(r)
	switch {
	case r.Code == rejectSuperseded:
		v.final, v.err = ErrSessionTaken, errors.New("superseded by another attempt")
	case v.protocol:
		return v.err
	}
	if v.final != nil {
		c.lostFor(v)
		return errStale
	}
	c.mover.hints, c.mover.retry = v.locations, v.retry
	c.lose(l, v.err)
	return errStale
}

// closed handles a CLOSE. Requires c.mu.
func (c *Conn) closed(cl closing) {
	reason := ErrPeerClosed
	switch cl.Code {
	case closeRegressed:
		reason = ErrStateRegressed
	case closeExhausted:
		reason = ErrSequenceExhausted
	case closeTooLarge:
		reason = ErrTooLarge
	case closeProtocol:
		reason = ErrProtocol
	}
	if c.closing {
		c.end(ErrClosed)
		return
	}
	c.lostFor(verdict{final: reason})
}

// avoided is for how long an address is avoided that asked to be left and did
// not say until when.
const avoided = 10 * time.Second

// goAway handles a GOAWAY. Requires conn.mu.
func (l *link) goAway(g goAway) error {
	c, m := l.conn, &l.conn.mover
	now := time.Now()
	var deadline time.Time
	if g.Deadline > 0 {
		deadline = now.Add(min(g.Deadline, longest))
	}
	m.shun(l.addr, max(min(g.Deadline, longest), avoided))
	if g.Final {
		if err := l.acknowledged(g.In); err != nil {
			return err
		}
		m.hints = g.Locations
		c.lose(l, errGoingAway)
		return errStale
	}
	if c.closing || l.bye {
		return nil
	}
	depart := now
	if spread := min(g.Spread, g.Deadline, longest); spread > 0 {
		depart = now.Add(rand.N(spread))
	}
	if m.plan == nil {
		m.plan = &plan{link: l, depart: depart}
	}
	if !m.plan.asked {
		// Moved a moment ago: servers that send a client on and on do not make
		// it spin.
		if l.settle(); m.attempts > 0 {
			m.plan.earliest = now.Add(m.delay(c.opts))
		} else {
			m.attempts = 1
		}
	}
	m.plan.merge(depart, deadline, g.Locations)
	c.setState(Migrating, l.addr, nil)
	c.startMover()
	return nil
}

// lost notes that a transport has ended.
func (c *Conn) lost(l *link, err error) {
	c.mu.Lock()
	defer c.unlock()
	c.lose(l, err)
}

// broken notes that the server broke the protocol.
func (c *Conn) broken(l *link, err error) {
	c.mu.Lock()
	defer c.unlock()
	if c.link != l {
		return
	}
	l.settle()
	if c.mover.violated() {
		c.lostFor(verdict{final: ErrProtocol, err: err})
		return
	}
	c.loseWith(l, CloseProtocol, err)
}

// lose drops a transport, and looks for another. Requires c.mu.
func (c *Conn) lose(l *link, err error) { c.loseWith(l, CloseNormal, err) }

// loseWith leaves a transport after FIN to the mover, which is about to drop
// it: that it ends then is as planned.
func (c *Conn) loseWith(l *link, code CloseCode, err error) {
	if c.link != l || l.fin {
		return
	}
	if c.closing && !l.bye {
		c.end(ErrClosed)
		return
	}
	m := &c.mover
	if m.plan != nil && m.plan.link == l && len(m.hints) == 0 {
		m.hints = m.plan.targets
	}
	c.drop(l, code)
	c.stats.Losses++
	c.setState(Reconnecting, l.addr, err)
	c.startMover()
}

// drop takes the transport away. Requires c.mu.
func (c *Conn) drop(l *link, code CloseCode) {
	l.settle()
	c.link = nil
	l.beat.Stop()
	c.after = append(c.after, func() { _ = l.t.Close(code, "") })
	c.mover.plan, c.mover.pool, c.mover.hops = nil, nil, 0
	wakeUp(c.kick)
}

// stable is how long a connection has to stand for the back-off to start anew.
const stable = 10 * time.Second

// settle forgets the attempts before a connection that stood. Requires conn.mu.
func (l *link) settle() {
	if m := &l.conn.mover; time.Since(l.since) >= stable {
		m.attempts, m.violations = 0, 0
	}
}

// lostFor ends the Conn because the session is lost. Requires c.mu.
func (c *Conn) lostFor(v verdict) {
	if c.err != nil {
		return
	}
	e := &LostError{Reason: v.final, Err: v.err}
	if v.known && v.handled >= c.out.acked && v.handled <= c.out.written {
		e.Handled, e.HandledKnown = v.handled, true
		c.acknowledge(v.handled)
	}
	e.Unacked = c.out.count()
	if c.closing {
		c.end(ErrClosed)
		return
	}
	c.end(e)
}
