package relocation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-transparency/transparency"
)

var testKey = []byte("a key for tests, of 32 bytes 012")

// A hubRig is some hubs on one network and one store, each at the address of
// its name. What their handlers are given is kept.
type hubRig struct {
	*testing.T
	net   *Network
	store *MemoryStore

	broken Store // in its place; may be nil

	// handle is what the handlers do; nil: nothing.
	handle func(ctx context.Context, hub string, s *Session, m Message) error

	mu      sync.Mutex // guards what follows
	handled []string   // hub:seq:data, and ! if redelivered
	served  []error    // results of Serve
	hubs    map[string]*Hub
	links   map[string]*storeLink
	stops   map[string]func()
}

func newHubRig(t *testing.T) *hubRig {
	r := &hubRig{
		T: t, net: NewNetwork(), store: NewMemoryStore(nil),
		hubs: make(map[string]*Hub), links: make(map[string]*storeLink), stops: make(map[string]func()),
	}
	t.Cleanup(func() {
		for _, l := range r.links {
			l.set(func() { l.down, l.hang = false, false })
		}
		for name := range r.hubs {
			r.hubs[name].Close()
			r.stops[name]()
		}
	})
	return r
}

// start starts a hub. opts may be nil; what it does not say is for tests.
func (r *hubRig) start(name string, opts *HubOptions) *Hub {
	var o HubOptions
	if opts != nil {
		o = *opts
	}
	o.Name = name
	if o.Keys == nil {
		o.Keys = [][]byte{testKey}
	}
	link := &storeLink{Store: r.store}
	if r.broken != nil {
		link.Store = r.broken
	}
	h := NewHub(link, func(ctx context.Context, s *Session, m Message) error {
		text := fmt.Sprintf("%s:%d:%s", name, m.Seq, m.Data)
		if m.Redelivered {
			text += "!"
		}
		r.note(text)
		if r.handle != nil {
			return r.handle(ctx, name, s, m)
		}
		return nil
	}, &o)
	r.hubs[name], r.links[name] = h, link
	r.stops[name] = r.net.Listen(name, func(ctx context.Context, tr Transport) {
		principal := Principal{ID: "ada"}
		err := h.Serve(ctx, tr, principal)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.served = append(r.served, err)
	})
	return h
}

// kill is the end of a process as others see it: its transports are cut, and
// it reaches the store no more.
func (r *hubRig) kill(name string) {
	l := r.links[name]
	l.set(func() { l.down = true })
	r.net.Refuse(name, true)
	r.net.Cut(name)
}

func (r *hubRig) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handled = append(r.handled, text)
}

func (r *hubRig) wantHandled(want ...string) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.handled, want) {
		r.Errorf("handled %q, want %q", r.handled, want)
	}
}

// A storeLink is the way of one hub to the store.
type storeLink struct {
	Store
	mu   sync.Mutex // guards what follows
	down bool       // it answers ErrUnavailable
	hang bool       // it does not answer, until the context ends
	deaf bool       // it hears nothing
	// commit and append see requests before they are made, and decide on
	// them if they return an error; lateCommit and lateAppend after.
	commit     func(Update) error
	lateCommit func(Update) error
	append     func(Batch) error
	lateAppend func(Batch) error
	lateAttach func(Claim)
	lateRenew  func([]Renewal)
}

func (l *storeLink) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

var (
	errDown      = fmt.Errorf("%w: the store is down", transparency.ErrUnavailable)
	errUncertain = fmt.Errorf("%w: no answer", transparency.ErrUncertain)
)

func (l *storeLink) gate(ctx context.Context) error {
	l.mu.Lock()
	down, hang := l.down, l.hang
	l.mu.Unlock()
	if hang {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", transparency.ErrUncertain, ctx.Err())
	}
	if down {
		return errDown
	}
	return nil
}

func (l *storeLink) Create(ctx context.Context, id string, terms Terms, claim Claim) (Snapshot, error) {
	if err := l.gate(ctx); err != nil {
		return Snapshot{}, err
	}
	return l.Store.Create(ctx, id, terms, claim)
}

func (l *storeLink) Attach(ctx context.Context, id string, claim Claim) (Snapshot, error) {
	if err := l.gate(ctx); err != nil {
		return Snapshot{}, err
	}
	s, err := l.Store.Attach(ctx, id, claim)
	l.mu.Lock()
	after := l.lateAttach
	l.mu.Unlock()
	if after != nil && err == nil {
		after(claim)
	}
	return s, err
}

func (l *storeLink) Commit(ctx context.Context, lease Lease, u Update) (Progress, error) {
	if err := l.gate(ctx); err != nil {
		return Progress{}, err
	}
	l.mu.Lock()
	before, after := l.commit, l.lateCommit
	l.mu.Unlock()
	if before != nil {
		if err := before(u); err != nil {
			return Progress{}, err
		}
	}
	p, err := l.Store.Commit(ctx, lease, u)
	if after != nil && err == nil {
		if err := after(u); err != nil {
			return Progress{}, err
		}
	}
	return p, err
}

func (l *storeLink) Renew(ctx context.Context, leases []Lease) []Renewal {
	if err := l.gate(ctx); err != nil {
		results := make([]Renewal, len(leases))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	results := l.Store.Renew(ctx, leases)
	l.mu.Lock()
	after := l.lateRenew
	l.mu.Unlock()
	if after != nil {
		after(results)
	}
	return results
}

func (l *storeLink) Append(ctx context.Context, id string, batch Batch) (uint64, error) {
	if err := l.gate(ctx); err != nil {
		return 0, err
	}
	l.mu.Lock()
	before, after := l.append, l.lateAppend
	l.mu.Unlock()
	if before != nil {
		if err := before(batch); err != nil {
			return 0, err
		}
	}
	first, err := l.Store.Append(ctx, id, batch)
	if after != nil && err == nil {
		if err := after(batch); err != nil {
			return 0, err
		}
	}
	return first, err
}

func (l *storeLink) Read(ctx context.Context, id string, after uint64, limit int) ([]Outgoing, error) {
	if err := l.gate(ctx); err != nil {
		return nil, err
	}
	return l.Store.Read(ctx, id, after, limit)
}

func (l *storeLink) Release(ctx context.Context, lease Lease, to string) error {
	if err := l.gate(ctx); err != nil {
		return err
	}
	return l.Store.Release(ctx, lease, to)
}

func (l *storeLink) Delete(ctx context.Context, lease Lease) error {
	if err := l.gate(ctx); err != nil {
		return err
	}
	return l.Store.Delete(ctx, lease)
}

func (l *storeLink) Listen(ctx context.Context, owner string, hear func(Event)) error {
	return l.Store.Listen(ctx, owner, func(e Event) {
		l.mu.Lock()
		cut := l.deaf || l.down || l.hang
		l.mu.Unlock()
		if !cut {
			hear(e)
		}
	})
}

// onlySession is the ID of the only session of a hub.
func (r *hubRig) onlySession(hub string) string {
	r.Helper()
	h := r.hubs[hub]
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range h.sessions {
		return id
	}
	r.Fatalf("%s has no session", hub)
	return ""
}

func (r *hubRig) lastServed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.served) == 0 {
		return errors.New("none")
	}
	return r.served[len(r.served)-1]
}

func (r *hubRig) handledBy(hub string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var some []string
	for _, h := range r.handled {
		if strings.HasPrefix(h, hub+":") {
			some = append(some, h)
		}
	}
	return some
}

func numbers(hub string, from, to int, mark string) []string {
	var all []string
	for i := from; i <= to; i++ {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s:%d:%d%s", hub, i, i, mark)))
	}
	return all
}

func isInvalid(err error) bool { return errors.Is(err, transparency.ErrInvalid) }
