package relocation

import (
	"errors"
	"time"

	"github.com/go-transparency/transparency/internal/backoff"
)

// handled is a message that was handled and is not committed.
type handled struct {
	seq     uint64
	size    uint64
	replies [][]byte
}

// canCommit requires s.mu.
func (s *Session) canCommit() bool {
	switch {
	case s.left, s.stuck, s.end != nil && s.end.how == endGone:
		return false
	case s.full:
		return s.acked > s.fullAt
	case len(s.handled) > 0, s.canAdmit():
		return true
	}
	// What only saves space or time is not worth a request at the end.
	return s.end == nil && (s.acked > s.ackedStored || s.confirm)
}

// canAdmit reports whether a message is to be committed before it is handled.
func (s *Session) canAdmit() bool {
	return s.hub.opts.Mode == AtMostOnce && len(s.queue) > 0 && s.admitted == nil && !s.pumping &&
		(s.end == nil || s.end.how == endRelease && s.end.drain)
}

// commitment is one request to commit.
type commitment struct {
	update   Update
	count    int      // of s.handled
	size     uint64   // of the messages
	replies  int64    // bytes of them
	replied  int      // handled messages with replies
	admit    *inbound // to be handled
	known    uint64   // s.out
	fullness uint64   // s.acked
}

// compose makes the next commitment of all that there is. It requires s.mu,
// and canCommit.
func (s *Session) compose() commitment {
	c := commitment{known: s.out, fullness: s.acked}
	u := &c.update
	for _, m := range s.handled {
		if s.careful && len(m.replies) > 0 && c.count > 0 {
			break // it goes alone
		}
		if len(m.replies) > 0 {
			c.replied++
		}
		for _, r := range m.replies {
			c.replies += int64(len(r))
		}
		u.In = max(u.In, m.seq)
		u.Messages = append(u.Messages, m.replies...)
		c.size += m.size
		c.count++
		if s.careful && len(m.replies) > 0 || len(u.Messages) >= s.hub.opts.MaxUnackedMessages {
			break
		}
	}
	if c.count == len(s.handled) && s.canAdmit() {
		m := s.dequeue()
		c.admit = &m
		u.In = m.seq
		c.size += uint64(len(m.data))
	}
	u.Acked = s.acked
	u.Confirmed = s.confirm
	if s.sentBatch != "" {
		u.Sent = Sent{s.sent, s.sentBatch}
	}
	u.After, u.Mark = s.mark, s.nextMark()
	return c
}

// commitAll commits for as long as there is something to commit: one request
// at a time, the next with all that came meanwhile.
func (s *Session) commitAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.canCommit() {
		c := s.compose()
		s.mu.Unlock()
		progress, start, err := s.commit(c.update)
		s.mu.Lock()
		s.troubled = false
		s.noted(c, progress, start, err)
		s.kick()
	}
	s.committing = false
	s.kick()
}

// commit makes the request until it is answered, or the session is over.
func (s *Session) commit(u Update) (Progress, time.Time, error) {
	h := s.hub
	pause := backoff.Policy{Base: 20 * time.Millisecond, Max: 500 * time.Millisecond}
	for attempt := 0; ; attempt++ {
		ctx, cancel := h.storeContext()
		start := time.Now()
		progress, err := h.store.Commit(ctx, s.lease, u)
		cancel()
		h.counts.commits.Add(1)
		if err == nil || storeAnswer(err) {
			return progress, start, err
		}
		h.counts.commitErrors.Add(1)
		s.mu.Lock()
		s.troubled = true // nothing more is handled meanwhile
		over := s.left || s.end != nil && s.end.how == endGone
		s.mu.Unlock()
		if attempt == 0 {
			h.opts.Logger.Warn("relocation: a commit failed, trying again", "error", err)
		}
		if over || s.ctx.Err() != nil && attempt > 0 {
			return progress, start, err
		}
		sleepOr(h.reading, pause.Delay(attempt), s.ctx.Done())
	}
}

// storeAnswer reports whether a store that works said no.
func storeAnswer(err error) bool {
	for _, answer := range [...]error{
		ErrFenced, ErrStateRegressed, ErrUnknown, ErrExpired, ErrBufferFull, ErrSequenceExhausted,
	} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// noted notes the result of a commitment. It requires s.mu.
func (s *Session) noted(c commitment, p Progress, start time.Time, err error) {
	if s.left || s.end != nil && s.end.how == endGone {
		return
	}
	if errors.Is(err, ErrBufferFull) && len(c.update.Messages) > 0 {
		// Nothing was done. Unless this was the least that there is, less may
		// fit.
		if s.careful && c.replied <= 1 {
			s.full, s.fullAt = true, c.fullness
		}
		s.careful = true
		if c.admit != nil && s.end == nil {
			s.queue = append([]inbound{*c.admit}, s.queue...)
		}
		return
	}
	if err != nil {
		s.refused(err)
		return
	}
	s.full, s.careful = false, s.careful && len(s.handled) > c.count
	s.extend(start)
	s.mark = c.update.Mark
	s.ackedStored = max(s.ackedStored, c.update.Acked)
	if c.update.Confirmed {
		s.confirm = false
	}
	if s.handled = s.handled[c.count:]; len(s.handled) == 0 {
		s.handled = nil
	}
	s.replySize -= c.replies
	if c.update.In > s.committed {
		s.committed = c.update.In
		s.open -= min(c.size, s.open)
		s.ackDue = true
	}
	if c.admit != nil {
		s.admitted = c.admit
	}
	s.clearDoubt()
	if !s.progress(c.known, p.Out) {
		return
	}
	if len(c.update.Messages) > 0 {
		s.offer(p.First, c.update.Messages, c.update.Mark)
	}
}

// progress takes the last number of the outbox, of which known was known when
// the request was sent. It requires s.mu.
func (s *Session) progress(known, out uint64) bool {
	if out < known {
		s.refused(ErrStateRegressed)
		return false
	}
	s.out = max(s.out, out)
	return true
}

// refused takes a final answer of the store. It requires s.mu.
func (s *Session) refused(err error) {
	var expired *ExpiredError
	switch {
	case errors.Is(err, ErrFenced):
		s.lose(ErrFenced, reject{Code: rejectSuperseded, Text: "superseded"})
	case errors.Is(err, ErrStateRegressed):
		s.hub.opts.Logger.Error("relocation: the store went back, and a session ends")
		s.endBy(closeRegressed, err, endGone)
	case errors.As(err, &expired):
		s.lose(err, reject{Code: rejectExpired, Handled: expired.In, HandledKnown: true, Text: "expired"})
	case errors.Is(err, ErrUnknown):
		s.hub.opts.Logger.Error("relocation: the store has lost a session")
		s.lose(err, reject{Code: rejectUnknown, Handled: s.committed, HandledKnown: true, Text: "unknown"})
	case errors.Is(err, ErrSequenceExhausted):
		s.handled = nil // it cannot count without its replies
		s.endBy(closeExhausted, err, endDelete)
	default: // given up
		s.stuck = true
		s.leave(sessionEnd{cause: err, code: CloseRetry, now: true})
	}
}

// renewal returns what to renew, and what is known of the outbox.
func (s *Session) renewal() (Lease, uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left || s.end != nil && s.end.how == endGone {
		s.renewing = false
		return Lease{}, 0, false
	}
	return s.lease, s.out, true
}

// renewed notes the result of a renewal that was sent at start. It reports whether it gave back the lease that doubt had ended.
func (s *Session) renewed(start time.Time, known uint64, r Renewal) (undone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewing = false
	switch {
	case s.left, s.finishing, s.end != nil && s.end.how == endGone:
		return r.Err == nil && s.end.how == endRelease && s.doubtful()
	case r.Err == nil:
		s.extend(start)
		s.progress(known, r.Progress.Out)
	case storeAnswer(r.Err):
		s.refused(r.Err)
	default:
		s.hub.opts.Logger.Warn("relocation: a renewal failed, trying again", "error", r.Err)
	}
	s.kick()
	return false
}

// look ends the session if its time is over, and reports whether its lease is
// to be renewed.
func (s *Session) look(now time.Time) (due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	opts := &s.hub.opts
	switch {
	case s.left, s.end != nil && s.end.how == endGone:
		return false
	case !s.owns(now):
		s.hub.counts.lost.Add(1)
		opts.Logger.Warn("relocation: a lease was not renewed in time, and another instance may have the session")
		s.leave(sessionEnd{how: endGone, cause: errLeaseLost, cancel: errLeaseLost, code: CloseRetry, now: true})
		return false
	case s.end != nil:
	case now.Sub(s.heard) > opts.Ping+2*opts.Silence:
		s.leave(sessionEnd{cause: errClientSilent, code: CloseRetry, now: true})
	case s.principal.expired(now):
		s.leave(sessionEnd{cause: errCredentials, code: CloseRetry, grace: true})
	}
	if s.renewing || s.finishing || !s.stale && s.valid.Sub(now) > opts.Lease*3/5 {
		return false
	}
	s.renewing, s.stale = true, false
	return true
}

// notRenewed takes back what look said.
func (s *Session) notRenewed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewing = false
}
