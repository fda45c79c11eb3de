package relocation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency"
)

var (
	errLeaseLost    = fmt.Errorf("%w: the lease was not renewed in time", transparency.ErrUnavailable)
	errClientSilent = fmt.Errorf("%w: the client is silent", transparency.ErrUnavailable)
	errCredentials  = fmt.Errorf("%w: the credentials have expired", transparency.ErrDenied)
)

// An endKind says what becomes of the session. A later one outweighs those
// before it.
type endKind uint8

const (
	endRelease endKind = iota // others may have it
	endDelete                 // it is over
	endGone                   // it is another's, or nobody's: the store is not told
)

// A sessionEnd says how a Session comes to its end.
type sessionEnd struct {
	how    endKind
	cause  error         // of Serve; nil as planned
	cancel error         // of the handlers' contexts, at once; nil: when all has ended
	last   func() []byte // makes the last frames; requires s.mu
	code   CloseCode     // with which the transport is closed
	to     string        // who wants the session
	drain  bool          // what was received is handled first
	now    bool          // the transport is closed at once
	grace  bool          // or after closeGrace
	lost   bool          // it is lost already
}

// leave begins the end of the session, or outweighs an end that has begun. It
// requires s.mu.
func (s *Session) leave(e sessionEnd) {
	if s.left {
		return
	}
	old := s.end
	switch {
	case old == nil:
		s.end = &e
		if s.detach != nil {
			s.detach()
		}
	case e.how > old.how:
		// What the first said to the client, this one says otherwise.
		e.drain, e.to = e.drain && old.drain, old.to
		s.end = &e
	case e.now:
		old.drain = false
	}
	if s.end.how != endRelease || !s.end.drain {
		s.drop()
	}
	if e.cancel != nil {
		s.cancel(e.cancel)
	}
	switch {
	case e.lost:
		s.closing, s.closed = true, true
		s.chunks, s.pending = nil, 0
	case e.now:
		s.closeTransport(e.last, e.code)
	case e.grace:
		s.later(func() { s.closeTransport(e.last, e.code) })
	}
	s.kick()
}

// drop forgets the messages that were received and not begun: the client sends
// them again. It requires s.mu.
func (s *Session) drop() {
	s.queue = nil
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}

// closeTransport closes the transport when all is written, and the last frames.
// It requires s.mu.
func (s *Session) closeTransport(last func() []byte, code CloseCode) {
	if s.closing || s.closed {
		return
	}
	s.closing, s.code = true, code
	if last != nil {
		s.queueFrames(append(s.signs(), last()...))
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = time.AfterFunc(closeGrace, func() {
		_ = s.t.Close(code, "") // nobody to tell
	})
	s.kick()
}

// later does something after closeGrace if the session is still there. It
// requires s.mu.
func (s *Session) later(do func()) {
	if s.timer != nil {
		return
	}
	s.timer = time.AfterFunc(closeGrace, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.left {
			do()
		}
	})
}

// settled reports whether nothing more is to be waited for. It requires s.mu.
func (s *Session) settled() bool {
	open := s.committing || len(s.handled) > 0 && !s.full && !s.stuck
	switch s.end.how {
	case endGone:
		return !s.committing && !s.pumping
	case endDelete:
		return !open
	}
	return !open && !s.pumping && s.admitted == nil && (len(s.queue) == 0 || !s.end.drain)
}

// doubtful reports whether the next owner has to doubt what comes again. It
// requires s.mu.
func (s *Session) doubtful() bool {
	return s.doubt || len(s.handled) > 0 // handled, and not to be committed
}

// finish tells the store, then the client, and is the end of the session.
func (s *Session) finish() {
	h := s.hub
	s.mu.Lock()
	how, to := s.end.how, s.end.to
	doubt := s.doubtful()
	s.mu.Unlock()
	err := s.settle(how, to, doubt)
	s.mu.Lock()
	s.left = true
	end := s.end
	switch {
	case errors.Is(err, ErrFenced):
		h.counts.fenced.Add(1)
	case how == endDelete:
		h.counts.ended.Add(1)
	case how == endRelease:
		h.counts.released.Add(1)
	}
	s.closeTransport(end.last, end.code)
	if s.closed && s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.cancel(context.Canceled)
	close(s.done)
	h.forget(s)
}

// settle tells the store.
func (s *Session) settle(how endKind, to string, doubt bool) error {
	ctx, cancel := s.hub.storeContext()
	defer cancel()
	_, err := retryStore(ctx, func(ctx context.Context) (struct{}, error) {
		switch {
		case how == endGone:
			return struct{}{}, nil
		case how == endDelete:
			return struct{}{}, s.hub.store.Delete(ctx, s.lease)
		case doubt:
			results := s.hub.store.Renew(ctx, []Lease{s.lapse()})
			if len(results) != 1 {
				return struct{}{}, errNoResult
			}
			return struct{}{}, results[0].Err
		}
		return struct{}{}, s.hub.store.Release(ctx, s.lease, to)
	})
	if err != nil && !storeAnswer(err) {
		s.hub.opts.Logger.Warn("relocation: a session was not released", "error", err)
	}
	return err
}

// fin answers BYE. It requires s.mu.
func (s *Session) fin() []byte { return appendNumber(nil, kindFin, s.committed) }

// finalGoAway sends the client elsewhere. It requires s.mu.
func (s *Session) finalGoAway() []byte {
	return appendGoAway(nil, goAway{Final: true, In: s.committed, Locations: s.hub.targets()})
}

// goAway asks the client to move.
func (s *Session) goAway(d *draining) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil || s.closing || s.closed {
		return
	}
	s.queueFrames(appendGoAway(nil, goAway{
		Deadline: time.Until(d.until), Spread: d.spread, Locations: d.locations(),
	}))
	s.kick()
}

// superseded is what a client is told when its session was resumed elsewhere.
func superseded() []byte {
	return appendReject(nil, reject{Code: rejectSuperseded, Text: "superseded"})
}

// yield finishes what runs and releases the session to another instance.
func (s *Session) yield(to string, generation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left || generation != 0 && generation != s.generation {
		return // it was meant for a session before
	}
	s.leave(sessionEnd{last: superseded, code: CloseRefused})
	s.end.to = to
}

// yieldTo is yield for a claim made to the same hub, if the claim is good.
func (s *Session) yieldTo(claim Claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.left:
		return nil
	case claim.Serial < s.generation && s.confirmed, claim.Received < s.acked:
		return ErrSessionTaken
	case claim.Attempt <= s.attempt:
		return ErrSuperseded
	}
	s.leave(sessionEnd{last: superseded, code: CloseRefused})
	return nil
}

// fence ends the session at once: it is another's.
func (s *Session) fence(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused(err)
}

// lose ends the session at once, for r says why it is nobody's to go on with
// here. It requires s.mu.
func (s *Session) lose(cause error, r reject) {
	if errors.Is(cause, ErrFenced) && !s.left && (s.end == nil || s.end.how != endGone) {
		s.hub.counts.fenced.Add(1)
	}
	last := func() []byte { return appendReject(nil, r) }
	s.leave(sessionEnd{how: endGone, cause: cause, cancel: cause, last: last, code: CloseRefused, now: true})
}

// endBy ends the session for good, and says so to the client. It requires s.mu.
func (s *Session) endBy(reason closeReason, cause error, how endKind) {
	last := func() []byte { return appendClosing(nil, closing{Code: reason}) }
	s.leave(sessionEnd{how: how, cause: cause, cancel: cause, last: last, code: CloseNormal, now: true})
}
