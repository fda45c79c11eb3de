package relocation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/relocation"
	"github.com/go-transparency/transparency/relocation/relocationtest"
)

// FuzzHistory plays any row of faults on three instances and a client, in fake
// time, with messages both ways all along, and has the checker look at what
// came of it: RL-01 to RL-04, RL-08, RL-14, RL-45 to RL-47 in every order.
func FuzzHistory(f *testing.F) {
	for _, seed := range []string{
		"",                            // nothing happens
		"ss<ss",                       // moves by the client
		"sdasdbsdcs",                  // every instance drains
		"skasskbsskcss",               // every instance is killed
		"sssza1ss9sss",                // one-way death
		"ssoa5ss9ss",                  // cut from the store for longer than a lease
		"ssla1ss2lbss",                // replies of the store get lost
		"sca2sxsca3sxcb1s",            // connections are cut, Sends are cancelled
		"sdakbsoc5sxsza<ss9",          // some of everything
		"pp1ppkapp2ppdbppcc9pp",       // while others send to the client
		"sxkasxkbsxkcsx8",             // nobody is there
		"srasrbsrcs7dasdb",            // dials are refused
		"sokasokbsokc9s",              // killed while cut from the store
		"lass<lbss<lcss<",             // moves, and replies that get lost
		"pAspBspCspAspBspCspAspBspCs", // many cuts
		"msssAss3Bss3Css3ksss",        // in the middle of handlers
		"msssssss5oapp<ss9ss",         // the same, and the owner cut off
		"mssss2kassss4kbssss4kcss",    // and killed
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > 64 {
			ops = ops[:64]
		}
		synctest.Test(t, func(t *testing.T) { play(t, ops) })
	})
}

// play carries out ops, ends all faults, waits until everything has arrived,
// and checks.
func play(t *testing.T, ops []byte) {
	w := newWorld(t)
	defer w.end()
	for _, op := range ops {
		w.do(op)
	}
	w.heal()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := w.conn.Flush(ctx); err != nil {
		t.Fatalf("ops %q: Flush: %v", ops, err)
	}
	for w.missing() && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
	if err := w.checker.Final(); err != nil {
		t.Errorf("ops %q: %v", ops, err)
	}
}

const instances = 3

// A world is three instances over one store, a client, and a Hub that serves
// nobody and sends to the client.
type world struct {
	t       *testing.T
	net     *relocation.Network
	store   relocation.Store
	hubs    [instances]*relocation.Hub
	ways    [instances]*wayToStore
	stop    [instances]func()
	drains  sync.WaitGroup
	sender  *relocation.Hub
	conn    *relocation.Conn
	checker relocationtest.Checker
	at      int // the instance that the next op is about
	sent    int

	mu      sync.Mutex // guards what follows
	session string
	takes   time.Duration // a handler
	replies uint64
	pushes  uint64
	last    uint64
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, net: relocation.NewNetwork(), store: relocation.NewMemoryStore(nil)}
	var addrs []string
	for i := range instances {
		w.start(i)
		addrs = append(addrs, addr(i))
	}
	w.sender = relocation.NewHub(w.store, w.handle, w.options("sender"))
	conn, err := relocation.Dial(t.Context(), relocation.Addresses(addrs), w.net, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.conn = conn
	go w.receive()
	w.do('s')
	if err := conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func addr(i int) string { return string(rune('a' + i)) }

func (w *world) options(name string) *relocation.HubOptions {
	return &relocation.HubOptions{
		Name: name, Keys: [][]byte{[]byte("an example of a key")},
		// As long as the lease, so that no handler runs beside that of an
		// older owner.
		HandoffGrace: relocation.DefaultLease,
	}
}

func (w *world) start(i int) {
	w.ways[i] = &wayToStore{Store: w.store}
	hub := relocation.NewHub(w.ways[i], w.handle, w.options(addr(i)))
	w.hubs[i] = hub
	w.stop[i] = w.net.Listen(addr(i), func(ctx context.Context, tr relocation.Transport) {
		_ = hub.Serve(ctx, tr, relocation.Principal{ID: "ada"})
	})
}

func (w *world) handle(ctx context.Context, s *relocation.Session, m relocation.Message) error {
	w.mu.Lock()
	w.session = s.ID()
	takes := w.takes
	w.mu.Unlock()
	w.checker.Handle("up", relocationtest.Handling{
		Seq: m.Seq, Payload: string(m.Data), Redelivered: m.Redelivered, Generation: s.Generation(),
	})
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Reply([]byte("re " + string(m.Data)))
}

func (w *world) receive() {
	for {
		m, err := w.conn.Receive(w.t.Context())
		if err != nil {
			return
		}
		w.mu.Lock()
		if m.Seq != w.last+1 || m.Redelivered {
			w.t.Errorf("received %d after %d, redelivered %t", m.Seq, w.last, m.Redelivered)
		}
		w.last = m.Seq
		stream, n := "replies", &w.replies
		if strings.HasPrefix(string(m.Data), "push ") {
			stream, n = "pushes", &w.pushes
		}
		*n++
		seq := *n
		w.mu.Unlock()
		w.checker.Handle(stream, relocationtest.Handling{Seq: seq, Payload: string(m.Data)})
	}
}

// missing reports whether something that was sent has not arrived.
func (w *world) missing() bool {
	n := w.checker.Counts()
	return n.Handled < n.Sent
}

// do carries out one op, whatever byte it is.
func (w *world) do(op byte) {
	switch op {
	case 'a', 'b', 'c', 'A', 'B', 'C':
		w.at = int(op|0x20) - 'a'
		if op < 'a' {
			w.net.Cut(addr(w.at))
		}
	case 's':
		w.send(w.t.Context())
	case 'x': // cancelled before, or while it waits
		ctx, cancel := context.WithCancel(w.t.Context())
		if w.sent%2 == 0 {
			cancel()
		}
		w.send(ctx)
		cancel()
	case 'p':
		w.push()
	case '<':
		ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Second)
		defer cancel()
		_ = w.conn.Migrate(ctx, "")
	case 'd':
		w.drain(w.at)
	case 'k':
		w.kill(w.at)
	case 'z':
		w.net.Freeze(addr(w.at), relocation.ToServer)
	case 'Z':
		w.net.Freeze(addr(w.at), relocation.ToClient)
	case 't':
		w.net.Thaw(addr(w.at), relocation.BothWays)
	case 'o':
		w.ways[w.at].set(off)
	case 'l':
		w.ways[w.at].set(losing)
	case 'w':
		w.ways[w.at].set(working)
	case 'm':
		w.mu.Lock()
		w.takes = 300*time.Millisecond - w.takes
		w.mu.Unlock()
	case 'r':
		w.net.Refuse(addr(w.at), true)
	case 'h':
		w.net.Hang(addr(w.at), true)
	case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9': // from 10 ms to 5 s pass
		time.Sleep(10 * time.Millisecond << (op - '0'))
	default:
		w.do(letters[int(op)%len(letters)])
	}
}

// letters are what do knows, the frequent ones more than once.
const letters = "abcABCsssssxppp<<dkzZtolwmrh0123456789"

func (w *world) send(ctx context.Context) {
	w.sent++
	message := fmt.Sprint(w.sent)
	_ = w.checker.Send("replies", "re "+message, func([]byte) error {
		return w.checker.Send("up", message, func(p []byte) error { return w.conn.Send(ctx, p) })
	})
}

func (w *world) push() {
	w.mu.Lock()
	session := w.session
	w.mu.Unlock()
	w.sent++
	_ = w.checker.Send("pushes", fmt.Sprint("push ", w.sent), func(p []byte) error {
		_, err := w.sender.Send(w.t.Context(), session, p)
		return err
	})
}

// drain drains an instance and puts another in its place.
func (w *world) drain(i int) {
	hub, stop := w.hubs[i], w.stop[i]
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	w.drains.Go(func() {
		defer cancel()
		_ = hub.Drain(ctx, &relocation.DrainOptions{Spread: time.Second, Deadline: 10 * time.Second})
		stop()
		_ = hub.Close()
	})
	time.Sleep(2 * time.Second)
	w.start(i)
}

// kill ends an instance as a crash does, and puts another in its place.
func (w *world) kill(i int) {
	w.ways[i].set(off)
	w.net.Refuse(addr(i), true)
	w.net.Cut(addr(i))
	hub, stop := w.hubs[i], w.stop[i]
	w.drains.Go(func() {
		stop()
		_ = hub.Close()
	})
	w.net.Refuse(addr(i), false)
	w.start(i)
}

func (w *world) heal() {
	for i := range instances {
		w.net.Thaw(addr(i), relocation.BothWays)
		w.net.Refuse(addr(i), false)
		w.net.Hang(addr(i), false)
		w.ways[i].set(working)
	}
}

func (w *world) end() {
	_ = w.conn.Close(context.Background())
	for i := range instances {
		_ = w.hubs[i].Close()
		w.stop[i]()
	}
	_ = w.sender.Close()
	w.drains.Wait()
}

// A wayToStore is how one instance reaches the store, or does not.
type wayToStore struct {
	relocation.Store
	mu   sync.Mutex // guards what follows
	mode mode
	seen string // the last that lost its reply
}

type mode uint8

const (
	working mode = iota
	off          // nothing gets through
	losing       // what changes something gets through, and every other reply is lost
)

func (s *wayToStore) set(m mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = m
}

var errOff = fmt.Errorf("%w: cut off", transparency.ErrUnavailable)

func (s *wayToStore) now() (mode, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mode == off {
		return off, errOff
	}
	return s.mode, nil
}

// far is how long a request takes, and its reply.
const far = 5 * time.Millisecond

// reply is what comes back of a change that was made.
func (s *wayToStore) reply(mode mode, key string) error {
	if mode == losing && len(key) > 0 && key[len(key)-1]%2 == 0 {
		return fmt.Errorf("%w: the reply was lost", transparency.ErrUncertain)
	}
	return nil
}

func (s *wayToStore) Create(ctx context.Context, id string, terms relocation.Terms, claim relocation.Claim) (relocation.Snapshot, error) {
	if _, err := s.now(); err != nil {
		return relocation.Snapshot{}, err
	}
	return s.Store.Create(ctx, id, terms, claim)
}

func (s *wayToStore) Attach(ctx context.Context, id string, claim relocation.Claim) (relocation.Snapshot, error) {
	mode, err := s.now()
	if err != nil {
		return relocation.Snapshot{}, err
	}
	time.Sleep(far)
	defer time.Sleep(far)
	snapshot, err := s.Store.Attach(ctx, id, claim)
	if lost := s.reply(mode, claim.Nonce); err == nil && lost != nil {
		return relocation.Snapshot{}, lost
	}
	return snapshot, err
}

func (s *wayToStore) Commit(ctx context.Context, lease relocation.Lease, u relocation.Update) (relocation.Progress, error) {
	mode, err := s.now()
	if err != nil {
		return relocation.Progress{}, err
	}
	time.Sleep(far)
	defer time.Sleep(far)
	progress, err := s.Store.Commit(ctx, lease, u)
	if lost := s.reply(mode, fmt.Sprint(u.In+u.Acked)); err == nil && lost != nil && s.first(u.Mark) {
		return relocation.Progress{}, lost
	}
	return progress, err
}

// first reports whether a call of this name is the first: a reply that is
// lost each time would be an instance that is cut off.
func (s *wayToStore) first(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == name {
		return false
	}
	s.seen = name
	return true
}

func (s *wayToStore) Renew(ctx context.Context, leases []relocation.Lease) []relocation.Renewal {
	if _, err := s.now(); err != nil {
		results := make([]relocation.Renewal, len(leases))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	return s.Store.Renew(ctx, leases)
}

func (s *wayToStore) Append(ctx context.Context, id string, batch relocation.Batch) (uint64, error) {
	if _, err := s.now(); err != nil {
		return 0, err
	}
	time.Sleep(far)
	defer time.Sleep(far)
	return s.Store.Append(ctx, id, batch)
}

func (s *wayToStore) Read(ctx context.Context, id string, after uint64, limit int) ([]relocation.Outgoing, error) {
	if _, err := s.now(); err != nil {
		return nil, err
	}
	return s.Store.Read(ctx, id, after, limit)
}

func (s *wayToStore) Release(ctx context.Context, lease relocation.Lease, to string) error {
	if _, err := s.now(); err != nil {
		return err
	}
	return s.Store.Release(ctx, lease, to)
}

func (s *wayToStore) Delete(ctx context.Context, lease relocation.Lease) error {
	if _, err := s.now(); err != nil {
		return err
	}
	return s.Store.Delete(ctx, lease)
}

func (s *wayToStore) Listen(ctx context.Context, owner string, hear func(relocation.Event)) error {
	return s.Store.Listen(ctx, owner, func(e relocation.Event) {
		if _, err := s.now(); !errors.Is(err, errOff) {
			hear(e)
		}
	})
}
