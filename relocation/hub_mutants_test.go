package relocation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// RL-48: what the server's side must not do, done by a store that lets it seem
// right, shows in one of two histories: an instance dies under a client, or is
// stopped while another takes its session. An honest store passes both.
func TestMutants(t *testing.T) {
	type history func(*testing.T, *brokenStore) error
	for _, m := range []struct {
		name      string
		breaks    func(*brokenStore) // nil: nothing
		histories []history
	}{
		{"none", nil, []history{playDeath, playStop}},
		{"ack before commit", func(b *brokenStore) { b.commitsLater = true }, []history{playDeath}},
		{"wire before append", func(b *brokenStore) { b.appendsLater = true }, []history{playDeath}},
		{"counters reset on resume", func(b *brokenStore) { b.forgets = true }, []history{playDeath}},
		{"no fence check", func(b *brokenStore) { b.letsAnyoneCommit = true }, []history{playStop}},
		{"generation not compared", func(b *brokenStore) { b.oneGeneration = true }, []history{playStop}},
	} {
		for _, play := range m.histories {
			t.Run(m.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := &brokenStore{Store: NewMemoryStore(nil), last: make(map[string]Lease), marks: make(map[string]string)}
					if m.breaks != nil {
						m.breaks(b)
					}
					err := play(t, b)
					if (err == nil) != (m.breaks == nil) {
						t.Errorf("what went wrong: %v", err)
					}
					t.Logf("what went wrong: %v", err)
				})
			})
		}
	}
}

// playDeath has a client send and receive, kills its server, and has it go on
// with another.
func playDeath(t *testing.T, b *brokenStore) error {
	r := newHubRig(t)
	r.broken = b
	r.start("a", nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Dial(ctx, Addresses([]string{"a", "b"}), r.net, nil)
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	r.start("b", nil)
	id := r.onlySession("a")
	receive := func(want string) error {
		m, err := c.Receive(ctx)
		if err != nil {
			return err
		}
		if string(m.Data) != want {
			return fmt.Errorf("received %q, want %q", m.Data, want)
		}
		return nil
	}
	for i := range 5 {
		if err := c.SendAck(ctx, fmt.Append(nil, i+1)); err != nil {
			return err
		}
		if _, err := r.hubs["a"].Send(ctx, id, fmt.Append(nil, i)); err != nil {
			return err
		}
		if err := receive(fmt.Sprint(i)); err != nil {
			return err
		}
	}
	r.kill("a")
	time.Sleep(time.Millisecond) // the client has seen it
	for i := 5; i < 10; i++ {
		if err := c.SendAck(ctx, fmt.Append(nil, i+1)); err != nil {
			return err
		}
		if _, err := r.hubs["b"].Send(ctx, id, fmt.Append(nil, i)); err != nil {
			return err
		}
		if err := receive(fmt.Sprint(i)); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	want := append(numbers("a", 1, 5, ""), numbers("b", 6, 10, "")...)
	if fmt.Sprint(r.handled) != fmt.Sprint(want) {
		return fmt.Errorf("handled %q, want %q", r.handled, want)
	}
	return nil
}

// playStop stops an instance while it commits. Meanwhile the session is taken
// by a copy of the client at another, and then the first goes on, with its own
// client.
func playStop(t *testing.T, b *brokenStore) error {
	r := newHubRig(t)
	r.broken = b
	r.start("a", nil)
	r.start("b", nil)
	r.handle = func(_ context.Context, _ string, s *Session, m Message) error { return s.Reply(m.Data) }
	c := r.hello("a")
	c.send(2)
	c.wantData("1:1", "2:2")
	a := r.links["a"]
	stopped := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(stopped) })
	defer goOn()
	a.set(func() {
		a.deaf, a.commit = true, func(Update) error { <-stopped; return nil }
	})
	c.send(3)
	time.Sleep(10 * time.Millisecond)
	next := r.dial("b")
	next.again = 3
	next.write(appendOpening(nil, c.resumption(1, 2, 2)))
	next.opened(kindResumed)
	next.sent = next.said.In
	next.send(4)
	next.wantData("3:3", "4:4")
	goOn()
	time.Sleep(10 * time.Millisecond)
	if err := c.tr.Write(t.Context(), appendData(nil, 4, 0, []byte("4"))); err != nil {
		return err
	}
	time.Sleep(10 * time.Millisecond)
	next.send(5)
	if m := next.awaitData(); m.Seq != 5 || string(m.Data) != "5" {
		return fmt.Errorf("the client got %d:%q, want 5:5", m.Seq, m.Data)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	want := []string{"a:1:1", "a:2:2", "a:3:3", "b:3:3!", "b:4:4", "b:5:5"}
	if fmt.Sprint(r.handled) != fmt.Sprint(want) {
		return fmt.Errorf("handled %q, want %q", r.handled, want)
	}
	return nil
}

// A brokenStore breaks a promise of a Store.
type brokenStore struct {
	Store
	commitsLater     bool // and never, if the instance dies
	appendsLater     bool
	forgets          bool // the numbers, when a session is attached
	letsAnyoneCommit bool
	oneGeneration    bool // each owner is given the same

	mu    sync.Mutex // guards what follows
	out   uint64
	last  map[string]Lease // the true one of each session
	marks map[string]string
}

func (b *brokenStore) owned(id string, claim Claim, s Snapshot) Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last[id] = Lease{Session: id, Owner: claim.Owner, Generation: s.Generation, Duration: claim.Lease}
	b.marks[id] = s.Mark
	if b.oneGeneration {
		s.Generation = 1
	}
	if b.forgets {
		s.In = 0
	}
	return s
}

// lease is the lease that the store is shown.
func (b *brokenStore) lease(l Lease) Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.letsAnyoneCommit || b.oneGeneration {
		return b.last[l.Session]
	}
	return l
}

func (b *brokenStore) Create(ctx context.Context, id string, terms Terms, claim Claim) (Snapshot, error) {
	s, err := b.Store.Create(ctx, id, terms, claim)
	if err == nil {
		s = b.owned(id, claim, s)
	}
	return s, err
}

func (b *brokenStore) Attach(ctx context.Context, id string, claim Claim) (Snapshot, error) {
	s, err := b.Store.Attach(ctx, id, claim)
	if err == nil {
		s = b.owned(id, claim, s)
	}
	return s, err
}

func (b *brokenStore) Commit(ctx context.Context, lease Lease, u Update) (Progress, error) {
	if b.commitsLater {
		return Progress{Out: u.Sent.Seq}, nil
	}
	lease = b.lease(lease)
	b.mu.Lock()
	if b.letsAnyoneCommit || b.oneGeneration {
		u.After = b.marks[lease.Session]
	}
	b.mu.Unlock()
	p, err := b.Store.Commit(ctx, lease, u)
	if err == nil {
		b.mu.Lock()
		b.marks[lease.Session] = u.Mark
		b.mu.Unlock()
	}
	return p, err
}

func (b *brokenStore) Renew(ctx context.Context, leases []Lease) []Renewal {
	all := make([]Lease, len(leases))
	for i, l := range leases {
		all[i] = b.lease(l)
	}
	results := b.Store.Renew(ctx, all)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range results {
		results[i].Progress.Out = max(results[i].Progress.Out, b.out)
	}
	return results
}

func (b *brokenStore) Append(ctx context.Context, id string, batch Batch) (uint64, error) {
	if !b.appendsLater {
		return b.Store.Append(ctx, id, batch)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.out + 1
	b.out += uint64(len(batch.Messages))
	return first, nil
}

var errStoreBroken = errors.New("broken")

func (b *brokenStore) Read(ctx context.Context, id string, after uint64, limit int) ([]Outgoing, error) {
	if b.appendsLater && after < b.out {
		return nil, errStoreBroken // not there yet
	}
	return b.Store.Read(ctx, id, after, limit)
}
