package accesstest

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-transparency/transparency/access"
	"github.com/go-transparency/transparency/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSound runs every check on a right repository: none may fail.
func TestSound(t *testing.T) {
	for _, h := range []Harness{{Writes: true, New: mutant{}.open}, {New: mutant{readOnly: true}.open}} {
		for _, c := range checks {
			if c.skip != nil && c.skip(h) {
				continue
			}
			if fails(t, c, h) {
				t.Errorf("check %s fails a right repository (Writes: %v)", c.name, h.Writes)
			}
		}
	}
}

// TestMutants breaks a right repository in one way at a time: the check that
// is meant for it must fail, and every check must have such a mutant.
func TestMutants(t *testing.T) {
	proven := make(map[string]bool)
	for _, m := range mutants {
		for _, c := range checks {
			if c.name != m.check {
				continue
			}
			proven[c.name] = true
			if !fails(t, c, Harness{Writes: true, New: m.open}) {
				t.Errorf("check %s does not notice: %s", c.name, m.fault)
			}
		}
	}
	for _, c := range checks {
		if !proven[c.name] {
			t.Errorf("check %s has no mutant", c.name)
		}
	}
}

// fails reports whether the check fails the repository.
func fails(t *testing.T, c check, h Harness) bool {
	found := testkit.Record(t.Context(), func(rec *testkit.Recorder) { c.run(recorder{rec, test{t}}, h) })
	return len(found) > 0
}

// A recorder is a testing.TB whose failures are only noted.
type recorder struct {
	*testkit.Recorder
	test
}

// A test is one level below a Recorder, so that a recorder has the methods of
// both, and the Recorder's first.
type test struct{ testing.TB }

func (recorder) Skip(...any) { runtime.Goexit() }

// A mapDriver is the right backend under every mutant.
type mapDriver struct {
	mu   sync.Mutex // guards docs
	docs map[string][]byte
}

func (d *mapDriver) Fetch(_ context.Context, key string, _ int64) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if data, ok := d.docs[key]; ok {
		return data, nil
	}
	return nil, access.ErrNotFound
}

func (d *mapDriver) Store(_ context.Context, key string, data []byte, cond access.PutOptions) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	old, ok := d.docs[key]
	if cond.IfAbsent && ok || cond.IfVersion != "" && (!ok || access.Version(old) != cond.IfVersion) {
		return access.ErrConflict
	}
	d.docs[key] = data
	return nil
}

// A mutant is a fault, and the check that has to notice it.
type mutant struct {
	check, fault string
	readOnly     bool
	opts         func(*access.Options)
	get          func(ctx context.Context, key string, get getFunc) (access.Document, error)
	put          func(ctx context.Context, key string, data []byte, opts *access.PutOptions, r *broken) (string, error)
	noClose      bool
}

type getFunc func(ctx context.Context, key string) (access.Document, error)

func (m mutant) open(_ testing.TB, opts *access.Options) Fixture {
	var o access.Options
	if opts != nil {
		o = *opts
	}
	if m.opts != nil {
		m.opts(&o)
	}
	driver := &mapDriver{docs: make(map[string][]byte)}
	set := func(_ testing.TB, key string, data []byte) {
		_ = driver.Store(context.Background(), key, data, access.PutOptions{}) // without a condition it never fails
	}
	if m.readOnly {
		return Fixture{Repo: access.New(struct{ access.Driver }{driver}, &o), Set: set}
	}
	return Fixture{Repo: &broken{access.New(driver, &o), m, driver}, Set: set}
}

type broken struct {
	*access.Repository
	mutant
	driver *mapDriver
}

func (b *broken) Get(ctx context.Context, key string) (access.Document, error) {
	if b.get == nil {
		return b.Repository.Get(ctx, key)
	}
	return b.get(ctx, key, func(ctx context.Context, key string) (access.Document, error) {
		return b.Repository.Get(ctx, key)
	})
}

func (b *broken) Put(ctx context.Context, key string, data []byte, opts *access.PutOptions) (string, error) {
	if b.put == nil {
		return b.Repository.Put(ctx, key, data, opts)
	}
	return b.put(ctx, key, data, opts, b)
}

func (b *broken) Close() error {
	if b.noClose {
		return nil
	}
	return b.Repository.Close()
}
