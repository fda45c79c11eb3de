package relocation

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
)

// networkRoom is how many bytes a link holds before a Write waits.
const networkRoom = 4 << 20

var (
	errTransportClosed = fmt.Errorf("%w: transport closed", transparency.ErrUnavailable)
	errTransportCut    = fmt.Errorf("%w: transport cut", transparency.ErrUnavailable)
)

// networkPair is the two ends of one transport.
type networkPair struct {
	host           *networkHost
	listener       *networkListener
	links          [2]networkLink // to the server, to the client
	client, server networkEnd
	closed         [2]atomic.Bool // the ends that write to the links
}

// newNetworkPair requires h.mu.
func newNetworkPair(h *networkHost, l *networkListener) *networkPair {
	p := &networkPair{host: h, listener: l}
	for i := range p.links {
		p.links[i] = networkLink{
			frozen: h.frozen[i], delay: h.delay[i],
			readable: make(chan struct{}, 1), writable: make(chan struct{}, 1),
		}
	}
	p.client = networkEnd{pair: p, in: 1, out: 0}
	p.server = networkEnd{pair: p, in: 0, out: 1}
	return p
}

func (p *networkPair) cut() {
	for i := range p.links {
		p.links[i].fail(errTransportCut, errTransportCut)
	}
	p.forget()
}

func (p *networkPair) forget() {
	p.host.mu.Lock()
	defer p.host.mu.Unlock()
	delete(p.host.pairs, p)
}

// networkEnd is one end of a transport.
type networkEnd struct {
	pair    *networkPair
	in, out int // which links
}

func (e *networkEnd) Read(ctx context.Context) ([]byte, error) {
	p, err := e.pair.links[e.in].read(ctx)
	if err == nil && e.pair.host.delivered(e.in) {
		e.pair.cut()
	}
	return p, err
}

func (e *networkEnd) Write(ctx context.Context, p []byte) error {
	return e.pair.links[e.out].write(ctx, p)
}

// Close lets the peer read what was written before it, and then the code and
// the reason. What the peer writes is lost.
func (e *networkEnd) Close(code CloseCode, reason string) error {
	in, out := &e.pair.links[e.in], &e.pair.links[e.out]
	out.set(func(l *networkLink) {
		if l.closed == nil && l.broken == nil {
			l.closed = &CloseError{Code: code, Reason: reason}
			l.enqueue(nil)
		}
	})
	in.fail(errTransportClosed, nil)
	if e.pair.closed[e.out].Store(true); e.pair.closed[e.in].Load() {
		e.pair.forget()
	}
	return nil
}

// networkLink is one direction of a transport: what was written and has not
// been read.
type networkLink struct {
	readable, writable chan struct{} // a token says: look again

	mu     sync.Mutex // guards what follows
	queue  []networkMessage
	bytes  int
	last   []byte // what the reader has until its next read
	spare  [][]byte
	frozen bool
	delay  time.Duration
	due    time.Time // of the message that was written last
	closed error     // by the writer: final, after the queue
	gone   bool      // the reader: what is written is dropped
	broken error     // for the reader, at once
	failed error     // for the writer, at once
}

// networkMessage is a message, or with no data the news of a Close.
type networkMessage struct {
	data []byte
	news bool
	due  time.Time
}

// set changes the link, and lets both sides look again.
func (l *networkLink) set(change func(*networkLink)) {
	l.mu.Lock()
	change(l)
	l.mu.Unlock()
	wakeUp(l.readable)
	wakeUp(l.writable)
}

// fail ends the link at once: for the reader, and for the writer when that
// error is not nil. Otherwise the writer is not told.
func (l *networkLink) fail(reader, writer error) {
	l.set(func(l *networkLink) {
		if l.broken == nil {
			l.broken = reader
		}
		if l.failed == nil {
			l.failed = writer
		}
		l.gone = true
		l.queue, l.spare, l.bytes = nil, nil, 0
	})
}

func (l *networkLink) read(ctx context.Context) ([]byte, error) {
	for {
		p, wait, err := l.next()
		if p != nil || err != nil {
			return p, err
		}
		if err := l.wait(ctx, l.readable, wait); err != nil {
			return nil, err
		}
	}
}

// next returns the message that has come, or how long it takes, or zero when
// there is none.
func (l *networkLink) next() ([]byte, time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil && len(l.spare) < 4 {
		l.spare = append(l.spare, l.last)
	}
	l.last = nil
	if l.broken != nil {
		return nil, 0, l.broken
	}
	if l.frozen || len(l.queue) == 0 {
		return nil, 0, nil
	}
	m := l.queue[0]
	if wait := m.until(); wait > 0 {
		return nil, wait, nil
	}
	if m.news {
		return nil, 0, l.closed
	}
	l.queue[0] = networkMessage{}
	l.queue = l.queue[1:]
	l.bytes -= len(m.data)
	l.last = m.data
	wakeUp(l.writable)
	return m.data, 0, nil
}

func (l *networkLink) write(ctx context.Context, p []byte) error {
	for {
		done, err := l.put(p)
		if done || err != nil {
			return err
		}
		if err := l.wait(ctx, l.writable, 0); err != nil {
			return err
		}
	}
}

// put takes a message, or reports that there is no room.
func (l *networkLink) put(p []byte) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.failed != nil:
		return false, l.failed
	case l.closed != nil:
		return false, errTransportClosed
	case l.gone:
		return true, nil
	case l.bytes > 0 && l.bytes+len(p) > networkRoom:
		return false, nil
	}
	data := []byte{}
	if n := len(l.spare); n > 0 {
		data = l.spare[n-1][:0]
		l.spare = l.spare[:n-1]
	}
	l.enqueue(append(data, p...))
	wakeUp(l.readable)
	return true, nil
}

// enqueue requires l.mu. Nil is the news of a Close.
func (l *networkLink) enqueue(data []byte) {
	m := networkMessage{data: data, news: data == nil}
	if l.delay > 0 || !l.due.IsZero() {
		if due := time.Now().Add(l.delay); due.After(l.due) {
			l.due = due
		}
		m.due = l.due
	}
	l.queue = append(l.queue, m)
	l.bytes += len(data)
}

func (m *networkMessage) until() time.Duration {
	if m.due.IsZero() {
		return 0
	}
	return time.Until(m.due)
}

// wait waits for a token, for a time if there is one, or for the end of ctx.
func (l *networkLink) wait(ctx context.Context, token <-chan struct{}, d time.Duration) error {
	var due <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-token:
		return nil
	case <-due:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wakeUp leaves a token in a channel that holds one.
func wakeUp(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
