package relocation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-transparency/transparency"
)

// A Session is a session that is attached to a [Hub], under one generation:
// when its client comes back there is another Session with the same ID. It is
// safe for concurrent use.
type Session struct {
	hub       *Hub
	t         Transport
	principal Principal

	maxMessage, window uint64 // the client's

	// Since begin.
	id         string
	generation uint64
	attempt    uint64
	lease      Lease
	nonce      string
	done       chan struct{} // closed when it has left

	ctx    context.Context // of handlers
	cancel context.CancelCauseFunc

	mu       sync.Mutex // guards what follows
	valid    time.Time  // until then the lease is sure, by the clock of the wall too
	renewing bool
	stale    bool      // renew at once
	heard    time.Time // the client

	// The way in.
	recv      uint64    // the last message received
	queue     []inbound // those not handled
	room      chan struct{}
	open      uint64 // bytes received and not acknowledged
	doubt     bool   // what comes again may have been handled before
	clearing  bool   // the doubt ends when clearedBy is committed
	clearedBy uint64
	pumping   bool
	handling  bool     // a handler runs
	replies   [][]byte // its
	replying  int64    // their size
	replySize int64    // of those that are not committed
	admitted  *inbound // committed before it is handled; see AtMostOnce
	failed    bool     // a handler

	// Commits.
	handled    []handled // not committed
	committed  uint64    // In
	committing bool
	troubled   bool // the store does not answer
	careful    bool // one reply at a time, for the outbox is nearly full
	stuck      bool // nothing can be committed any more
	full       bool // the outbox, until more than fullAt is acknowledged
	fullAt     uint64
	mark       string
	marks      uint64
	confirm    bool // to be committed
	confirmed  bool // the client has shown that it has the token of this generation

	// The way out.
	out         uint64 // the last message in the store, as far as is known
	sent        uint64 // the last given to the transport
	sentBatch   string
	sizes       []uint64 // of acked+1 to sent
	flying      uint64   // their sum
	askedAck    bool
	acked       uint64
	ackedStored uint64
	look4more   bool   // there may be more in the store
	next        uint64 // the size of one that did not fit
	feeding     bool

	// The transport.
	chunks  [][]byte // to be written
	pending int      // bytes of them
	ackDue  bool
	pong    uint64
	pongDue bool
	writing bool
	closing bool // when all is written
	closed  bool
	code    CloseCode
	timer   *time.Timer // closes the transport when writing takes too long

	// The end.
	end       *sessionEnd
	finishing bool
	left      bool
	detach    context.CancelFunc // ends the context of Attached; may be nil
}

// newSession returns the session of an opening.
func newSession(base context.Context, h *Hub, t Transport, p Principal, o opening) *Session {
	s := &Session{
		hub: h, t: t, principal: p,
		maxMessage: o.MaxMessage, window: max(o.Window, 1),
		done: make(chan struct{}), heard: time.Now(),
	}
	s.ctx, s.cancel = context.WithCancelCause(base)
	return s
}

// begin takes what the store said to the request that was sent at start.
func (s *Session) begin(claim Claim, snapshot Snapshot, start time.Time) {
	s.generation, s.attempt, s.nonce = snapshot.Generation, claim.Attempt, claim.Nonce
	s.lease = Lease{Session: s.id, Owner: claim.Owner, Generation: snapshot.Generation, Duration: claim.Lease}
	s.extend(start)
	s.recv, s.committed = snapshot.In, snapshot.In
	s.doubt = !snapshot.Released && s.hub.opts.Mode != AtMostOnce
	s.mark = snapshot.Mark
	s.out = snapshot.Out
	s.ackedStored = snapshot.Acked
	s.acked = max(claim.Received, snapshot.Acked)
	s.sent = s.acked
	s.look4more = s.out > s.sent
}

// position asks the handler's database how far it is, which is where the
// session goes on.
func (s *Session) position(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = s.hub.panicked("Position", v)
		}
	}()
	at, err := s.hub.opts.Position(ctx, s.id)
	switch {
	case err != nil:
		return fmt.Errorf("%w: the position: %w", transparency.ErrUnavailable, err)
	case at < s.committed, at > maxSeq:
		return fmt.Errorf("%w: the handler's database is at %d, and %d were committed", ErrStateRegressed, at, s.committed)
	case at > s.committed:
		// Before the client is told: that says so when it resumes elsewhere.
		u := Update{In: at, After: s.mark, Mark: s.nextMark()}
		progress, err := retryStore(ctx, func(ctx context.Context) (Progress, error) {
			return s.hub.store.Commit(ctx, s.lease, u)
		})
		if err != nil {
			return err
		}
		s.mark, s.out = u.Mark, max(s.out, progress.Out)
		s.look4more = s.out > s.sent
	}
	// What the database has is known, whoever has been here before.
	s.recv, s.committed, s.doubt = at, at, false
	return nil
}

// answer makes WELCOME or RESUMED the first frame to be written.
func (s *Session) answer(k kind) {
	h := s.hub
	o := opened{
		Version: version, Token: makeToken(h.keys, s.id, s.generation, s.principal.ID), Generation: s.generation,
		In: s.committed, Out: s.out, Resume: h.opts.Resume, Ping: h.opts.Ping, Silence: h.opts.Silence,
		MaxMessage: uint64(h.opts.MaxMessage), Window: uint64(h.opts.Window), Server: []byte(h.opts.Name), //nolint:gosec // checked
	}
	k = map[kind]kind{kindHello: kindWelcome, kindResume: kindResumed}[k]
	s.queueFrames(appendOpened(nil, k, o))
}

// ID returns the name of the session, by which [Hub.Send] finds it. It is no
// secret: nobody can resume a session with it. It is the same in every
// generation.
func (s *Session) ID() string {
	if s == nil {
		return ""
	}
	return s.id
}

// Principal returns the ID of whose session it is.
func (s *Session) Principal() string {
	if s == nil {
		return ""
	}
	return s.principal.ID
}

// Generation returns the number of this ownership: each time that a client
// attaches, to whatever instance, it is higher. A resource that refuses lower
// numbers than it has seen shuts out handlers that do not own the session any
// more.
func (s *Session) Generation() uint64 {
	if s == nil {
		return 0
	}
	return s.generation
}

// Reply sends p to the client when the handler that runs returns nil: it is
// committed together with the message that is being handled, so that both
// count or neither does. It copies p. It returns ErrTooLarge, [ErrBufferFull]
// when the replies of one message are more than MaxUnackedMessages or
// MaxUnackedBytes, or an error wrapping ErrInvalid of the root package when no
// handler runs; see [Hub.Send].
func (s *Session) Reply(p []byte) error {
	if s == nil || s.hub == nil {
		return hubError("reply", invalid("there is no session"))
	}
	opts := &s.hub.opts
	s.mu.Lock()
	defer s.mu.Unlock()
	size := s.replying + int64(len(p))
	switch {
	case !s.handling:
		return hubError("reply", invalid("no message is being handled"))
	case len(p) > opts.MaxMessage:
		return hubError("reply", tooLarge(len(p), opts.MaxMessage))
	case len(s.replies) > 0 && (len(s.replies) >= opts.MaxUnackedMessages || size > opts.MaxUnackedBytes):
		return hubError("reply", ErrBufferFull)
	}
	s.replies, s.replying = append(s.replies, clone(p)), size
	return nil
}

func tooLarge(size, limit int) error {
	return fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, size, limit)
}

// kick starts what there is to do. It requires s.mu.
func (s *Session) kick() {
	if !s.pumping && s.canHandle() {
		s.pumping = true
		s.hub.tasks.Go(s.pump)
	}
	if !s.committing && s.canCommit() {
		s.committing = true
		s.hub.tasks.Go(s.commitAll)
	}
	if !s.feeding && s.canFeed() {
		s.feeding = true
		s.hub.tasks.Go(s.feed)
	}
	if !s.writing && s.canWrite() {
		s.writing = true
		s.hub.tasks.Go(s.write)
	}
	if s.end != nil && !s.finishing && s.settled() {
		s.finishing = true
		s.hub.tasks.Go(s.finish)
	}
}

// serve serves the transport to its end.
func (s *Session) serve(ctx context.Context, rest []byte) error {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.leave(sessionEnd{cause: ctx.Err(), last: s.finalGoAway, code: CloseRestart, grace: true})
	})
	defer stop()
	s.mu.Lock()
	if attached := s.hub.opts.Attached; attached != nil && s.end == nil {
		ctx, cancel := context.WithCancel(s.ctx)
		s.detach = cancel
		s.hub.tasks.Go(func() {
			defer cancel()
			defer s.hub.recovered("Attached")
			attached(ctx, s)
		})
	}
	s.kick()
	s.mu.Unlock()

	err := s.read(rest)

	s.mu.Lock()
	s.leave(sessionEnd{cause: err, now: true, lost: true})
	cause := s.end.cause
	s.mu.Unlock()
	_ = s.t.Close(CloseNormal, "") // it has ended
	if errors.Is(cause, errDrained) {
		return nil
	}
	return cause
}

// extend notes that the lease was renewed by a request sent at start. It is
// given up a little before its end. It requires s.mu.
func (s *Session) extend(start time.Time) {
	if until := start.Add(s.lease.Duration - s.lease.Duration/20); until.After(s.valid) {
		s.valid = until
	}
}

// owns reports whether the lease is sure. It requires s.mu.
func (s *Session) owns(now time.Time) bool { return lasts(s.valid, now, now.Round(0)) }

// lasts reports whether it is not yet until. The monotonic clock stands still
// while a machine sleeps, and the clock on the wall can be set: it is time when
// either says so.
func lasts(until, now, wall time.Time) bool {
	return now.Before(until) && wall.Before(until.Round(0))
}

// lapse is the lease with which to end it.
func (s *Session) lapse() Lease {
	lease := s.lease
	lease.Duration = 0
	return lease
}

// nextMark returns a mark that was never used. It requires s.mu.
func (s *Session) nextMark() string {
	s.marks++
	return s.nonce + "." + strconv.FormatUint(s.marks, 36)
}

func (p Principal) expired(now time.Time) bool { return !p.Expires.IsZero() && !now.Before(p.Expires) }
