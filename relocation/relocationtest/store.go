package relocationtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency/relocation"
)

// OpenStore opens an empty store and returns what connects an instance to it.
type OpenStore func(t *testing.T) (connect func() relocation.Store)

// RunStore checks that a store does what [relocation.Store] promises, on the
// clock of the store, whatever it is. Every check opens a store of its own, and
// connects to it once for each instance that it plays. What takes exact
// instants is left to [RunStoreFakeTime].
func RunStore(t *testing.T, open OpenStore) {
	for _, c := range storeChecks {
		if c.fakeTime {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			c.fn(newStoreRun(t, open(t), false))
		})
	}
}

// RunStoreFakeTime runs all checks, each in a bubble of [synctest.Test] in
// which open is called too: the store must take its time from there.
func RunStoreFakeTime(t *testing.T, open OpenStore) {
	for _, c := range storeChecks {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.fn(newStoreRun(t, open(t), true)) })
		})
	}
}

// A storeCheck is one promise. Its number is that of the scenario it stands
// for.
type storeCheck struct {
	name     string
	fakeTime bool // needs a clock that moves only when nothing else can
	fn       func(r *storeRun)
}

var storeChecks = slices.Concat(ownerChecks, commitChecks, outboxChecks, endChecks, eventChecks)

// A reporter is what the checks need of a [testing.T]; the suite's own tests
// put a recorder in its place.
type reporter interface {
	Context() context.Context
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

type storeRun struct {
	reporter
	connect func() relocation.Store
	fake    bool
	lease   time.Duration
	terms   relocation.Terms
	id      string
	names   int
}

func newStoreRun(rep reporter, connect func() relocation.Store, fake bool) *storeRun {
	unit := 500 * time.Millisecond
	if fake {
		unit = 10 * time.Second
	}
	return &storeRun{reporter: rep, connect: connect, fake: fake, id: "session 1", lease: 3 * unit, terms: relocation.Terms{
		Principal: "ada", Resume: 2 * unit, Tombstone: 4 * unit, MaxMessages: 1000, MaxBytes: 4 << 20,
	}}
}

// long gives the session times that do not end within a check.
func (r *storeRun) long() *storeRun {
	r.lease, r.terms.Resume, r.terms.Tombstone = time.Minute, time.Hour, 2*time.Hour
	return r
}

// slack is how late something may come that takes no time of its own.
func (r *storeRun) slack() time.Duration {
	if r.fake {
		return 200 * time.Millisecond
	}
	return 10 * time.Second
}

// name returns one that was not used before: a nonce, a mark, a batch.
func (r *storeRun) name() string {
	r.names++
	return fmt.Sprintf("n%d", r.names)
}

// An instance owns a session.
type instance struct {
	r     *storeRun
	store relocation.Store
	lease relocation.Lease
	first relocation.Snapshot
	mark  string
}

func (r *storeRun) claim(owner string) relocation.Claim {
	return relocation.Claim{Owner: owner, Lease: r.lease, Nonce: r.name(), Principal: r.terms.Principal}
}

// create makes the session with r.terms.
func (r *storeRun) create(owner string) *instance {
	r.Helper()
	s, c := r.connect(), r.claim(owner)
	first, err := s.Create(r.Context(), r.id, r.terms, c)
	if err != nil {
		r.Fatalf("Create error = %v", err)
	}
	return r.instance(s, c, first)
}

// attach makes a claim that must be granted. It fills in what a client says
// that knows all.
func (r *storeRun) attach(c relocation.Claim, last relocation.Snapshot) *instance {
	r.Helper()
	s := r.connect()
	c.Serial = max(c.Serial, last.Generation)
	c.Attempt = max(c.Attempt, last.Generation)
	c.Received = max(c.Received, last.Out)
	first, err := s.Attach(r.Context(), r.id, c)
	if err != nil {
		r.Fatalf("Attach error = %v", err)
	}
	return r.instance(s, c, first)
}

func (r *storeRun) instance(s relocation.Store, c relocation.Claim, first relocation.Snapshot) *instance {
	return &instance{r: r, store: s, first: first, mark: first.Mark, lease: relocation.Lease{
		Session: r.id, Owner: c.Owner, Generation: first.Generation, Duration: c.Lease,
	}}
}

// try makes an update, and keeps its mark when that is done.
func (i *instance) try(u relocation.Update) (relocation.Progress, error) {
	u.Mark, u.After = i.r.name(), i.mark
	p, err := i.store.Commit(i.r.Context(), i.lease, u)
	if err == nil {
		i.mark = u.Mark
	}
	return p, err
}

func (i *instance) commit(u relocation.Update) relocation.Progress {
	i.r.Helper()
	p, err := i.try(u)
	if err != nil {
		i.r.Fatalf("Commit error = %v", err)
	}
	return p
}

func (i *instance) renew() (relocation.Progress, error) {
	i.r.Helper()
	results := i.store.Renew(i.r.Context(), []relocation.Lease{i.lease})
	if len(results) != 1 {
		i.r.Fatalf("Renew of one lease gave %d results", len(results))
	}
	return results[0].Progress, results[0].Err
}

func (i *instance) release() {
	i.r.Helper()
	if err := i.store.Release(i.r.Context(), i.lease, ""); err != nil {
		i.r.Fatalf("Release error = %v", err)
	}
}

// state returns what the store has, by taking the session over.
func (i *instance) state() *instance {
	i.r.Helper()
	c := i.r.claim("observer")
	c.Force = true
	p, err := i.renew()
	if err != nil {
		i.r.Fatalf("Renew error = %v", err)
	}
	last := i.first
	last.Out = p.Out
	return i.r.attach(c, last)
}

// append appends a batch of its own.
func (r *storeRun) append(s relocation.Store, messages ...string) uint64 {
	r.Helper()
	first, err := s.Append(r.Context(), r.id, relocation.Batch{ID: r.name(), Messages: payloads(messages...)})
	if err != nil {
		r.Fatalf("Append error = %v", err)
	}
	return first
}

func payloads(messages ...string) [][]byte {
	all := make([][]byte, len(messages))
	for i, m := range messages {
		all[i] = []byte(m)
	}
	return all
}

// read checks what the outbox holds after a number.
func (r *storeRun) read(s relocation.Store, after uint64, limit int, first uint64, want ...string) []relocation.Outgoing {
	r.Helper()
	got, err := s.Read(r.Context(), r.id, after, limit)
	if err != nil {
		r.Fatalf("Read(after %d) error = %v", after, err)
	}
	if len(got) != len(want) {
		r.Fatalf("Read(after %d, %d bytes) = %d messages, want %d", after, limit, len(got), len(want))
	}
	for i, data := range want {
		if m, seq := got[i], first+uint64(i); m.Seq != seq || string(m.Data) != data {
			r.Errorf("Read(after %d): message %d is %d %.40q, want %d %.40q", after, i, m.Seq, m.Data, seq, data)
		}
	}
	return got
}

const all = 1 << 30 // bytes

func (r *storeRun) wantErr(op string, err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("%s error = %v, want %q", op, err, want)
	}
}

// wantFenced checks that nothing of what an owner does is accepted, and why.
func (i *instance) wantRefused(what string, want error) {
	i.r.Helper()
	_, err := i.try(relocation.Update{In: 1 << 40, Messages: payloads("refused")})
	i.r.wantErr("Commit "+what, err, want)
	_, err = i.renew()
	i.r.wantErr("Renew "+what, err, want)
}

// wantEnded checks that the session has ended, what is remembered of it, and
// that another principal does not learn that.
func (r *storeRun) wantEnded(s relocation.Store, in uint64) {
	r.Helper()
	c := r.claim("late")
	_, err := s.Attach(r.Context(), r.id, c)
	if ended, ok := errors.AsType[*relocation.ExpiredError](err); !ok || ended.In != in {
		r.Errorf("Attach to a session that ended: error = %v, want an ExpiredError with In %d", err, in)
	}
	r.wantErr("Attach to a session that ended", err, relocation.ErrExpired)
	c.Principal = "eve"
	_, err = s.Attach(r.Context(), r.id, c)
	r.wantErr("Attach of another principal", err, relocation.ErrUnknown)
	_, err = s.Append(r.Context(), r.id, relocation.Batch{ID: r.name(), Messages: payloads("late")})
	r.wantErr("Append to a session that ended", err, relocation.ErrExpired)
	_, err = s.Read(r.Context(), r.id, 0, all)
	r.wantErr("Read of a session that ended", err, relocation.ErrExpired)
	_, err = s.Create(r.Context(), r.id, r.terms, r.claim("late"))
	r.wantErr("Create of a session that ended", err, relocation.ErrExists)
}

// eventually waits until cond holds, and fails the check if it does not within
// d.
func (r *storeRun) eventually(what string, d time.Duration, cond func() bool) {
	r.Helper()
	step := 5 * time.Millisecond
	if r.fake {
		step *= 20
	}
	for end := time.Now().Add(d); !cond(); time.Sleep(step) {
		if time.Now().After(end) {
			r.Fatalf("%s: not within %v", what, d)
		}
	}
}
