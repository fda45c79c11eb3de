package relocation

import (
	"fmt"
	"sync"
	"time"

	"github.com/go-transparency/transparency"
)

// batchSize is how large a transport message becomes of several frames: one
// that has this size takes no more.
const batchSize = 32 << 10

// link is one transport under the session. It is never given another
// transport: what comes late from an old one finds that it is not the Conn's
// link any more, and is dropped.
//
// One goroutine reads. One writes, while there is something to write. A timer
// watches over both.
type link struct {
	conn  *Conn
	t     Transport
	addr  string
	since time.Time

	ping, silence time.Duration
	window        int

	// All that follows is guarded by conn.mu.
	writing  bool
	sent     uint64 // the last message written here
	inflight int    // bytes of acked+1 to sent
	unasked  int    // bytes since one asked to be acknowledged at once
	uncalled int    // messages, the same
	acked    uint64 // the last ACK written here

	pingDue, pongDue bool
	pings            uint64 // the number of the last PING
	pong             uint64 // that of the PING to answer

	bye     bool // asked for: no DATA is written any more
	byeDue  bool // and not written yet
	fin     bool
	end     bool // CLOSE is asked for: nothing follows it
	endDue  bool
	endCode closeReason

	beat    *time.Timer
	heard   instant // when something came last
	wrote   instant // when something was written last
	checked instant // when the clocks were compared last
	pinged  instant // when the PING that is not answered was asked for; zero when all are
}

var (
	errNoSign    = fmt.Errorf("%w: no sign of life", transparency.ErrUnavailable)
	errGoingAway = fmt.Errorf("%w: the server is going away", transparency.ErrUnavailable)
)

// wake starts the writer when there is something to write. Requires c.mu.
func (c *Conn) wake() {
	if l := c.link; l != nil && !l.writing && l.ready() {
		l.writing = true
		c.tasks.Go(l.write)
	}
}

// ready reports whether there is something to write. Requires conn.mu.
func (l *link) ready() bool {
	return l.pingDue || l.pongDue || l.byeDue || l.endDue || l.conn.acks.due && !l.end || l.more()
}

// maxUnderWay is how many messages are written and not acknowledged, however
// small they are.
const maxUnderWay = 8192

// more reports whether a message can be written. Requires conn.mu.
func (l *link) more() bool {
	out := &l.conn.out
	if l.bye || l.end || l.sent >= out.last || l.sent-out.acked >= maxUnderWay {
		return false
	}
	return l.inflight == 0 || l.inflight+len(out.at(l.sent+1).data) <= l.window
}

var batches = sync.Pool{New: func() any { return new([]byte) }}

func (l *link) write() {
	buf := batches.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= 2*batchSize {
			batches.Put(buf)
		}
	}()
	for {
		*buf = l.batch((*buf)[:0])
		if len(*buf) == 0 {
			return
		}
		if err := l.t.Write(l.conn.ctx, *buf); err != nil {
			l.conn.lost(l, err)
			return
		}
	}
}

// batch appends what is to be written next, or nothing when the writer is to
// end.
func (l *link) batch(b []byte) []byte {
	c := l.conn
	c.mu.Lock()
	defer c.unlock()
	if c.link != l || !l.ready() {
		l.writing = false
		return b
	}
	now := c.now()
	if now.slept(l.checked) {
		l.probe(now)
	}
	l.checked, l.wrote = now, now
	if !l.end && (c.acks.due || l.acked < c.in.handled) {
		b = appendNumber(b, kindAck, c.in.handled)
		l.acked = c.in.handled
		c.acks.written(&c.in)
	}
	if l.pingDue {
		b = appendNumber(b, kindPing, l.pings)
	}
	if l.pongDue {
		b = appendNumber(b, kindPong, l.pong)
	}
	for len(b) < batchSize && l.more() {
		b = l.data(b)
	}
	if l.byeDue {
		b = appendNumber(b, kindBye, l.sent)
	}
	if l.endDue {
		b = appendClosing(b, closing{Code: l.endCode})
	}
	l.pingDue, l.pongDue, l.byeDue, l.endDue = false, false, false, false
	return b
}

// data appends the next message. One asks to be acknowledged at once when half
// of what can be under way is. Requires conn.mu.
func (l *link) data(b []byte) []byte {
	c := l.conn
	l.sent++
	m := c.out.at(l.sent)
	l.inflight += len(m.data)
	l.unasked += len(m.data)
	l.uncalled++
	var flags uint64
	if m.ackNow || 2*l.unasked >= min(l.window, c.opts.BufferBytes) || 2*l.uncalled >= min(maxUnderWay, c.opts.BufferMessages) {
		flags |= dataAckNow
		l.unasked, l.uncalled = 0, 0
	}
	if l.sent <= c.out.written {
		flags |= dataAgain
		c.stats.Resent++
	}
	c.out.written = max(c.out.written, l.sent)
	return appendData(b, l.sent, flags, m.data)
}

// watch is called by the timer.
func (l *link) watch() {
	c := l.conn
	c.mu.Lock()
	defer c.unlock()
	if c.link != l {
		return
	}
	now := c.now()
	// The server, too, wants to hear something.
	quiet := max(now.sub(l.heard), now.sub(l.wrote))
	switch {
	case now.slept(l.checked):
		// The machine may have been asleep, and so may have been the answer:
		// what the clocks say proves nothing.
		l.probe(now)
	case l.pinged.zero():
		if quiet >= l.ping {
			l.probe(now)
		}
	case now.sub(l.pinged) >= l.silence:
		c.lose(l, errNoSign)
		return
	}
	l.checked = now
	wait := l.ping - quiet
	if !l.pinged.zero() {
		wait = min(l.silence-now.sub(l.pinged), l.ping)
	}
	l.beat.Reset(max(wait, time.Millisecond))
}

// probe asks for a sign of life. The answer to the first of several counts,
// unless the machine slept meanwhile. Requires conn.mu.
func (l *link) probe(now instant) {
	if l.pinged.zero() || now.slept(l.checked) {
		l.pinged = now
	}
	l.checked = now
	l.pings++
	l.pingDue = true
	l.conn.wake()
}

// ackCadence says when the client acknowledges: after so many messages or
// bytes or so long, or at once when it is due.
type ackCadence struct {
	messages, bytes int
	due             bool
	armed           bool
	timer           *time.Timer
}

const (
	ackMessages = 32
	ackBytes    = 64 << 10
	ackDelay    = 50 * time.Millisecond
)

// written notes that all was acknowledged.
func (a *ackCadence) written(in *inbox) {
	a.messages, a.bytes, a.due = 0, 0, false
	if in.urgent <= in.handled {
		in.urgent = 0
	}
}

// handled notes that the application is done with the messages up to seq.
// Requires c.mu.
func (c *Conn) handled(seq uint64) {
	messages, bytes := c.in.handle(seq)
	if messages == 0 {
		return
	}
	a := &c.acks
	a.messages += messages
	a.bytes += bytes
	switch {
	case a.messages >= ackMessages, a.bytes >= ackBytes, c.in.urgent > 0 && c.in.urgent <= c.in.handled:
		a.due = true
		c.wake()
	case a.armed:
	case a.timer == nil:
		a.armed = true
		a.timer = time.AfterFunc(ackDelay, c.ackLate)
	default:
		a.armed = true
		a.timer.Reset(ackDelay)
	}
}

// ackLate is called by the timer.
func (c *Conn) ackLate() {
	c.mu.Lock()
	defer c.unlock()
	c.acks.armed = false
	if c.acks.messages > 0 && c.err == nil {
		c.acks.due = true
		c.wake()
	}
}
