package relocationtest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/relocation"
)

// A faulty store passes on to another what it is not told to spoil, and
// remembers what a mutant needs to get past the checks of the good one.
type faulty struct {
	relocation.Store
	create  func(ctx context.Context, id string, terms relocation.Terms, c relocation.Claim) (relocation.Snapshot, error)
	attach  func(ctx context.Context, id string, c relocation.Claim) (relocation.Snapshot, error)
	commit  func(ctx context.Context, lease relocation.Lease, u relocation.Update) (relocation.Progress, error)
	renew   func(ctx context.Context, leases []relocation.Lease) []relocation.Renewal
	append  func(ctx context.Context, id string, b relocation.Batch) (uint64, error)
	read    func(ctx context.Context, id string, after uint64, limit int) ([]relocation.Outgoing, error)
	release func(ctx context.Context, lease relocation.Lease, to string) error
	delete  func(ctx context.Context, lease relocation.Lease) error
	listen  func(ctx context.Context, owner string, hear func(relocation.Event)) error

	mu       sync.Mutex // guards what follows
	present  relocation.Lease
	snapshot relocation.Snapshot
	mark     string
	count    int
}

func (f *faulty) Create(ctx context.Context, id string, terms relocation.Terms, c relocation.Claim) (relocation.Snapshot, error) {
	create := f.Store.Create
	if f.create != nil {
		create = f.create
	}
	s, err := create(ctx, id, terms, c)
	f.owned(id, c, s, err)
	return s, err
}

func (f *faulty) Attach(ctx context.Context, id string, c relocation.Claim) (relocation.Snapshot, error) {
	attach := f.Store.Attach
	if f.attach != nil {
		attach = f.attach
	}
	s, err := attach(ctx, id, c)
	f.owned(id, c, s, err)
	return s, err
}

func (f *faulty) owned(id string, c relocation.Claim, s relocation.Snapshot, err error) {
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.present = relocation.Lease{Session: id, Owner: c.Owner, Generation: s.Generation, Duration: c.Lease}
	f.snapshot, f.mark = s, s.Mark
}

// now returns what the store has.
func (f *faulty) now() (lease relocation.Lease, s relocation.Snapshot, mark string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.present, f.snapshot, f.mark
}

// next counts calls.
func (f *faulty) next() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	return f.count
}

func (f *faulty) Commit(ctx context.Context, lease relocation.Lease, u relocation.Update) (relocation.Progress, error) {
	commit := f.Store.Commit
	if f.commit != nil {
		commit = f.commit
	}
	p, err := commit(ctx, lease, u)
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.mark, f.snapshot.Out = u.Mark, p.Out
	}
	return p, err
}

func (f *faulty) Renew(ctx context.Context, leases []relocation.Lease) []relocation.Renewal {
	if f.renew != nil {
		return f.renew(ctx, leases)
	}
	return f.Store.Renew(ctx, leases)
}

func (f *faulty) Append(ctx context.Context, id string, b relocation.Batch) (uint64, error) {
	if f.append != nil {
		return f.append(ctx, id, b)
	}
	return f.Store.Append(ctx, id, b)
}

func (f *faulty) Read(ctx context.Context, id string, after uint64, limit int) ([]relocation.Outgoing, error) {
	if f.read != nil {
		return f.read(ctx, id, after, limit)
	}
	return f.Store.Read(ctx, id, after, limit)
}

func (f *faulty) Release(ctx context.Context, lease relocation.Lease, to string) error {
	if f.release != nil {
		return f.release(ctx, lease, to)
	}
	return f.Store.Release(ctx, lease, to)
}

func (f *faulty) Delete(ctx context.Context, lease relocation.Lease) error {
	if f.delete != nil {
		return f.delete(ctx, lease)
	}
	return f.Store.Delete(ctx, lease)
}

func (f *faulty) Listen(ctx context.Context, owner string, hear func(relocation.Event)) error {
	if f.listen != nil {
		return f.listen(ctx, owner, hear)
	}
	return f.Store.Listen(ctx, owner, hear)
}

// storeFailures runs a check on a spoiled store and returns what it reports.
func storeFailures(t *testing.T, c storeCheck, spoil func(f *faulty, good relocation.Store)) (failed []string) {
	synctest.Test(t, func(t *testing.T) {
		good := relocation.NewMemoryStore(nil)
		f := &faulty{Store: good}
		spoil(f, good)
		failed = testkit.Record(t.Context(), func(r *testkit.Recorder) {
			c.fn(newStoreRun(r, func() relocation.Store { return f }, true))
		})
	})
	return failed
}

// A check that has never failed is unproven.
func TestStoreMutants(t *testing.T) {
	proven := map[string]bool{}
	for _, m := range storeMutants {
		t.Run(m.name, func(t *testing.T) {
			i := slices.IndexFunc(storeChecks, func(c storeCheck) bool { return c.name == m.finds })
			if i < 0 {
				t.Fatalf("there is no check %q", m.finds)
			}
			proven[m.finds] = true
			if found := storeFailures(t, storeChecks[i], m.spoil); len(found) == 0 {
				t.Errorf("%q does not find it", m.finds)
			} else {
				t.Log(found[0])
			}
		})
	}
	for _, c := range storeChecks {
		if !proven[c.name] {
			t.Errorf("no mutant fails %q", c.name)
		}
		if good := storeFailures(t, c, func(*faulty, relocation.Store) {}); len(good) > 0 {
			t.Errorf("%q fails without a fault: %v", c.name, good)
		}
	}
}
