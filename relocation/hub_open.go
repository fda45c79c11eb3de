package relocation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/backoff"
)

var (
	errDrained = fmt.Errorf("%w: the hub is draining", transparency.ErrUnavailable)
	errBusy    = fmt.Errorf("%w: too many openings under way", transparency.ErrUnavailable)
)

// Serve serves one client's transport until it has ended, and closes it. p is
// who the client is, as far as that is known before its first frame; see
// HubOptions.Authenticate.
//
// When ctx ends, the client is told to resume elsewhere. The session's handler
// is not bound to it, but sees its values. The error is nil when the transport
// ended as planned: the client moved on or ended the session, or the Hub
// drained. Otherwise it says why, and is [ErrClosed], an answer of the Store,
// ErrProtocol, the transport's error or one of a class of the root package.
func (h *Hub) Serve(ctx context.Context, t Transport, p Principal) error {
	err := h.unusable()
	switch {
	case t == nil:
		return hubError("serve", invalid("the Transport is nil"))
	case err == nil && !h.begin():
		return hubError("serve", h.reject(t, ErrClosed))
	}
	if err != nil {
		_ = t.Close(CloseRestart, "") // whoever serves is told why
		return hubError("serve", err)
	}
	defer h.tasks.Done()
	limitReads(t, 0) // what a stranger may send
	s, rest, err := h.open(ctx, t, p)
	if err == nil {
		limitReads(t, h.opts.MaxMessage)
		err = s.serve(ctx, rest)
	}
	if err != nil {
		return hubError("serve", err)
	}
	return nil
}

// open answers the first frame, and returns the session that it opened and
// what followed the frame.
func (h *Hub) open(ctx context.Context, t Transport, p Principal) (*Session, []byte, error) {
	h.mu.Lock()
	h.openings++
	busy := h.openings > maxOpenings
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.openings--
		h.mu.Unlock()
	}()
	base := context.WithoutCancel(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()

	if busy {
		return nil, nil, h.reject(t, errBusy)
	}
	k, o, rest, err := h.firstFrame(ctx, t)
	if errors.Is(err, errTransport) {
		_ = t.Close(CloseRetry, "") // nobody to tell
		return nil, nil, err
	}
	if err == nil && !h.Ready() {
		err = errDrained
	}
	if err != nil {
		return nil, nil, h.reject(t, err)
	}
	// A little longer than it may take, so that the client gives up first.
	ctx, cancel = context.WithTimeout(ctx, h.opts.OpenTimeout+max(h.opts.HandoffGrace, 0))
	defer cancel()
	p, err = h.authenticate(ctx, p, o.Credentials)
	if err != nil {
		return nil, nil, h.reject(t, err)
	}
	s := newSession(base, h, t, p, o)
	if err := s.admit(ctx, k, o); err != nil {
		return nil, nil, h.reject(t, err)
	}
	return s, rest, nil
}

// firstFrame reads HELLO or RESUME.
func (h *Hub) firstFrame(ctx context.Context, t Transport) (kind, opening, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, h.opts.OpenTimeout)
	defer cancel()
	b, err := t.Read(ctx)
	if err != nil {
		return 0, opening{}, nil, fmt.Errorf("%w: no first frame: %w", errTransport, err)
	}
	k, body, rest, err := nextFrame(b)
	for err == nil && k&optional != 0 {
		k, body, rest, err = nextFrame(rest)
	}
	if err == nil && k != kindHello && k != kindResume {
		err = fmt.Errorf("%w: frame 0x%02x first", ErrProtocol, byte(k))
	}
	if err != nil {
		return 0, opening{}, nil, err
	}
	o, err := parseOpening(k, body)
	if err == nil && (o.MinVersion > version || o.MaxVersion < version) {
		err = fmt.Errorf("%w: %w", ErrProtocol, errVersion)
	}
	o.Token, o.Credentials = clone(o.Token), clone(o.Credentials)
	return k, o, clone(rest), err
}

var errVersion = errors.New("no common version")

func clone(p []byte) []byte { return append([]byte{}, p...) }

// errAuthentication marks what was said of the client: a store, too, can answer
// that something is denied, and that is the server's trouble.
var errAuthentication = errors.New("authentication")

// authenticate returns who the client is.
func (h *Hub) authenticate(ctx context.Context, p Principal, credentials []byte) (known Principal, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = h.panicked("Authenticate", v)
		}
		if err != nil {
			err = fmt.Errorf("%w: %w", errAuthentication, err)
		}
	}()
	if h.opts.Authenticate != nil {
		if p, err = h.opts.Authenticate(ctx, p, credentials); err != nil {
			return Principal{}, err
		}
	}
	switch {
	case len(p.ID) > maxText:
		return Principal{}, fmt.Errorf("%w: a principal of %d bytes", transparency.ErrDenied, len(p.ID))
	case p.expired(time.Now()):
		return Principal{}, fmt.Errorf("%w: expired", transparency.ErrDenied)
	}
	return p, nil
}

// admit makes or attaches the session, and registers it.
func (s *Session) admit(ctx context.Context, k kind, o opening) error {
	h := s.hub
	claim := Claim{
		Owner: h.owner, Lease: h.opts.Lease, Nonce: rand.Text(),
		Principal: s.principal.ID, Attempt: o.Attempt, Received: o.Received, Acked: o.Acked,
	}
	h.mu.Lock()
	if !h.closed {
		h.background() // so that it hears when a session is released
	}
	h.mu.Unlock()
	var snapshot Snapshot
	var start time.Time
	var err error
	if k == kindHello {
		s.id = rand.Text()
		snapshot, err = retryStore(ctx, func(ctx context.Context) (Snapshot, error) {
			start = time.Now()
			return h.store.Create(ctx, s.id, h.terms(s.principal), claim)
		})
	} else {
		var ok bool
		if s.id, claim.Serial, ok = readToken(h.keys, o.Token, claim.Principal); !ok {
			return ErrUnknown
		}
		snapshot, start, err = h.attach(ctx, s.id, claim)
	}
	if err != nil {
		return err
	}
	s.begin(claim, snapshot, start)
	if k == kindResume && h.opts.Mode == Atomic {
		err = s.position(ctx)
	}
	if err == nil {
		s.answer(k)
		err = h.register(s)
	}
	if err != nil {
		h.undo(s, k == kindHello)
		return err
	}
	if k == kindHello {
		h.counts.created.Add(1)
	} else {
		h.counts.resumed.Add(1)
	}
	return nil
}

func (h *Hub) terms(p Principal) Terms {
	return Terms{
		Principal: p.ID, Resume: h.opts.Resume, Tombstone: h.opts.Tombstone,
		MaxMessages: h.opts.MaxUnackedMessages, MaxBytes: h.opts.MaxUnackedBytes,
	}
}

// undo gives back what no client was told of.
func (h *Hub) undo(s *Session, fresh bool) {
	ctx, cancel := h.storeContext()
	defer cancel()
	switch {
	case fresh:
		_ = h.store.Delete(ctx, s.lease) // then it expires
	case s.doubt:
		h.store.Renew(ctx, []Lease{s.lapse()})
	default:
		_ = h.store.Release(ctx, s.lease, "") // then its lease runs out
	}
}

// retryStore tries again what failed and may work.
func retryStore[T any](ctx context.Context, try func(context.Context) (T, error)) (T, error) {
	pause := backoff.Policy{Base: 20 * time.Millisecond, Max: 500 * time.Millisecond}
	for attempt := 0; ; attempt++ {
		v, err := try(ctx)
		if err == nil || !storeTrouble(err) || backoff.Sleep(ctx, pause.Delay(attempt)) != nil {
			return v, err
		}
	}
}

// storeTrouble reports whether the same request may be answered another time.
func storeTrouble(err error) bool {
	return errors.Is(err, transparency.ErrUnavailable) || errors.Is(err, transparency.ErrUncertain)
}

// reject answers an opening in vain, and returns err.
func (h *Hub) reject(t Transport, err error) error {
	r, code := h.rejection(err)
	h.counts.rejected.Add(1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = t.Write(ctx, appendReject(nil, r)) // the Close that follows says enough
	_ = t.Close(code, r.Text)              // nobody to tell
	return err
}

// rejection says to the client what err means for it. Its text is none of err.
func (h *Hub) rejection(err error) (reject, CloseCode) {
	var expired *ExpiredError
	switch {
	case errors.Is(err, errAuthentication):
		if errors.Is(err, transparency.ErrDenied) {
			return reject{Code: rejectDenied, Text: "denied"}, CloseRefused
		}
	case errors.As(err, &expired):
		return reject{Code: rejectExpired, Handled: expired.In, HandledKnown: true, Text: "expired"}, CloseRefused
	case errors.Is(err, ErrUnknown):
		return reject{Code: rejectUnknown, Text: "unknown"}, CloseRefused
	case errors.Is(err, ErrSessionTaken):
		return reject{Code: rejectTaken, Text: "taken"}, CloseRefused
	case errors.Is(err, ErrSuperseded), errors.Is(err, ErrFenced):
		return reject{Code: rejectSuperseded, Text: "superseded"}, CloseRefused
	case errors.Is(err, ErrStateRegressed):
		return reject{Code: rejectRegressed, Text: "state regressed"}, CloseRefused
	case errors.Is(err, errVersion):
		return reject{Code: rejectVersion, Text: "no common version"}, CloseRefused
	case errors.Is(err, ErrProtocol):
		h.counts.protocol.Add(1)
		return reject{Code: rejectProtocol, Text: "protocol error"}, CloseProtocol
	case errors.Is(err, errDrained), errors.Is(err, ErrClosed):
		return reject{Code: rejectMoved, Locations: h.targets(), Text: "draining"}, CloseRestart
	}
	h.opts.Logger.Warn("relocation: an opening failed", "error", err)
	// Spread, so that those who were refused together do not return together.
	retry := backoff.Policy{Base: 2 * time.Second, Max: 2 * time.Second}.Delay(0)
	return reject{Code: rejectBusy, Retry: retry, Text: "busy"}, CloseRetry
}

func (h *Hub) targets() []string {
	h.mu.Lock()
	d := h.drain
	h.mu.Unlock()
	if d == nil {
		return nil
	}
	return d.locations()
}
