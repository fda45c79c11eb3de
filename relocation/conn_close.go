package relocation

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// closeTimeout bounds a Close whose context has no deadline.
const closeTimeout = 5 * time.Second

// Close ends the session now, on the server too as far as it can be reached
// within ctx, or five seconds if ctx has no deadline; nobody can resume it
// then. What is not acknowledged is not waited for: call Flush before. When
// there is such, Close returns an [*UnconfirmedError], and Unacked has it.
// Calls under way return [ErrClosed].
//
// When Close has returned, no goroutine of the Conn is left, unless a Dialer
// or another function that the Conn was given goes on after its context has
// ended. Another Close returns the same.
func (c *Conn) Close(ctx context.Context) error {
	if c.usable() != nil {
		return nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeTimeout)
		defer cancel()
	}
	c.mu.Lock()
	c.beginClose()
	c.unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
		c.mu.Lock()
		c.end(ErrClosed)
		c.unlock()
	}
	ended := make(chan struct{})
	go func() {
		c.tasks.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		// What was under way has been told, and is usually gone in a moment.
		t := time.NewTimer(time.Second)
		defer t.Stop()
		select {
		case <-ended:
		case <-t.C:
		}
	}
	c.mu.Lock()
	defer c.unlock()
	if c.out.count() == 0 {
		return nil
	}
	return failed("close", c.unconfirmed(c.out.last, c.err))
}

// beginClose requires c.mu.
func (c *Conn) beginClose() {
	if c.closing || c.err != nil {
		return
	}
	c.closing = true
	c.sends.fail(ErrClosed)
	c.waits.fail(ErrClosed)
	wakeUp(c.arrived)
	switch {
	case c.link == nil && !c.mover.opening && !c.mover.left:
		c.end(ErrClosed)
	case c.link != nil && !c.link.bye:
		c.link.end, c.link.endDue, c.link.endCode = true, true, closeDone
		c.wake()
	default:
		// A server has been asked to take the session over: it will answer,
		// and be told. One that is never told would keep it until it expires.
	}
	wakeUp(c.kick)
}

// end ends the Conn. Requires c.mu.
func (c *Conn) end(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	var cause error
	if !errors.Is(err, ErrClosed) {
		cause = err
	}
	if c.link != nil {
		c.drop(c.link, CloseNormal)
	}
	c.setState(Closed, "", cause)
	c.sends.fail(err)
	c.waits.fail(err)
	c.grant(err)
	if c.acks.timer != nil {
		c.acks.timer.Stop()
	}
	close(c.done)
	c.cancel()
}

// setState requires c.mu.
func (c *Conn) setState(to State, addr string, err error) {
	if c.state == to {
		return
	}
	change := Change{From: c.state, To: to, At: time.Now(), Addr: addr, Err: err}
	c.state = to
	c.changes.add(change)
	c.after = append(c.after, func() {
		level := slog.LevelInfo
		attrs := []slog.Attr{slog.String("from", change.From.String()), slog.String("to", to.String())}
		if addr != "" {
			attrs = append(attrs, slog.String("addr", shown(addr)))
		}
		if err != nil {
			level = slog.LevelWarn
			attrs = append(attrs, slog.Any("error", err))
		}
		c.log.LogAttrs(context.Background(), level, "relocation: state changed", attrs...)
	})
}

// report logs an attempt that failed. Requires c.mu.
func (c *Conn) report(addr string, err error) {
	c.after = append(c.after, func() {
		c.log.LogAttrs(context.Background(), slog.LevelWarn, "relocation: no connection",
			slog.String("addr", shown(addr)), slog.Any("error", err))
	})
}

// shown returns an address without what may be secret in one.
func shown(addr string) string {
	addr, _, _ = strings.Cut(addr, "?")
	if u, err := url.Parse(addr); err == nil && u.User != nil {
		u.User = url.User("redacted")
		return u.String()
	}
	return addr
}

// ConnStats are numbers about a [Conn], as they were at one moment.
type ConnStats struct {
	// Unacked messages were taken and are not acknowledged.
	Unacked      int
	UnackedBytes int
	// Sent, Acked and Received are the last numbers of messages that were
	// taken, acknowledged and received.
	Sent, Acked, Received uint64
	// Duplicates came although they were there, and were dropped.
	Duplicates uint64
	// Resent were written again after a connection was lost.
	Resent uint64
	// Connections counts successful openings, and Failures attempts that were
	// not.
	Connections, Failures uint64
	// Moves counts servers that were left as planned, and Losses connections
	// that were lost.
	Moves, Losses uint64
}

// Stats returns the numbers.
func (c *Conn) Stats() ConnStats {
	if c.usable() != nil {
		return ConnStats{}
	}
	c.mu.Lock()
	defer c.unlock()
	s := c.stats
	s.Unacked, s.UnackedBytes = c.out.count(), c.out.bytes
	s.Sent, s.Acked, s.Received = c.out.last, c.out.acked, c.in.received
	return s
}
