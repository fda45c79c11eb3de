package failure

import (
	"context"
	"time"
)

// A span is the life of one attempt. Until the head of the response is there it
// ends with the context that the policies gave it; after that, with that of
// the request.
type span struct {
	context.Context
	cancel context.CancelCauseFunc

	timer  *time.Timer     // ends it before the head is there, or
	unlink func() bool     // keeps the other contexts from that
	after  context.Context // whose end it hears of by unlink after the head; or nil
}

// begin begins the life of an attempt under ctx for a request with the context
// request, from which ctx comes.
func (s *span) begin(ctx, request context.Context) {
	// All that a Timeout adds is a deadline, for which a timer is enough.
	life := ctx
	l, ok := ctx.(*limited)
	if ok {
		life = l.Context
	}
	if life.Done() == request.Done() {
		s.Context, s.cancel = context.WithCancelCause(unmarked(life))
		if ok {
			cancel, over := s.cancel, l.over
			s.timer = time.AfterFunc(time.Until(l.deadline), func() { cancel(over) })
		}
		return
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(unmarked(ctx)))
	if deadline, ok := request.Deadline(); ok {
		own = &deadlined{own, deadline}
	}
	s.Context, s.cancel, s.after = own, cancel, request
	s.unlink = s.link(ctx)
}

// link ends the span with ctx.
func (s *span) link(ctx context.Context) (unlink func() bool) {
	cancel := s.cancel
	return context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
}

// headed says that the head is there. It reports whether that was in time.
func (s *span) headed() bool {
	switch {
	case s.timer != nil:
		return s.timer.Stop()
	case s.unlink != nil:
		if !s.unlink() {
			return false
		}
		s.unlink = s.link(s.after)
	}
	return true
}

// end ends the span.
func (s *span) end() {
	switch {
	case s.timer != nil:
		s.timer.Stop()
	case s.unlink != nil:
		s.unlink()
	}
	s.cancel(nil)
}

// deadlined is a context whose deadline is told, and kept by another.
type deadlined struct {
	context.Context
	deadline time.Time
}

func (d *deadlined) Deadline() (time.Time, bool) { return d.deadline, true }
