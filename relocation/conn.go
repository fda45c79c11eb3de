package relocation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"
)

// A Conn is the client's side of a session: a row of messages in each
// direction that stays whole while the servers change. It comes from [Dial].
// It is safe for concurrent use, but for Receive, which is for one goroutine at
// a time.
//
// While it is idle a Conn has one goroutine, which reads.
type Conn struct {
	_ noCopy

	addrs  func(context.Context) ([]string, error)
	dialer Dialer
	opts   DialOptions
	log    *slog.Logger
	wall   func() time.Time // the wall clock; nil means that of time.Now

	ctx     context.Context // ends with the Conn
	cancel  context.CancelFunc
	done    chan struct{} // closed when the Conn has ended
	arrived chan struct{} // a token for Receive
	kick    chan struct{} // a token for the mover
	tasks   sync.WaitGroup
	changes changes

	mu      sync.Mutex // guards what follows
	after   []func()   // to be called without the lock; see unlock
	state   State
	err     error // why it has ended
	closing bool

	out     outbox
	in      inbox
	peerMax uint64     // the largest message that the server takes
	sends   sendQueue  // that wait for room
	waits   ackQueue   // for acknowledgements
	acks    ackCadence // what is not acknowledged yet

	link       *link // nil while there is none
	token      []byte
	generation uint64
	attempt    uint64 // of RESUME
	mover      mover
	stats      ConnStats
}

// noCopy has go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

func newConn(addrs func(context.Context) ([]string, error), d Dialer, opts DialOptions) *Conn {
	c := &Conn{
		addrs: addrs, dialer: d, opts: opts, log: opts.Logger,
		done: make(chan struct{}), arrived: make(chan struct{}, 1), kick: make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// unlock unlocks c.mu, and then does what was not to be done under it.
func (c *Conn) unlock() {
	after := c.after
	c.after = nil
	c.mu.Unlock()
	for _, f := range after {
		f()
	}
}

// Send sends a message. Nil says that it was taken and will be delivered, in
// order and once, whatever becomes of the connection, unless the session is
// lost: then it is in [Conn.Unacked]. An error says that it was not taken, and
// never will be delivered. Send copies p.
//
// While the buffer is full Send waits, and at the end of ctx returns
// [ErrBufferFull] joined with the context's error. It returns [ErrTooLarge]
// for more than the server takes, [ErrSequenceExhausted] after the last
// number, [ErrClosed] after Close, and after the loss of the session its
// [*LostError].
func (c *Conn) Send(ctx context.Context, p []byte) error {
	_, err := c.send(ctx, p, false)
	if err != nil {
		return failed("send", err)
	}
	return nil
}

// SendAck is [Conn.Send], and waits until the message was handled and that
// was committed. When the message was taken and the wait ends before, it
// returns an [*UnconfirmedError].
func (c *Conn) SendAck(ctx context.Context, p []byte) error {
	w, err := c.send(ctx, p, true)
	if err == nil {
		err = c.await(ctx, w)
	}
	if err != nil {
		return failed("send", err)
	}
	return nil
}

// Flush waits until all that was sent before is handled and committed. When
// the wait ends before, it returns an [*UnconfirmedError].
func (c *Conn) Flush(ctx context.Context) error {
	if err := c.usable(); err != nil {
		return failed("flush", err)
	}
	c.mu.Lock()
	if c.out.count() == 0 {
		c.unlock()
		return nil
	}
	c.out.at(c.out.last).ackNow = true
	if l := c.link; l != nil && l.sent == c.out.last {
		// It could not ask any more; a PING is answered after an ACK.
		l.probe(c.now())
	}
	w := c.waits.add(c.out.last)
	if c.err != nil {
		c.waits.fail(c.err)
	}
	c.unlock()
	if err := c.await(ctx, w); err != nil {
		return failed("flush", err)
	}
	return nil
}

// usable returns why no operation can work.
func (c *Conn) usable() error {
	if c == nil || c.done == nil {
		return invalid("the Conn does not come from Dial")
	}
	return nil
}

// send takes a message, and returns what to wait for if it is to be awaited.
func (c *Conn) send(ctx context.Context, p []byte, ack bool) (*ackWait, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	if err := c.refusal(len(p)); err != nil {
		c.unlock()
		return nil, err
	}
	if c.sends.empty() && c.room(len(p)) {
		w := c.take(p, ack)
		c.unlock()
		return w, nil
	}
	s := c.sends.add(p, ack)
	c.unlock()
	select {
	case <-s.ready:
		return s.wait, s.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.unlock()
	if s.taken() {
		return s.wait, s.err
	}
	c.sends.remove(s)
	c.admit()
	return nil, fmt.Errorf("%w: %w", ErrBufferFull, ctx.Err())
}

// refusal returns why a message of that size is not taken. Requires c.mu.
func (c *Conn) refusal(size int) error {
	switch {
	case c.err != nil:
		return c.err
	case c.closing:
		return ErrClosed
	case uint64(size) > c.peerMax: //nolint:gosec // a length
		return fmt.Errorf("%w: %d bytes, and the server takes %d", ErrTooLarge, size, c.peerMax)
	case c.out.last == maxSeq:
		return ErrSequenceExhausted
	}
	return nil
}

// room requires c.mu.
func (c *Conn) room(size int) bool {
	return c.out.count() == 0 ||
		c.out.count() < c.opts.BufferMessages && (c.out.bytes == 0 || c.out.bytes+size <= c.opts.BufferBytes)
}

// take puts a message into the buffer. Requires c.mu.
func (c *Conn) take(p []byte, ack bool) *ackWait {
	c.out.add(append([]byte(nil), p...), ack)
	var w *ackWait
	if ack {
		w = c.waits.add(c.out.last)
	}
	c.wake()
	return w
}

// admit takes the messages that have been waiting for room. Requires c.mu.
func (c *Conn) admit() {
	for s := c.sends.first(); s != nil; s = c.sends.first() {
		if err := c.refusal(len(s.p)); err != nil {
			c.sends.done(s, nil, err)
			continue
		}
		if !c.room(len(s.p)) {
			return
		}
		c.sends.done(s, c.take(s.p, s.ack), nil)
	}
}

// await waits for an acknowledgement.
func (c *Conn) await(ctx context.Context, w *ackWait) error {
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.unlock()
	switch {
	case c.out.acked >= w.seq:
		return nil
	case w.err != nil:
		return c.unconfirmed(w.seq, w.err)
	}
	c.waits.remove(w)
	return c.unconfirmed(w.seq, ctx.Err())
}

// unconfirmed requires c.mu.
func (c *Conn) unconfirmed(seq uint64, err error) error {
	return &UnconfirmedError{Seq: seq, Unacked: int(seq - c.out.acked), Err: err} //nolint:gosec // at most count
}

// Receive returns the next message, and acknowledges the one before. The end
// of ctx does not harm the connection. After the loss of the session Receive
// returns what had come before it, and then the [*LostError]; after Close
// [ErrClosed].
func (c *Conn) Receive(ctx context.Context) (Message, error) {
	if err := c.usable(); err != nil {
		return Message{}, failed("receive", err)
	}
	for first := true; ; first = false {
		c.mu.Lock()
		if first {
			c.handled(c.in.given)
		}
		m, err := c.receive(ctx)
		c.unlock()
		if m.Seq > 0 {
			return m, nil
		}
		if err != nil {
			return Message{}, failed("receive", err)
		}
		select {
		case <-c.arrived:
		case <-c.done:
		case <-ctx.Done():
		}
	}
}

// receive returns a message, or an error, or neither. Requires c.mu.
func (c *Conn) receive(ctx context.Context) (Message, error) {
	if err := ctx.Err(); err != nil {
		return Message{}, err
	}
	if c.closing || errors.Is(c.err, ErrClosed) {
		return Message{}, ErrClosed
	}
	if m, ok := c.in.next(); ok {
		if !c.in.queue.empty() {
			wakeUp(c.arrived)
		}
		return m, nil
	}
	return Message{}, c.err
}

// Ack acknowledges a message and those before it, when the next Receive would
// be too late. A message that Receive has not returned is ignored.
func (c *Conn) Ack(m Message) {
	if c.usable() != nil {
		return
	}
	c.mu.Lock()
	defer c.unlock()
	if m.Seq <= c.in.given {
		c.handled(m.Seq)
	}
}

// An Unacked is a message that was taken and is not acknowledged.
type Unacked struct {
	Seq  uint64
	Data []byte
}

// Unacked returns copies of the messages that Send has taken and that are not
// acknowledged, in order. After the loss of the session they are those whose
// fate the application has to decide upon.
func (c *Conn) Unacked() []Unacked {
	if c.usable() != nil {
		return nil
	}
	c.mu.Lock()
	defer c.unlock()
	var unacked []Unacked
	for seq := c.out.acked + 1; seq <= c.out.last && seq > 0; seq++ {
		unacked = append(unacked, Unacked{seq, append([]byte(nil), c.out.at(seq).data...)})
	}
	return unacked
}

// State returns what the Conn is doing.
func (c *Conn) State() State {
	if c.usable() != nil {
		return Closed
	}
	c.mu.Lock()
	defer c.unlock()
	return c.state
}

// Changes returns the changes of the state from now on, in order, until ctx or
// the Conn ends. The Conn does not wait for the loop: when it falls more than
// 64 changes behind, the oldest of them are left out, and Seq shows it.
func (c *Conn) Changes(ctx context.Context) iter.Seq[Change] {
	if c.usable() != nil {
		return func(func(Change) bool) {}
	}
	return c.changes.all(ctx)
}

// Addr returns the address of the server, or of the last one while there is
// none.
func (c *Conn) Addr() string {
	if c.usable() != nil {
		return ""
	}
	c.mu.Lock()
	defer c.unlock()
	return c.mover.addr
}

// String says what the Conn is doing, and no secret.
func (c *Conn) String() string { return "relocation.Conn(" + c.State().String() + ")" }

// Format is String for every verb: the fields hold the token and messages.
func (c *Conn) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }
