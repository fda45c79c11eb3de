package relocation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-transparency/transparency"
)

// plan is a move that is to be made while the link carries on. Guarded by
// Conn.mu.
type plan struct {
	link     *link
	depart   time.Time
	earliest time.Time // to depart, because of the moves before
	deadline time.Time // the server's; zero when there is none
	targets  []string
	asked    bool // by the server; otherwise it is only a wish
	only     bool // of a wish: no other target will do
	fetched  bool // the targets are those of addrs
}

// wish is a call of Migrate.
type wish struct {
	ctx   context.Context
	addr  string // empty: any other
	from  string
	ready chan error // has room for the result
}

var (
	errNotConnected = fmt.Errorf("%w: no server is attached", transparency.ErrUnavailable)
	errMoving       = fmt.Errorf("%w: another move is under way", transparency.ErrRejected)
	errNoTarget     = fmt.Errorf("%w to move to", ErrNoServer)
)

// Migrate moves the session to the server at addr, or with an empty addr to
// any other, and returns when it is there. The old server carries on until the
// new one has answered the dial. If that fails, or ctx ends before, the
// session stays where it is and Migrate returns an error. Once the old server
// has been left the session goes on wherever it can, and the error says that
// it is not at addr, or not known to be.
//
// Only a Conn that is connected moves, and one move at a time.
func (c *Conn) Migrate(ctx context.Context, addr string) error {
	if err := c.migrateTo(ctx, addr); err != nil {
		return failed("migrate", err)
	}
	return nil
}

func (c *Conn) migrateTo(ctx context.Context, addr string) error {
	if err := c.usable(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := c.wish(ctx, addr)
	if err != nil {
		return err
	}
	select {
	case err := <-w.ready:
		return err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.unlock()
	m := &c.mover
	if m.wish != w {
		return <-w.ready
	}
	m.wish = nil
	if p := m.plan; p != nil && !p.asked && !p.link.bye {
		c.stay(p)
	}
	return ctx.Err()
}

// wish notes the wish.
func (c *Conn) wish(ctx context.Context, addr string) (*wish, error) {
	c.mu.Lock()
	defer c.unlock()
	m, l := &c.mover, c.link
	switch {
	case c.err != nil:
		return nil, c.err
	case c.closing:
		return nil, ErrClosed
	case l == nil:
		return nil, errNotConnected
	case m.wish != nil, l.bye:
		return nil, errMoving
	}
	w := &wish{ctx: ctx, addr: addr, from: l.addr, ready: make(chan error, 1)}
	m.wish = w
	p := m.plan
	if p == nil {
		p = &plan{link: l, only: addr != ""}
		m.plan = p
	}
	p.depart = time.Now()
	if addr != "" {
		p.targets = append([]string{addr}, p.targets...)
	}
	c.setState(Migrating, l.addr, nil)
	c.startMover()
	return w, nil
}

// granted tells Migrate that the Conn is connected to addr. Requires c.mu.
func (c *Conn) granted(addr string) {
	w := c.mover.wish
	switch {
	case w == nil:
	case addr == w.addr, w.addr == "" && addr != w.from:
		c.grant(nil)
	default:
		c.grant(fmt.Errorf("%w: connected elsewhere", errNoTarget))
	}
}

func (c *Conn) grant(err error) {
	if w := c.mover.wish; w != nil {
		c.mover.wish = nil
		w.ready <- err
	}
}

// stay gives a plan up. Requires c.mu.
func (c *Conn) stay(p *plan) {
	if !c.current(p) {
		return
	}
	c.mover.plan = nil
	c.setState(Connected, p.link.addr, nil)
	wakeUp(c.kick)
}

// current reports whether a plan still holds. Requires c.mu.
func (c *Conn) current(p *plan) bool {
	return c.err == nil && !c.closing && c.mover.plan == p && c.link == p.link
}

// migrate moves from one server to another while the first one serves.
func (c *Conn) migrate(p *plan) {
	c.while(func() (bool, time.Time) { return c.current(p), p.depart })
	t, addr, credentials := c.target(p)
	if t == nil {
		return
	}
	if !c.leave(p) {
		_ = t.Close(CloseNormal, "")
		return
	}
	c.judged(addr, c.open(c.ctx, t, addr, credentials, time.Now().Add(c.opts.DialTimeout)))
	c.mu.Lock()
	c.mover.left = false
	c.unlock()
}

// while waits until a time, as long as it is worth it; both are asked for under
// c.mu again whenever the mover is woken.
func (c *Conn) while(worth func() (bool, time.Time)) {
	for {
		c.mu.Lock()
		yes, until := worth()
		c.unlock()
		wait := time.Until(until)
		if !yes || wait <= 0 {
			return
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-c.kick:
		case <-c.ctx.Done():
		}
		t.Stop()
	}
}

// target opens a transport to a server to move to. It returns none when there
// is nothing to move from any more, or the wish was given up.
func (c *Conn) target(p *plan) (Transport, string, []byte) {
	for {
		addr, err := c.nextTarget(p)
		if errors.Is(err, errStale) {
			return nil, "", nil
		}
		if err == nil {
			var t Transport
			var credentials []byte
			if t, credentials, err = c.dialTarget(p, addr); err == nil {
				return t, addr, credentials
			}
		}
		delay, ok := c.missed(p, addr, err)
		if !ok {
			return nil, "", nil
		}
		until := time.Now().Add(delay)
		c.while(func() (bool, time.Time) { return c.current(p), until })
	}
}

// nextTarget returns an address to move to: the targets first, and then what
// addrs says, without the one that is left and those that are avoided. After
// each round it returns errNoTarget.
func (c *Conn) nextTarget(p *plan) (string, error) {
	for {
		addr, fetch, err := c.popTarget(p)
		if !fetch {
			return addr, err
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.opts.DialTimeout)
		addrs, err := c.addrs(ctx)
		cancel()
		if err != nil {
			return "", fmt.Errorf("addresses: %w", err)
		}
		c.mu.Lock()
		p.targets = append(p.targets, shuffled(addrs)...)
		c.unlock()
	}
}

// popTarget returns the next target, or whether addrs is to be asked.
func (c *Conn) popTarget(p *plan) (addr string, fetch bool, err error) {
	c.mu.Lock()
	defer c.unlock()
	if !c.current(p) {
		return "", false, errStale
	}
	for len(p.targets) > 0 {
		addr := p.targets[0]
		p.targets = p.targets[1:]
		if p.only || addr != "" && addr != p.link.addr && !c.mover.shuns(addr) {
			return addr, false, nil
		}
	}
	if p.only || p.fetched {
		p.fetched = false
		return "", false, errNoTarget
	}
	p.fetched = true
	return "", true, nil
}

// dialTarget dials. The end of the call of Migrate ends the dial of a move that
// only it wished for.
func (c *Conn) dialTarget(p *plan, addr string) (Transport, []byte, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	c.mu.Lock()
	if w := c.mover.wish; w != nil && !p.asked {
		defer context.AfterFunc(w.ctx, cancel)()
	}
	c.unlock()
	return c.dial(ctx, addr, time.Now().Add(c.opts.DialTimeout))
}

// missed draws the conclusions from a target that was not to be had, and
// returns how long to wait, or that the plan was given up.
func (c *Conn) missed(p *plan, addr string, err error) (time.Duration, bool) {
	c.mu.Lock()
	defer c.unlock()
	m := &c.mover
	if !c.current(p) {
		return 0, false
	}
	if !errors.Is(err, errNoTarget) {
		m.lastErr = err
		c.stats.Failures++
		c.report(addr, err)
	}
	if w := m.wish; w != nil && (errors.Is(err, errNoTarget) || w.addr == addr || w.ctx.Err() != nil) {
		switch {
		case w.ctx.Err() != nil:
			err = w.ctx.Err() // rather than what it made of the dial
		case m.lastErr != nil && !errors.Is(err, m.lastErr):
			err = fmt.Errorf("%w: %w", err, m.lastErr)
		}
		c.grant(err)
		if !p.asked {
			c.stay(p)
			return 0, false
		}
	}
	return m.delay(c.opts), true
}

// leave lets the old server finish, and leaves it. It reports whether the new
// one is to be asked to resume: also when the old one was lost meanwhile.
func (c *Conn) leave(p *plan) bool {
	l := p.link
	c.mu.Lock()
	if !c.current(p) {
		lost := c.err == nil && !c.closing && c.link == nil
		c.unlock()
		return lost
	}
	l.bye, l.byeDue = true, true
	c.mover.left = true
	until := time.Now().Add(c.opts.MigrateTimeout)
	if !p.deadline.IsZero() && p.deadline.Before(until) {
		until = p.deadline
	}
	c.wake()
	c.unlock()
	c.while(func() (bool, time.Time) { return c.link == l && !l.fin && c.err == nil, until })
	c.mu.Lock()
	defer c.unlock()
	if c.link == l {
		var err error
		if !l.fin {
			err = errNotFinished
		}
		c.stats.Moves++
		c.drop(l, CloseNormal)
		c.setState(Reconnecting, l.addr, err)
	}
	return c.err == nil
}

var errNotFinished = fmt.Errorf("%w: the server that was left did not finish in time", transparency.ErrUnavailable)

// merge adds what a server asks for to the plan.
func (p *plan) merge(depart, deadline time.Time, locations []string) {
	if depart.Before(p.depart) {
		p.depart = depart
	}
	if p.depart.Before(p.earliest) {
		p.depart = p.earliest
	}
	if p.deadline.IsZero() || !deadline.IsZero() && deadline.Before(p.deadline) {
		p.deadline = deadline
	}
	if p.only {
		p.targets = append(slices.Clone(p.targets), locations...)
	} else if len(locations) > 0 {
		p.targets = locations
	}
	p.asked, p.only = true, false
}
