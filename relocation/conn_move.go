package relocation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/backoff"
)

// maxHops is how many servers in a row may point to another before the
// addresses are asked for anew.
const maxHops = 3

// mover is the state of what looks for servers. Its one goroutine runs while
// there is no link, or a plan to leave it, so that there is never more than one
// dial under way. Guarded by Conn.mu.
type mover struct {
	running bool
	opening bool   // a RESUME is on its way
	left    bool   // after BYE: the move is to be carried through, also by Close
	addr    string // of the link, or of the last one

	hints  []string // to be tried first
	hops   int
	atOnce bool     // the hints are a server's answer: no back-off
	pool   []string // of this round
	avoid  []shunned
	retry  time.Duration // no attempt before

	attempts   int // since a connection stood
	violations int // of the protocol, the same
	lastErr    error

	plan *plan
	wish *wish
}

// shunned is an address that asked to be left.
type shunned struct {
	addr  string
	until time.Time
}

func (m *mover) delay(opts DialOptions) time.Duration {
	d := backoff.Policy{Base: opts.MinBackoff, Max: opts.MaxBackoff}.Delay(m.attempts)
	m.attempts++
	return d
}

// violated counts a breach of the protocol, and reports whether it is the last.
func (m *mover) violated() bool {
	m.violations++
	return m.violations >= 3
}

func (m *mover) shun(addr string, d time.Duration) {
	until := time.Now().Add(d)
	for i := range m.avoid {
		if m.avoid[i].addr == addr {
			m.avoid[i].until = until
			return
		}
	}
	m.avoid = append(m.avoid, shunned{addr, until})
}

// shuns reports whether an address is avoided.
func (m *mover) shuns(addr string) bool {
	now := time.Now()
	m.avoid = slices.DeleteFunc(m.avoid, func(s shunned) bool { return !now.Before(s.until) })
	return slices.ContainsFunc(m.avoid, func(s shunned) bool { return s.addr == addr })
}

// hint takes the next of the hints that are not avoided.
func (m *mover) hint() (string, bool) {
	for len(m.hints) > 0 {
		addr := m.hints[0]
		m.hints = m.hints[1:]
		if addr != "" && !m.shuns(addr) {
			return addr, true
		}
	}
	m.atOnce = false
	return "", false
}

// startMover requires c.mu.
func (c *Conn) startMover() {
	if !c.mover.running && c.err == nil {
		c.mover.running = true
		c.tasks.Go(c.move)
		return
	}
	wakeUp(c.kick)
}

// move runs until the Conn is connected and means to stay, or has ended.
func (c *Conn) move() {
	for {
		c.mu.Lock()
		m := &c.mover
		switch {
		case c.link == nil && c.closing && !m.left:
			c.end(ErrClosed)
			fallthrough
		case c.err != nil, c.link != nil && (m.plan == nil || c.closing):
			m.running = false
			c.unlock()
			return
		case c.link == nil:
			c.unlock()
			c.reconnect()
		default:
			p := m.plan
			c.unlock()
			c.migrate(p)
		}
	}
}

// reconnect makes one attempt, after the back-off.
func (c *Conn) reconnect() {
	c.mu.Lock()
	m := &c.mover
	addr, hinted := m.hint()
	delay := m.retry
	if !hinted || !m.atOnce {
		delay += m.delay(c.opts)
	}
	m.retry, m.atOnce = 0, false
	c.unlock()
	if backoff.Sleep(c.ctx, delay) != nil {
		return
	}
	if !hinted {
		var err error
		if addr, err = c.nextAddr(); err != nil {
			c.judged("", verdict{err: err})
			return
		}
	}
	c.judged(addr, c.connect(c.ctx, addr))
}

// nextAddr returns the next address of this round, and begins another round
// when there is none. Those that are avoided come last: they are better than
// nothing.
func (c *Conn) nextAddr() (string, error) {
	c.mu.Lock()
	empty := len(c.mover.pool) == 0
	c.unlock()
	var pool []string
	if empty {
		ctx, cancel := context.WithTimeout(c.ctx, c.opts.DialTimeout)
		defer cancel()
		addrs, err := c.addrs(ctx)
		if err == nil && len(addrs) == 0 {
			err = errNoAddresses
		}
		if err != nil {
			return "", fmt.Errorf("addresses: %w", err)
		}
		pool = shuffled(addrs)
	}
	c.mu.Lock()
	defer c.unlock()
	m := &c.mover
	if empty {
		later := slices.Clone(pool)
		pool = slices.DeleteFunc(pool, m.shuns)
		later = slices.DeleteFunc(later, func(addr string) bool { return !m.shuns(addr) })
		pool = append(pool, later...)
		m.pool = pool
	}
	addr := m.pool[0]
	m.pool = m.pool[1:]
	return addr, nil
}

var errNoAddresses = fmt.Errorf("%w: no addresses", transparency.ErrUnavailable)

// judged draws the conclusions from an attempt.
func (c *Conn) judged(addr string, v verdict) {
	if v.ok {
		return
	}
	c.mu.Lock()
	defer c.unlock()
	m := &c.mover
	m.left = false
	if v.protocol && m.violated() {
		v.final = ErrProtocol
	}
	if v.final != nil {
		c.lostFor(v)
		return
	}
	m.lastErr = v.err
	m.retry = v.retry
	c.stats.Failures++
	c.report(addr, v.err)
	if !v.moved {
		return
	}
	m.shun(addr, max(v.retry, avoided))
	if m.hops++; m.hops <= maxHops {
		m.hints, m.atOnce = v.locations, v.retry == 0
		return
	}
	m.hints, m.hops, m.pool = nil, 0, nil
}
