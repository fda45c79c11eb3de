package relocation

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime/debug"
	"sync"
)

// A Handler handles one message of a session. The messages of one session come
// one after the other, in order; those of different sessions at the same time.
//
// When it returns nil, the message is committed and then acknowledged. An
// error, or a panic, which is recovered, leaves the message uncommitted: the
// transport is dropped, and the message comes again, marked Redelivered, when
// the client has come back. (In the mode [AtMostOnce] it does not.) Three errors
// say more: one that wraps [ErrDuplicate] is as good as nil; [ErrFenced] means
// that the session has a later owner, and [ErrStateRegressed] that the
// handler's database went back, which ends the session. So do not return what
// another session or Conn has answered.
//
// ctx ends when this instance does not own the session any more, or when the
// Hub is closed. What the handler still does then, another instance may do
// too. A handler is waited for, so it should return when ctx ends.
type Handler func(ctx context.Context, s *Session, m Message) error

// A Hub is the server's side: it serves the transports of clients, has their
// messages handled, and brings them those that any instance sends. All
// instances share one [Store], and any of them can go on with any session.
//
// A Hub is safe for concurrent use. It comes from [NewHub].
type Hub struct {
	store   Store
	handler Handler
	opts    HubOptions
	err     error // why no operation can work
	owner   string
	keys    []tokenKey

	ctx     context.Context // ended by Close
	cancel  context.CancelCauseFunc
	reading context.Context // never ends: the end of a context would be that of a transport
	tasks   sync.WaitGroup  // sessions, calls of Serve and Send, and background goroutines
	counts  hubCounts

	mu        sync.Mutex // guards what follows; a Session's is never taken while it is held
	closed    bool
	drain     *draining
	openings  int
	sessions  map[string]*Session   // the last of each name
	all       map[*Session]struct{} // with those that are not at their end yet
	gone      chan struct{}         // closed when all is empty; nil when nobody waits
	waiting   map[string][]chan struct{}
	senders   map[string]*hubSender
	keeping   bool
	listening bool
	kick      chan struct{} // holds one: the keeper looks again
}

// NewHub returns a Hub whose messages h handles. It does no I/O and starts
// nothing. opts may be nil. What is wrong with the arguments, each operation
// says.
func NewHub(store Store, h Handler, opts *HubOptions) *Hub {
	hub := &Hub{
		store: store, handler: h,
		sessions: make(map[string]*Session), all: make(map[*Session]struct{}),
		waiting: make(map[string][]chan struct{}), senders: make(map[string]*hubSender),
		kick: make(chan struct{}, 1),
	}
	hub.ctx, hub.cancel = context.WithCancelCause(context.Background())
	hub.reading = context.Background()
	hub.opts, hub.err = opts.withDefaults()
	if store == nil {
		hub.err = invalid("the Store is nil")
	}
	if h == nil {
		hub.err = invalid("the Handler is nil")
	}
	id := rand.Text()
	if hub.opts.Name == "" {
		hub.opts.Name = id[:8]
	}
	hub.owner = hub.opts.Name + "/" + id // a former self has another
	if hub.err == nil {
		hub.keys = newTokenKeys(hub.opts.Keys)
	}
	return hub
}

// unusable returns why no operation can work.
func (h *Hub) unusable() error {
	switch {
	case h == nil:
		return invalid("the Hub is nil")
	case h.err != nil:
		return h.err
	case h.ctx == nil:
		return invalid("a Hub comes from NewHub")
	}
	return nil
}

func (h *Hub) usable() bool { return h.unusable() == nil }

// begin counts a task, unless the Hub is closed.
func (h *Hub) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.tasks.Add(1)
	return true
}

// Ready reports whether this instance should be sent new clients: it is neither
// draining nor closed. It is meant for a readiness probe.
func (h *Hub) Ready() bool {
	if !h.usable() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.closed && h.drain == nil
}

// Close ends the Hub at once: the contexts of handlers end, what they have
// finished is committed, clients are told to resume elsewhere, and later calls
// get [ErrClosed]. No session ends by it. It returns when all that the Hub
// started has ended, the handlers too, and so must not be called by one. When
// the store does not answer, that takes up to a few seconds. Closing again
// waits likewise. The error is always nil. To have clients move before, call
// [Hub.Drain].
func (h *Hub) Close() error {
	if !h.usable() {
		return nil
	}
	h.mu.Lock()
	h.closed = true
	sessions := h.list()
	h.mu.Unlock()
	h.cancel(ErrClosed)
	for _, s := range sessions {
		s.mu.Lock()
		s.leave(sessionEnd{cause: ErrClosed, cancel: ErrClosed, last: s.finalGoAway, code: CloseRestart, now: true})
		s.mu.Unlock()
	}
	h.tasks.Wait()
	return nil
}

// list requires h.mu.
func (h *Hub) list() []*Session {
	sessions := make([]*Session, 0, len(h.all))
	for s := range h.all {
		sessions = append(sessions, s)
	}
	return sessions
}

// register makes s the session of its name, unless a later generation is, or
// there are to be no more. The one before is fenced.
func (h *Hub) register(s *Session) error {
	h.mu.Lock()
	switch {
	case h.closed:
		h.mu.Unlock()
		return ErrClosed
	case h.drain != nil:
		h.mu.Unlock()
		return errDrained
	}
	old := h.sessions[s.id]
	if old != nil && old.generation > s.generation {
		h.mu.Unlock()
		return ErrFenced
	}
	h.sessions[s.id] = s
	h.all[s] = struct{}{}
	h.tasks.Add(1) // until it has left
	h.background()
	h.mu.Unlock()
	if old != nil {
		old.fence(ErrFenced)
	}
	return nil
}

// forget undoes register.
func (h *Hub) forget(s *Session) {
	h.mu.Lock()
	delete(h.all, s)
	if h.sessions[s.id] == s {
		delete(h.sessions, s.id)
	}
	if len(h.all) == 0 {
		if h.gone != nil {
			close(h.gone)
			h.gone = nil
		}
		wakeUp(h.kick) // for the keeper to end
	}
	h.mu.Unlock()
	h.tasks.Done()
}

func (h *Hub) session(id string) *Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[id]
}

// background starts the goroutines that a Hub has while it has sessions, or
// waits for one. It requires h.mu, and that the Hub is not closed.
func (h *Hub) background() {
	if !h.keeping && len(h.all) > 0 {
		h.keeping = true
		h.tasks.Go(h.keep)
	}
	if !h.listening {
		h.listening = true
		h.tasks.Go(h.listen)
	}
}

// recovered, deferred, keeps the process from what a user's function does to
// it.
func (h *Hub) recovered(what string) {
	if v := recover(); v != nil {
		_ = h.panicked(what, v) // logged
	}
}

// panicked logs a panic, but not its value, which may be anything, a payload
// too.
func (h *Hub) panicked(what string, v any) error {
	err := fmt.Errorf("panic of type %T", v)
	h.opts.Logger.Error("relocation: "+what+" panicked", "error", err, "stack", string(debug.Stack()))
	return err
}

func hubError(op string, err error) error { return fmt.Errorf("relocation: %s: %w", op, err) }
