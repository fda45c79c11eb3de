package relocation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// A fakeClient speaks the client's side of the protocol as a test says.
type fakeClient struct {
	r     *hubRig
	tr    Transport
	rest  []byte
	said  opened // WELCOME or RESUMED
	sent  uint64
	again uint64 // up to here it was sent before
}

// dial opens a transport to a hub.
func (r *hubRig) dial(hub string) *fakeClient {
	r.Helper()
	tr, err := r.net.Dial(r.Context(), hub)
	if err != nil {
		r.Fatalf("Dial(%q) error = %v", hub, err)
	}
	return &fakeClient{r: r, tr: tr}
}

func testOpening() opening {
	return opening{MinVersion: 1, MaxVersion: 1, MaxMessage: 1 << 20, Window: 1 << 20}
}

// hello opens a new session.
func (r *hubRig) hello(hub string) *fakeClient {
	r.Helper()
	c := r.dial(hub)
	c.write(appendOpening(nil, testOpening()))
	c.opened(kindWelcome)
	return c
}

// resume opens a session again, as a client does that had c.
func (c *fakeClient) resume(hub string, attempt, received, acked uint64) *fakeClient {
	c.r.Helper()
	next := c.r.dial(hub)
	next.again = c.sent
	next.write(appendOpening(nil, c.resumption(attempt, received, acked)))
	next.opened(kindResumed)
	next.sent = next.said.In
	return next
}

func (c *fakeClient) resumption(attempt, received, acked uint64) opening {
	o := testOpening()
	o.Token, o.Attempt, o.Received, o.Acked = c.said.Token, attempt, received, acked
	return o
}

// refused opens a session again, in vain.
func (c *fakeClient) refused(hub string, o opening) reject {
	c.r.Helper()
	next := c.r.dial(hub)
	next.write(appendOpening(nil, o))
	return next.rejected()
}

func (c *fakeClient) opened(want kind) {
	c.r.Helper()
	k, body := c.frame()
	if k == kindReject {
		r, _ := parseReject(body)
		c.r.Fatalf("the opening was rejected: %+v", r)
	}
	said, err := parseOpened(body)
	if k != want || err != nil {
		c.r.Fatalf("the first frame is 0x%02x (%v), want 0x%02x", byte(k), err, byte(want))
	}
	said.Token = clone(said.Token)
	c.said = said
}

func (c *fakeClient) rejected() reject {
	c.r.Helper()
	k, body := c.frame()
	rej, err := parseReject(body)
	if k != kindReject || err != nil {
		c.r.Fatalf("got frame 0x%02x (%v), want REJECT", byte(k), err)
	}
	return rej
}

func (c *fakeClient) write(frames []byte) {
	c.r.Helper()
	if err := c.tr.Write(c.r.Context(), frames); err != nil {
		c.r.Fatalf("Write error = %v", err)
	}
}

// send sends messages that hold their numbers, up to that one.
func (c *fakeClient) send(to uint64) {
	c.r.Helper()
	var frames []byte
	for c.sent < to {
		c.sent++
		var flags uint64
		if c.sent <= c.again {
			flags = dataAgain
		}
		frames = appendData(frames, c.sent, flags, fmt.Appendf(nil, "%d", c.sent))
	}
	c.write(frames)
}

func (c *fakeClient) ack(n uint64) { c.r.Helper(); c.write(appendNumber(nil, kindAck, n)) }

// frame returns the next frame.
func (c *fakeClient) frame() (kind, []byte) {
	c.r.Helper()
	k, body, err := c.next()
	if err != nil {
		c.r.Fatalf("Read error = %v, want a frame", err)
	}
	return k, body
}

// next waits for the next frame, for a minute at most.
func (c *fakeClient) next() (kind, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for len(c.rest) == 0 {
		b, err := c.tr.Read(ctx)
		if err != nil {
			return 0, nil, err
		}
		c.rest = clone(b)
	}
	k, body, rest, err := nextFrame(c.rest)
	c.rest = rest
	return k, body, err
}

// awaitAck waits for the acknowledgement of a message, and skips others.
func (c *fakeClient) awaitAck(n uint64) {
	c.r.Helper()
	for {
		k, body := c.frame()
		if k != kindAck {
			c.r.Fatalf("got frame 0x%02x, want ACK %d", byte(k), n)
		}
		if got, _ := parseNumber(body); got >= n {
			return
		}
	}
}

// awaitData returns the next message, and skips acknowledgements.
func (c *fakeClient) awaitData() Message {
	c.r.Helper()
	for {
		k, body := c.frame()
		switch k {
		case kindAck:
			continue
		case kindData:
			seq, flags, payload, err := parseData(body)
			if err != nil {
				c.r.Fatalf("DATA: %v", err)
			}
			return Message{Seq: seq, Data: payload, Redelivered: flags&dataAgain != 0}
		}
		c.r.Fatalf("got frame 0x%02x, want DATA", byte(k))
	}
}

// wantData checks the next messages: seq:data.
func (c *fakeClient) wantData(want ...string) {
	c.r.Helper()
	for _, w := range want {
		m := c.awaitData()
		if got := fmt.Sprintf("%d:%s", m.Seq, m.Data); got != w || m.Redelivered {
			c.r.Fatalf("got %q (again: %v), want %q", got, m.Redelivered, w)
		}
	}
}

// wantQuiet checks that nothing comes for a time, acknowledgements aside.
func (c *fakeClient) wantQuiet(d time.Duration) {
	c.r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	for {
		for len(c.rest) == 0 {
			b, err := c.tr.Read(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				c.r.Fatalf("Read error = %v, want nothing for %v", err, d)
			}
			c.rest = clone(b)
		}
		k, body, rest, err := nextFrame(c.rest)
		if c.rest = rest; k != kindAck {
			c.r.Fatalf("got frame 0x%02x %q (%v), want nothing for %v", byte(k), body, err, d)
		}
	}
}

// wantClosed checks that the transport ends with that code, and that no frame
// but acknowledgements comes before.
func (c *fakeClient) wantClosed(code CloseCode) {
	c.r.Helper()
	for {
		k, _, err := c.next()
		if err == nil && k == kindAck {
			continue
		}
		var closed *CloseError
		if !errors.As(err, &closed) || closed.Code != code {
			c.r.Fatalf("got frame 0x%02x (%v), want the end with code %d", byte(k), err, code)
		}
		return
	}
}

// session is the ID of the client's session, which only hubs can read.
func (c *fakeClient) session() string {
	c.r.Helper()
	id, _, ok := readToken(newTokenKeys([][]byte{testKey}), c.said.Token, "ada")
	if !ok {
		c.r.Fatalf("the token cannot be read")
	}
	return id
}

// sendFrom sends from a hub to the client.
func (c *fakeClient) sendFrom(h *Hub, texts ...string) {
	c.r.Helper()
	for _, text := range texts {
		if _, err := h.Send(c.r.Context(), c.session(), []byte(text)); err != nil {
			c.r.Fatalf("Hub.Send error = %v", err)
		}
	}
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

func numbers(hub string, from, to int, mark string) []string {
	var all []string
	for i := from; i <= to; i++ {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s:%d:%d%s", hub, i, i, mark)))
	}
	return all
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

func isInvalid(err error) bool { return errors.Is(err, transparency.ErrInvalid) }
