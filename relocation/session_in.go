package relocation

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency"
)

const (
	// maxQueued bounds the messages that wait for the handler, whatever their
	// size: then nothing more is read.
	maxQueued = 16384
	// maxUncommitted bounds the messages that would be handled again if this
	// instance died: then none is handled.
	maxUncommitted = 256
)

// inbound is a message that was received and not handled.
type inbound struct {
	seq   uint64
	again bool
	data  []byte
}

// read takes what the client sends until the transport has ended. rest came
// with the opening.
func (s *Session) read(rest []byte) error {
	for b := rest; ; {
		if len(b) > 0 {
			if room := s.frames(b); room != nil {
				<-room
			}
		}
		var err error
		if b, err = s.t.Read(s.hub.reading); err != nil {
			return fmt.Errorf("%w: %w", errTransport, err)
		}
	}
}

var errTransport = fmt.Errorf("%w: transport", transparency.ErrUnavailable)

// frames takes one transport message. It returns what is closed when there is
// room for more, if there is none.
func (s *Session) frames(b []byte) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
	if !s.confirmed {
		// The first frame: the client has read the answer, with its token.
		s.confirmed, s.confirm = true, s.generation > 1
	}
	var own []byte // what is kept of b
	for len(b) > 0 && !s.closing && !s.closed {
		k, body, rest, err := nextFrame(b)
		if err == nil && k == kindData && own == nil {
			own = make([]byte, 0, s.payloads(b))
		}
		if err == nil {
			err = s.frame(k, body, &own)
		}
		if err != nil {
			s.breach(err)
			break
		}
		b = rest
	}
	s.kick()
	if len(s.queue) >= maxQueued {
		if s.room == nil {
			s.room = make(chan struct{})
		}
		return s.room
	}
	return nil
}

// payloads returns how many bytes of payload there are in the messages of b
// that come next. It requires s.mu.
func (s *Session) payloads(b []byte) (size int) {
	for next := s.recv + 1; len(b) > 0; {
		k, body, rest, err := nextFrame(b)
		if err != nil {
			break
		}
		if k == kindData {
			if seq, _, payload, err := parseData(body); err == nil && seq == next {
				next++
				size += len(payload)
			}
		}
		b = rest
	}
	return size
}

// frame takes one frame; payloads are copied to the end of own. An error is a
// breach of the protocol. It requires s.mu.
func (s *Session) frame(k kind, body []byte, own *[]byte) error {
	switch k {
	case kindData:
		return s.receive(body, own)
	case kindAck:
		n, err := parseNumber(body)
		if err == nil && n > s.out {
			err = fmt.Errorf("%w: %d acknowledged, of %d", ErrProtocol, n, s.out)
		}
		if err != nil || n <= s.acked {
			return err
		}
		s.acknowledged(n)
		return nil
	case kindPing:
		n, err := parseNumber(body)
		s.pong, s.pongDue = n, err == nil
		return err
	case kindPong:
		return nil
	case kindBye:
		n, err := parseNumber(body)
		if err == nil && s.end != nil {
			return nil // some of what it sent before was not received
		}
		if err == nil && n != s.recv {
			err = fmt.Errorf("%w: %d was the last, and %d came", ErrProtocol, n, s.recv)
		}
		if err != nil {
			return err
		}
		s.leave(sessionEnd{last: s.fin, code: CloseNormal, drain: true})
		return nil
	case kindClose:
		if _, err := parseClosing(body); err != nil {
			return err
		}
		s.leave(sessionEnd{how: endDelete, code: CloseNormal, cancel: ErrPeerClosed})
		return nil
	}
	if k&optional != 0 {
		return nil
	}
	return fmt.Errorf("%w: unexpected frame 0x%02x", ErrProtocol, byte(k))
}

// receive takes a DATA frame, and copies the payload to the end of own. It
// requires s.mu.
func (s *Session) receive(body []byte, own *[]byte) error {
	seq, flags, payload, err := parseData(body)
	switch {
	case err != nil:
		return err
	case seq <= s.recv:
		s.hub.counts.duplicates.Add(1)
		return nil
	case s.end != nil:
		// Not received: the client sends it again, to whoever is next.
		if s.end.drain {
			return fmt.Errorf("%w: DATA after BYE", ErrProtocol)
		}
		return nil
	case seq != s.recv+1:
		return fmt.Errorf("%w: %d came after %d", ErrProtocol, seq, s.recv)
	case len(payload) > s.hub.opts.MaxMessage:
		return fmt.Errorf("%w: a message of %d bytes", ErrProtocol, len(payload))
	case s.open > 0 && s.open+uint64(len(payload)) > uint64(s.hub.opts.Window): //nolint:gosec // checked
		return fmt.Errorf("%w: more than the window", ErrProtocol)
	}
	again := flags&dataAgain != 0
	if !again {
		s.clearDoubtAt(seq - 1)
	}
	s.recv = seq
	s.open += uint64(len(payload))
	start := len(*own)
	*own = append(*own, payload...)
	s.queue = append(s.queue, inbound{seq, again && s.doubt, (*own)[start:len(*own):len(*own)]})
	return nil
}

// clearDoubtAt notes that nothing after seq was handled before. It requires
// s.mu.
func (s *Session) clearDoubtAt(seq uint64) {
	if s.doubt && !s.clearing {
		s.clearing, s.clearedBy = true, seq
		s.clearDoubt()
	}
}

// clearDoubt ends the doubt when all is committed that may have been handled
// before. It requires s.mu.
func (s *Session) clearDoubt() {
	if s.clearing && s.committed >= s.clearedBy && !s.failed {
		s.doubt, s.clearing = false, false
	}
}

// breach answers a breach of the protocol. The session can be resumed. It
// requires s.mu.
func (s *Session) breach(err error) {
	s.hub.counts.protocol.Add(1)
	last := func() []byte { return appendReject(nil, reject{Code: rejectProtocol, Text: "protocol error"}) }
	s.leave(sessionEnd{cause: err, last: last, code: CloseProtocol, now: true})
}

// canHandle requires s.mu.
func (s *Session) canHandle() bool {
	switch {
	case s.left, s.failed, s.troubled, s.full,
		len(s.handled) >= maxUncommitted,
		s.replySize > s.hub.opts.MaxUnackedBytes,
		s.end != nil && s.end.how != endRelease:
		return false
	case s.hub.opts.Mode == AtMostOnce:
		return s.admitted != nil && s.owns(time.Now())
	case s.end != nil && !s.end.drain:
		return false
	}
	return len(s.queue) > 0 && s.owns(time.Now())
}

// take returns the next message. It requires s.mu, and canHandle.
func (s *Session) take() inbound {
	if m := s.admitted; m != nil {
		s.admitted = nil
		return *m
	}
	return s.dequeue()
}

func (s *Session) dequeue() inbound {
	m := s.queue[0]
	s.queue[0] = inbound{}
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil
	}
	if s.room != nil && len(s.queue) < maxQueued/2 {
		close(s.room)
		s.room = nil
	}
	return m
}

// pump has messages handled, one after the other, for as long as there are any.
func (s *Session) pump() {
	s.mu.Lock()
	defer func() {
		if s.handling { // the handler has ended this goroutine
			s.mu.Lock()
			s.handledOne(inbound{}, errGoexit)
		}
		s.pumping = false
		s.kick()
		s.mu.Unlock()
	}()
	for s.canHandle() {
		m := s.take()
		s.handling = true
		s.mu.Unlock()
		err := s.handle(m)
		s.mu.Lock()
		s.handledOne(m, err)
		s.kick()
	}
}

var errGoexit = errors.New("the handler ended its goroutine")

// handle calls the handler.
func (s *Session) handle(m inbound) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = s.hub.panicked("the handler", v)
		}
	}()
	return s.hub.handler(s.ctx, s, Message{Seq: m.seq, Data: m.data, Redelivered: m.again})
}

// handledOne notes the handler's result. It requires s.mu.
func (s *Session) handledOne(m inbound, err error) {
	replies := s.replies
	size := s.replying
	s.handling, s.replies, s.replying = false, nil, 0
	h := s.hub
	if errors.Is(err, ErrDuplicate) {
		err = nil // its effect is there
	}
	if err != nil {
		h.counts.handlerErrors.Add(1)
		replies, size = nil, 0
	} else {
		h.counts.handled.Add(1)
	}
	if s.left || s.end != nil && s.end.how == endGone {
		return // somebody else's by now
	}
	if errors.Is(err, ErrFenced) || errors.Is(err, ErrStateRegressed) {
		// What guards the effect knows it before the store says so.
		s.refused(err)
		return
	}
	if err != nil && h.opts.Mode != AtMostOnce {
		// What was begun is known to nobody: the next owner has to doubt it.
		s.failed, s.doubt = true, true
		h.opts.Logger.Warn("relocation: a handler failed", "error", err)
		s.leave(sessionEnd{cause: fmt.Errorf("handler: %w", err), code: CloseRetry})
		return
	}
	if err != nil {
		h.opts.Logger.Warn("relocation: a handler failed, and its message is lost", "error", err)
	}
	if h.opts.Mode == AtMostOnce && len(replies) == 0 {
		return // it was committed before
	}
	done := handled{seq: m.seq, size: uint64(len(m.data)), replies: replies}
	if h.opts.Mode == AtMostOnce {
		done.seq, done.size = 0, 0
	}
	s.replySize += size
	s.handled = append(s.handled, done)
}
