package session

import (
	"context"
	"log/slog"
	"time"
)

// ManagerOptions are options of a [Manager]. The zero value is ready to use.
// The default lifetimes are those of the OWASP Session Management Cheat Sheet
// for applications of low risk.
type ManagerOptions struct {
	// Lifetimes are those of new sessions. A zero Idle means 30 min, or
	// Absolute when that is shorter; a zero Absolute means 8 h, or Idle when
	// that is longer.
	Lifetimes Lifetimes
	// TouchEvery is how long Get leaves a session that it reads untouched,
	// so that reading does not cost a write each time. A session in use can
	// therefore end that much before Idle has passed since it was last read.
	// Zero means a tenth of Idle and at most 1 min; negative means that Get
	// never touches. It must be shorter than Idle; a session that was made
	// with an idle time as short as that is touched every tenth of its own.
	TouchEvery time.Duration
	// Logger is told of touches that failed. Nil discards.
	Logger *slog.Logger
}

func (o *ManagerOptions) withDefaults() ManagerOptions {
	var out ManagerOptions
	if o != nil {
		out = *o
	}
	if lt := &out.Lifetimes; lt.Idle == 0 && lt.Absolute == 0 {
		lt.Idle, lt.Absolute = 30*time.Minute, 8*time.Hour
	} else if lt.Idle == 0 {
		lt.Idle = min(30*time.Minute, lt.Absolute)
	} else if lt.Absolute == 0 {
		lt.Absolute = max(8*time.Hour, lt.Idle)
	}
	if out.TouchEvery == 0 {
		out.TouchEvery = min(out.Lifetimes.Idle/10, time.Minute)
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// A Manager keeps one value of type T per session, as JSON, in a
// [SessionStore], and gives clients tokens to come back with. It saves when told
// to and never at another time.
//
// T must survive encoding/json; a string that is not UTF-8 does not, a []byte
// does. A Manager is safe for concurrent use.
type Manager[T any] struct {
	store   SessionStore
	opts    ManagerOptions
	touched *touches
}

// NewManager returns a manager of sessions in store. opts may be nil. With a
// nil store, or lifetimes that cannot be, every call fails with
// [transparency.ErrInvalid].
func NewManager[T any](store SessionStore, opts *ManagerOptions) *Manager[T] {
	return &Manager[T]{store: store, opts: opts.withDefaults(), touched: newTouches()}
}

func (m *Manager[T]) check() error {
	if m == nil {
		return invalid("the Manager is nil")
	}
	if err := checkStore(m.store); err != nil {
		return err
	}
	if lt := m.opts.Lifetimes; m.opts.TouchEvery >= lt.Idle && lt.Idle > 0 {
		return invalid("TouchEvery %v is not shorter than the idle lifetime %v", m.opts.TouchEvery, lt.Idle)
	}
	return m.opts.Lifetimes.check()
}

func (m *Manager[T]) checkSession(s *Session[T]) error {
	if s == nil || s.token.text == nil {
		return invalid("a session that no Manager returned")
	}
	return m.check()
}

// New stores v as a new session under a fresh random token. After
// [transparency.ErrUncertain] a session may be left that nobody can reach; it
// ends with its idle time.
func (m *Manager[T]) New(ctx context.Context, v T) (*Session[T], error) {
	if err := m.check(); err != nil {
		return nil, opError("new", err)
	}
	payload, err := encodeJSON(v)
	if err != nil {
		return nil, opError("new", err)
	}
	stored, err := readBack[T](payload) // before anything is sent
	if err != nil {
		return nil, opError("new", err)
	}
	token := newToken()
	data := envelope{token.hash(), payload}.encode()
	rec, err := m.store.Create(ctx, token.id(), data, m.opts.Lifetimes)
	if err != nil {
		return nil, err
	}
	return newSession(token, rec, payload, stored), nil
}

// Get returns the session of a token. If the token is malformed, unknown or no
// longer valid, or the session has expired, Get returns an error wrapping
// [ErrNotFound]; nothing is sent for a malformed one. [ErrTooNew] and
// [ErrCorrupt] say that there is a session that cannot be read here; it is
// left as it is.
//
// Get extends the idle time of a session that was not touched for
// [ManagerOptions.TouchEvery]. If that fails, the session is still returned,
// and a Get after a tenth of TouchEvery tries again.
func (m *Manager[T]) Get(ctx context.Context, token string) (*Session[T], error) {
	s, err := m.get(ctx, token)
	if err != nil || m.opts.TouchEvery < 0 {
		return s, err
	}
	return m.touch(ctx, s)
}

// Peek is Get for what is not the user's doing, such as a poll in the
// background: it does not extend the idle time.
func (m *Manager[T]) Peek(ctx context.Context, token string) (*Session[T], error) {
	return m.get(ctx, token)
}

func (m *Manager[T]) get(ctx context.Context, text string) (*Session[T], error) {
	if err := m.check(); err != nil {
		return nil, opError("get", err)
	}
	token, ok := parseToken(text)
	if !ok {
		return nil, opError("load", ErrNotFound)
	}
	return m.load(ctx, token)
}

// load returns the session that token admits to. The costs of an unknown id
// and of a wrong secret are alike: one Load and one comparison.
func (m *Manager[T]) load(ctx context.Context, token Token) (*Session[T], error) {
	rec, err := m.store.Load(ctx, token.id())
	if err != nil {
		_ = envelope{}.admits(token)
		return nil, err
	}
	s, err := openSession[T](token, rec)
	return s, opError("load", err)
}

// Update calls fn with the session's value and stores what fn made of it. It
// starts from the value that s was loaded with. If the session has been
// written since, nothing is stored, and after a short random wait fn is called
// again with a fresh value; fn must therefore have no effect but on its
// argument. After ten such tries Update returns an error wrapping
// [ErrConflict].
//
// If fn returns an error, nothing is stored and Update returns that error
// itself. If the session has been destroyed, has expired, or its token has been
// renewed, Update returns an error wrapping [ErrNotFound]: it never brings a
// session back. Members of the stored JSON objects that T does not know are
// kept, those within arrays aside.
//
// Update returns the session as stored and leaves s as it was. When ctx ends,
// it returns at once; a save that has begun then still reaches the store, and
// the error wraps [transparency.ErrUncertain] and that of ctx. When ctx has
// ended before, as it has when a client hung up during the request, Update
// still does its work, but waits no longer than 50 ms for it.
func (m *Manager[T]) Update(ctx context.Context, s *Session[T], fn func(*T) error) (*Session[T], error) {
	if err := m.checkSession(s); err != nil {
		return nil, opError("update", err)
	}
	if fn == nil {
		return nil, opError("update", invalid("the function is nil"))
	}
	return m.write(ctx, "update", s, s.token, func(payload []byte) ([]byte, error) {
		return change(payload, fn)
	})
}

// Renew gives the session another token, in one step: the old one is invalid
// from then on, and what others try to save under it fails with [ErrNotFound].
// Call it whenever the user's rights change, at login above all. Value,
// lifetimes and the store's key stay. The new token is in the session that is
// returned.
//
// If the token had been renewed before, Renew returns an error wrapping
// [ErrNotFound]. After [transparency.ErrUncertain] the old token may be
// invalid, and the user has to log in again. As to ctx and conflicts, Renew is
// like Update.
func (m *Manager[T]) Renew(ctx context.Context, s *Session[T]) (*Session[T], error) {
	if err := m.checkSession(s); err != nil {
		return nil, opError("renew", err)
	}
	return m.write(ctx, "renew", s, s.token.withSecret(newSecret()), func(payload []byte) ([]byte, error) {
		return payload, nil
	})
}

// Destroy ends the session, for all its tokens. It being gone already is no
// error. As to ctx, Destroy is like Update, so a logout reaches the store
// although the client hung up.
func (m *Manager[T]) Destroy(ctx context.Context, s *Session[T]) error {
	if err := m.checkSession(s); err != nil {
		return opError("destroy", err)
	}
	last := &grace{ctx: ctx}
	defer last.end()
	return last.join(m.store.Delete(last.context(), s.token.id()))
}
