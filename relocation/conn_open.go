package relocation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-transparency/transparency"
)

// verdict is what came of an attempt to connect.
type verdict struct {
	ok    bool
	err   error // what went wrong
	final error // the reason for which no other attempt is made

	handled   uint64 // with final
	known     bool
	protocol  bool // the server broke the protocol, or says that we did
	moved     bool
	retry     time.Duration
	locations []string
}

// connect makes one attempt at an address, bounded by DialTimeout.
func (c *Conn) connect(ctx context.Context, addr string) verdict {
	deadline := time.Now().Add(c.opts.DialTimeout)
	t, credentials, err := c.dial(ctx, addr, deadline)
	if err != nil {
		return dialVerdict(err)
	}
	return c.open(ctx, t, addr, credentials, deadline)
}

func dialVerdict(err error) verdict {
	v := verdict{err: err}
	if errors.Is(err, transparency.ErrDenied) {
		v.final = transparency.ErrDenied
	}
	return v
}

// dial opens a transport, and fetches what is to be shown on it.
func (c *Conn) dial(ctx context.Context, addr string, deadline time.Time) (t Transport, credentials []byte, err error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if c.opts.Credentials != nil {
		if credentials, err = c.opts.Credentials(ctx); err != nil {
			return nil, nil, fmt.Errorf("credentials: %w", err)
		}
		if len(credentials) > maxCredentials {
			return nil, nil, invalid("the credentials have more than %d bytes", maxCredentials)
		}
	}
	t, err = c.dialer.Dial(ctx, addr)
	switch {
	case err != nil:
		return nil, nil, err
	case t == nil:
		return nil, nil, invalid("the dialer returned no transport")
	}
	limitReads(t, c.opts.MaxMessage)
	return t, credentials, nil
}

// open opens or resumes the session on a transport, which is closed if that
// does not succeed.
func (c *Conn) open(ctx context.Context, t Transport, addr string, credentials []byte, deadline time.Time) verdict {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	code := CloseNormal
	v, resumed := c.exchange(ctx, t, credentials)
	if resumed != nil {
		v = c.attach(t, addr, resumed)
	}
	c.mu.Lock()
	c.mover.opening = false
	c.unlock()
	if !v.ok {
		if v.protocol {
			code = CloseProtocol
		}
		_ = t.Close(code, "")
	}
	return v
}

// answer is what the server said to an opening, and what came with it.
type answer struct {
	kind kind
	opened
	rest []byte
}

// exchange sends the opening and reads the answer.
func (c *Conn) exchange(ctx context.Context, t Transport, credentials []byte) (verdict, *answer) {
	frame, want, err := c.opening(credentials)
	if err != nil {
		return verdict{err: err}, nil
	}
	if err := t.Write(ctx, frame); err != nil {
		return verdict{err: err}, nil
	}
	p, err := t.Read(ctx)
	if err != nil {
		return verdict{err: err}, nil
	}
	k, body, rest, err := nextFrame(p)
	if err != nil {
		return verdict{err: err, protocol: true}, nil
	}
	switch k {
	case want:
		o, err := parseOpened(body)
		switch {
		case err != nil:
		case o.Version != version:
			err = fmt.Errorf("%w: version %d", ErrProtocol, o.Version)
		case len(o.Token) == 0:
			err = malformed("token")
		default:
			o.Token = append([]byte(nil), o.Token...)
			return verdict{}, &answer{k, o, rest}
		}
		return verdict{err: err, protocol: true}, nil
	case kindReject:
		r, err := parseReject(body)
		if err != nil {
			return verdict{err: err, protocol: true}, nil
		}
		return judge(r), nil
	}
	return verdict{err: fmt.Errorf("%w: frame %#02x before the answer", ErrProtocol, byte(k)), protocol: true}, nil
}

// opening returns the first frame, and the kind of the answer to it.
func (c *Conn) opening(credentials []byte) ([]byte, kind, error) {
	c.mu.Lock()
	defer c.unlock()
	if c.err != nil {
		return nil, 0, c.err
	}
	o := opening{
		MinVersion: version, MaxVersion: version,
		MaxMessage: uint64(c.opts.MaxMessage), Window: uint64(c.opts.Window), //nolint:gosec // positive
		Credentials: credentials,
	}
	if c.token == nil {
		return appendOpening(nil, o), kindWelcome, nil
	}
	c.mover.opening = true
	c.attempt++
	o.Token, o.Attempt = c.token, c.attempt
	o.Received, o.Acked = c.in.report(c.opts.Window), c.out.acked
	return appendOpening(nil, o), kindResumed, nil
}

// judge says what a REJECT means for an opening.
func judge(r reject) verdict {
	v := verdict{err: rejectError(r), handled: r.Handled, known: r.HandledKnown, retry: min(r.Retry, longest)}
	switch r.Code {
	case rejectUnknown, rejectExpired:
		v.final = ErrSessionLost
	case rejectTaken:
		v.final = ErrSessionTaken
	case rejectRegressed:
		v.final = ErrStateRegressed
	case rejectDenied:
		v.final = transparency.ErrDenied
	case rejectVersion:
		v.final = ErrProtocol
	case rejectProtocol:
		v.protocol = true
	case rejectMoved:
		v.moved = true
		for _, l := range r.Locations {
			if l != "" {
				v.locations = append(v.locations, l)
			}
		}
	}
	return v
}

// rejectError returns an error with the class of trouble that passes, unless
// it does not pass.
func rejectError(r reject) error {
	switch r.Code {
	case rejectUnknown:
		return errors.New("the server does not know the session")
	case rejectExpired:
		return errors.New("the session has expired")
	case rejectTaken:
		return errors.New("the session was resumed with a copy of the token")
	case rejectRegressed:
		return errors.New("the server says so")
	case rejectDenied:
		return errors.New("the credentials were refused")
	case rejectVersion:
		return errors.New("no common version")
	case rejectProtocol:
		return fmt.Errorf("%w: the server says so", ErrProtocol)
	case rejectSuperseded:
		return fmt.Errorf("%w: superseded by another attempt", transparency.ErrUnavailable)
	case rejectBusy:
		return fmt.Errorf("%w: the server is busy", transparency.ErrUnavailable)
	case rejectMoved:
		return fmt.Errorf("%w: the server points elsewhere", transparency.ErrUnavailable)
	}
	return fmt.Errorf("%w: the server refused with code %d", transparency.ErrUnavailable, r.Code)
}

// attach makes a transport the Conn's link.
func (c *Conn) attach(t Transport, addr string, a *answer) verdict {
	c.mu.Lock()
	defer c.unlock()
	if c.err != nil {
		return verdict{err: c.err}
	}
	if a.kind == kindWelcome {
		c.out.acked, c.out.last, c.out.written = a.In, a.In, a.In
		c.in.received, c.in.given, c.in.handled, c.in.reported = a.Out, a.Out, a.Out, a.Out
	}
	if v := c.check(a); v.err != nil {
		return v
	}
	again := c.out.written > a.In
	c.token, c.generation, c.peerMax = a.Token, a.Generation, a.MaxMessage
	c.acknowledge(a.In)
	now := c.now()
	l := &link{
		conn: c, t: t, addr: addr, since: now.at, heard: now, wrote: now, checked: now,
		ping: beatTime(a.Ping, DefaultPing), silence: beatTime(a.Silence, DefaultSilence),
		window: int(min(a.Window, math.MaxInt)), sent: c.out.acked,
	}
	l.beat = time.AfterFunc(l.ping, l.watch)
	c.link, c.mover.addr, c.mover.hops, c.mover.pool, c.mover.hints = l, addr, 0, nil, nil
	c.mover.lastErr = nil
	c.stats.Connections++
	if again {
		c.log.Debug("relocation: sends again what is not acknowledged")
	}
	if c.closing {
		l.end, l.endDue, l.endCode = true, true, closeDone
	}
	c.setState(Connected, addr, nil)
	c.granted(addr)
	// Something has to show the new token, and the acknowledgement is due.
	c.acks.due = true
	c.admit()
	c.wake()
	rest := a.rest
	c.tasks.Go(func() { l.read(rest) })
	return verdict{ok: true}
}

// check compares what the server knows with what this side does. Requires
// c.mu.
func (c *Conn) check(a *answer) verdict {
	switch {
	case a.In < c.out.acked, a.In > c.out.written, a.Out < c.in.received:
		return verdict{final: ErrStateRegressed, err: fmt.Errorf(
			"the server knows %d of this side, of %d to %d, and has %d of its own, of %d at least",
			a.In, c.out.acked, c.out.written, a.Out, c.in.received)}
	case a.Generation <= c.generation:
		return verdict{protocol: true, err: fmt.Errorf("%w: generation %d after %d", ErrProtocol, a.Generation, c.generation)}
	}
	for seq := a.In + 1; seq <= c.out.last; seq++ {
		if n := len(c.out.at(seq).data); uint64(n) > a.MaxMessage {
			return verdict{final: ErrTooLarge, err: fmt.Errorf("message %d has %d bytes, and the server takes %d", seq, n, a.MaxMessage)}
		}
	}
	return verdict{}
}

// beatTime returns what the server says, within reason.
func beatTime(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return min(max(d, minHeartbeat), longest)
}
