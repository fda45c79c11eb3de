package relocation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-transparency/transparency/internal/backoff"
)

const (
	chunkSize  = 32 << 10 // of a transport message, unless one frame is larger
	maxPending = 4 * chunkSize
	closeGrace = time.Second // for the last frames to be written
)

// chunks are reused: 10,000 idle sessions have none.
var chunkPool = sync.Pool{New: func() any { b := make([]byte, 0, chunkSize); return &b }}

// queueFrames has frames written. It requires s.mu.
func (s *Session) queueFrames(frames []byte) {
	copy(s.grow(len(frames)), frames)
}

// grow makes room for n bytes at the end of what is to be written, and returns
// it. It requires s.mu.
func (s *Session) grow(n int) []byte {
	last := len(s.chunks) - 1
	if last < 0 || len(s.chunks[last])+n > cap(s.chunks[last]) {
		if n > chunkSize {
			s.chunks = append(s.chunks, make([]byte, 0, n))
		} else {
			s.chunks = append(s.chunks, *chunkPool.Get().(*[]byte))
		}
		last++
	}
	c := s.chunks[last]
	s.chunks[last] = c[:len(c)+n]
	s.pending += n
	return s.chunks[last][len(c):]
}

// queueData has a message written. It requires s.mu.
func (s *Session) queueData(m Outgoing) {
	var flags uint64
	s.flying += uint64(len(m.Data))
	if s.flying >= s.window/2 && !s.askedAck {
		flags, s.askedAck = dataAckNow, true
	}
	n := dataLen(m.Seq, flags, len(m.Data))
	appendData(s.grow(n)[:0], m.Seq, flags, m.Data)
	s.sent, s.sentBatch = m.Seq, m.Batch
	s.sizes = append(s.sizes, uint64(len(m.Data)))
	s.hub.counts.sent.Add(1)
}

func dataLen(seq, flags uint64, payload int) int {
	body := uvarintLen(seq) + uvarintLen(flags) + payload
	return 1 + uvarintLen(uint64(body)) + body //nolint:gosec // a length
}

// acknowledged takes an ACK. It can be ahead of what was sent here: the client
// may have more, from before, than it said when it resumed. It requires s.mu.
func (s *Session) acknowledged(n uint64) {
	if n > s.sent {
		s.sizes, s.flying, s.next = nil, 0, 0
		s.acked, s.askedAck, s.sent, s.sentBatch = n, false, n, ""
		return
	}
	for _, size := range s.sizes[:n-s.acked] {
		s.flying -= size
	}
	if s.sizes = s.sizes[n-s.acked:]; len(s.sizes) == 0 {
		s.sizes = nil
	}
	s.acked, s.askedAck = n, false
}

// fits reports whether the window takes a message of that size. It requires
// s.mu.
func (s *Session) fits(size uint64) bool {
	return s.flying == 0 || s.flying+size <= s.window
}

// canFeed requires s.mu.
func (s *Session) canFeed() bool {
	return s.end == nil && !s.left && !s.closing && !s.closed && (s.out > s.sent || s.look4more) &&
		s.pending < maxPending && s.fits(max(s.next, 1))
}

// offer takes messages that are in the store, the first under that number, and
// has them written if they are next and fit. Those that do not, the store gives
// later. It requires s.mu.
func (s *Session) offer(first uint64, messages [][]byte, batch string) {
	s.out = max(s.out, first+uint64(len(messages))-1)
	if s.feeding {
		return
	}
	for i, p := range messages {
		seq := first + uint64(i)
		if seq != s.sent+1 || !s.canFeed() || !s.put(Outgoing{Seq: seq, Batch: batch, Data: p}) {
			return
		}
	}
}

// put has the next message written, if it fits. It requires s.mu.
func (s *Session) put(m Outgoing) bool {
	if uint64(len(m.Data)) > s.maxMessage {
		s.endBy(closeTooLarge, fmt.Errorf("%w: %d bytes, and the client takes %d", ErrTooLarge, len(m.Data), s.maxMessage), endDelete)
		return false
	}
	if size := uint64(len(m.Data)); !s.fits(size) {
		s.next = size
		return false
	}
	s.next = 0
	s.queueData(m)
	return true
}

// appended says that there are messages in the store up to that number, or that
// there may be any.
func (s *Session) appended(out uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = max(s.out, out)
	s.look4more = s.look4more || out == 0
	s.kick()
}

// feed reads messages from the store and has them written, for as long as
// there are any that fit.
func (s *Session) feed() {
	pause := backoff.Policy{Base: 20 * time.Millisecond, Max: 500 * time.Millisecond}
	s.mu.Lock()
	defer s.mu.Unlock()
	for attempt := 0; s.canFeed(); {
		after, out := s.sent, s.out
		limit := chunkSize
		if room := s.window - min(s.flying, s.window); room < chunkSize {
			limit = int(room)
		}
		s.look4more = false
		s.mu.Unlock()
		ctx, cancel := s.hub.storeContext()
		messages, err := s.hub.store.Read(ctx, s.id, after, limit)
		cancel()
		if err != nil && !storeAnswer(err) {
			s.hub.opts.Logger.Warn("relocation: reading messages failed, trying again", "error", err)
			sleepOr(context.Background(), pause.Delay(attempt), s.ctx.Done())
			attempt++
			s.mu.Lock()
			s.look4more = true
			continue
		}
		attempt = 0
		s.mu.Lock()
		if !s.canFeed() && s.end != nil {
			break
		}
		if s.sent != after { // acknowledged meanwhile
			s.look4more = true
			continue
		}
		switch {
		case err != nil:
			s.refused(err)
		case len(messages) == 0 && out > after, len(messages) > 0 && messages[0].Seq != after+1:
			s.refused(ErrStateRegressed)
		}
		for _, m := range messages {
			s.out = max(s.out, m.Seq)
			if s.end != nil || !s.put(m) {
				break
			}
		}
		if len(messages) > 0 {
			s.look4more = true
		}
		s.kick()
	}
	s.feeding = false
	s.kick()
}

// canWrite requires s.mu.
func (s *Session) canWrite() bool {
	return !s.closed && (len(s.chunks) > 0 || s.ackDue || s.pongDue || s.closing)
}

// signs returns the ACK and the PONG that are due. It requires s.mu.
func (s *Session) signs() []byte {
	b := make([]byte, 0, 64)
	if (s.ackDue || s.pongDue) && s.committed > 0 {
		b = appendNumber(b, kindAck, s.committed)
	}
	if s.pongDue {
		b = appendNumber(b, kindPong, s.pong)
	}
	s.ackDue, s.pongDue = false, false
	return b
}

// nextChunk returns what is written next. It requires s.mu.
func (s *Session) nextChunk() []byte {
	if s.ackDue || s.pongDue {
		s.queueFrames(s.signs())
	}
	if len(s.chunks) == 0 {
		return nil
	}
	c := s.chunks[0]
	s.chunks[0] = nil
	if s.chunks = s.chunks[1:]; len(s.chunks) == 0 {
		s.chunks = nil
	}
	s.pending -= len(c)
	return c
}

// write writes for as long as there is something to write, and then closes the
// transport if that is due.
func (s *Session) write() {
	var failed error
	s.mu.Lock()
	for s.canWrite() {
		c := s.nextChunk()
		if c == nil { // closing
			break
		}
		s.kick() // there is room for more
		s.mu.Unlock()
		err := s.t.Write(s.hub.reading, c)
		if cap(c) == chunkSize {
			c = c[:0]
			chunkPool.Put(&c)
		}
		s.mu.Lock()
		if err != nil {
			failed = fmt.Errorf("%w: %w", errTransport, err)
			s.leave(sessionEnd{cause: failed, now: true, lost: true})
		}
	}
	closing, code := failed != nil || s.closing && !s.closed, s.code
	if closing {
		s.closed = true
		if s.timer != nil {
			s.timer.Stop()
		}
	}
	s.writing = false
	s.kick()
	s.mu.Unlock()
	if closing {
		_ = s.t.Close(code, "") // nobody to tell
	}
}
