package relocationtest

import (
	"context"
	"fmt"
	"time"

	"github.com/go-transparency/transparency/relocation"
)

var endMutants = []storeMutant{
	{"releasing does nothing", "release", func(f *faulty, good relocation.Store) {
		f.release = func(context.Context, relocation.Lease, string) error { return nil }
	}},
	{"releasing again fails", "release", func(f *faulty, good relocation.Store) {
		f.release = func(ctx context.Context, lease relocation.Lease, to string) error {
			if f.next() == 2 {
				return relocation.ErrFenced
			}
			return good.Release(ctx, lease, to)
		}
	}},
	{"deleting only releases", "RL-37 delete", func(f *faulty, good relocation.Store) {
		f.delete = func(ctx context.Context, lease relocation.Lease) error { return good.Release(ctx, lease, "") }
	}},
	{"ends are not remembered", "RL-37 delete", withTerms(func(t *relocation.Terms) { t.Tombstone = 0 })},
	{"only the owner deletes", "RL-37 delete after release", func(f *faulty, good relocation.Store) {
		released := false
		f.release = func(ctx context.Context, lease relocation.Lease, to string) error {
			released = true
			return good.Release(ctx, lease, to)
		}
		f.delete = func(ctx context.Context, lease relocation.Lease) error {
			if released {
				return relocation.ErrFenced
			}
			return good.Delete(ctx, lease)
		}
	}},
	{"numbers of a new session go on", "RL-27 a new session after a forgotten one", func(f *faulty, good relocation.Store) {
		f.create = func(ctx context.Context, id string, terms relocation.Terms, c relocation.Claim) (relocation.Snapshot, error) {
			if _, s, _ := f.now(); s.Generation > 0 {
				terms.In, terms.Out = 6, 3
			}
			return good.Create(ctx, id, terms, c)
		}
	}},
	{"ends are remembered for ever", "RL-27 a new session after a forgotten one", withTerms(func(t *relocation.Terms) { t.Tombstone = 1e16 })},
	{"sessions do not expire", "RL-23 a session that nobody resumes", withTerms(func(t *relocation.Terms) { t.Resume = 1e16 })},
	{"the time to resume counts from the last renewal", "RL-32 the time to resume counts from the drop", func(f *faulty, good relocation.Store) {
		withTerms(func(t *relocation.Terms) { t.Resume /= 2 })(f, good)
	}},
	{"a session stays longer than it may", "RL-32 the time to resume counts from the drop", withTerms(func(t *relocation.Terms) {
		t.Resume += time.Second
	})},
	{"what is appended prolongs", "what is appended does not prolong", func(f *faulty, good relocation.Store) {
		f.append = func(ctx context.Context, id string, b relocation.Batch) (uint64, error) {
			lease, s, _ := f.now()
			n := uint64(f.next())
			again, err := good.Attach(ctx, id, relocation.Claim{
				Owner: "a", Lease: lease.Duration, Nonce: fmt.Sprint(n), Principal: "ada", Serial: s.Generation, Attempt: n, Received: n - 1,
			})
			if err == nil {
				lease.Generation = again.Generation
				err = good.Release(ctx, lease, "")
			}
			if err != nil {
				return 0, err
			}
			return good.Append(ctx, id, b)
		}
	}},
	{"messages are lost early", "messages last as long as the session", func(f *faulty, good relocation.Store) {
		began := time.Now()
		f.read = func(ctx context.Context, id string, after uint64, limit int) ([]relocation.Outgoing, error) {
			if time.Since(began) > time.Minute {
				return nil, nil
			}
			return good.Read(ctx, id, after, limit)
		}
	}},
	{"an end is remembered too briefly", "a remembered end lasts from Delete", withTerms(func(t *relocation.Terms) {
		t.Tombstone -= time.Second
	})},
}

// deaf drops events of one kind.
func deaf(kind relocation.EventKind) func(*faulty, relocation.Store) {
	return func(f *faulty, good relocation.Store) {
		f.listen = func(ctx context.Context, owner string, hear func(relocation.Event)) error {
			return good.Listen(ctx, owner, func(e relocation.Event) {
				if e.Kind != kind {
					hear(e)
				}
			})
		}
	}
}

var eventMutants = []storeMutant{
	{"nobody hears of what is appended", "the owner hears of what is appended", deaf(relocation.Appended)},
	{"nobody is asked to yield", "the owner is asked to yield", deaf(relocation.Yield)},
	{"a Yield names no generation", "the owner is asked to yield", func(f *faulty, good relocation.Store) {
		f.listen = func(ctx context.Context, owner string, hear func(relocation.Event)) error {
			return good.Listen(ctx, owner, func(e relocation.Event) {
				e.Generation = 0
				hear(e)
			})
		}
	}},
	{"nobody hears of the release", "who asked hears of the release", deaf(relocation.Released)},
	{"listening ends without an error", "listening ends with its context", func(f *faulty, good relocation.Store) {
		f.listen = func(ctx context.Context, owner string, hear func(relocation.Event)) error {
			_ = good.Listen(ctx, owner, hear)
			return nil
		}
	}},
}
