package locationtest

import (
	"context"
	"iter"
	"time"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/location"
)

// A seen is an event of a watch.
type seen struct {
	snapshot location.Snapshot
	err      error
	at       time.Time
}

// events follows a watch in the background. The channel is closed when the
// watch ends.
func (r *run) events(ctx context.Context, seq iter.Seq2[location.Snapshot, error]) <-chan seen {
	ch := make(chan seen, 1000)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	r.Cleanup(func() {
		cancel()
		testkit.Receive(r, "the end of a watch", done)
	})
	go func() {
		defer close(done)
		defer close(ch)
		for s, err := range seq {
			select {
			case ch <- seen{s, err, time.Now()}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ch
}

// watch watches the service.
func (r *run) watch(l location.Locator) <-chan seen {
	ctx, cancel := context.WithCancel(r.Context())
	ch := r.events(ctx, location.Watch(ctx, l, service))
	r.Cleanup(cancel) // before that of events
	return ch
}

func (r *run) next(what string, ch <-chan seen, within time.Duration) seen {
	r.Helper()
	select {
	case e := <-ch:
		return e
	case <-time.After(within):
		r.Fatalf("%s: no event within %v", what, within)
	}
	return seen{}
}

// end checks that there is no event before the end of a watch.
func (r *run) end(what string, ch <-chan seen) {
	r.Helper()
	if e := r.next(what, ch, r.slack()); !e.at.IsZero() {
		r.Errorf("%s: event %v, %v, want the end", what, e.snapshot, e.err)
	}
}

// drain reads the events of a watch that is ending.
func (r *run) drain(ch <-chan seen) {
	r.Helper()
	for e := r.next("the end of a watch", ch, r.slack()); !e.at.IsZero(); {
		e = r.next("the end of a watch", ch, r.slack())
	}
}

func (r *run) none(what string, ch <-chan seen, within time.Duration) {
	r.Helper()
	select {
	case e := <-ch:
		r.Errorf("%s: event %v, %v, want none", what, e.snapshot, e.err)
	case <-time.After(within):
	}
}
