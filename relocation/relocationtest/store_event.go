package relocationtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-transparency/transparency/relocation"
)

// What one instance tells another. All of it is hints, so it is done again
// until it is heard.
var eventChecks = []storeCheck{
	{name: "the owner hears of what is appended", fn: func(r *storeRun) {
		i := r.long().create("a")
		other := r.listen("b")
		r.hears("a", relocation.Event{Kind: relocation.Appended, Session: r.id}, func() { r.append(i.store, "x") })
		if got := other(); len(got) > 0 {
			r.Errorf("another instance heard %v", got)
		}
	}},
	{name: "the owner is asked to yield", fn: func(r *storeRun) {
		i := r.long().create("a")
		other := r.listen("b")
		want := relocation.Event{Kind: relocation.Yield, Session: r.id, From: "b 1:2", Generation: 1}
		r.hears("a", want, func() {
			c := r.claim("b 1:2")
			c.Serial, c.Attempt = 1, 1
			_, err := i.store.Attach(r.Context(), r.id, c)
			if !errors.Is(err, relocation.ErrOwned) {
				r.Fatalf("Attach error = %v, want ErrOwned", err)
			}
		})
		if got := other(); len(got) > 0 {
			r.Errorf("another instance heard %v", got)
		}
	}},
	{name: "who asked hears of the release", fn: func(r *storeRun) {
		i := r.long().create("a")
		r.hears("b", relocation.Event{Kind: relocation.Released, Session: r.id}, func() {
			if err := i.store.Release(r.Context(), i.lease, "b"); err != nil {
				r.Fatalf("Release error = %v", err)
			}
		})
	}},
	{name: "listening ends with its context", fn: func(r *storeRun) {
		s := r.connect()
		ctx, cancel := context.WithCancel(r.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Listen(ctx, "a", func(relocation.Event) {}) }()
		cancel()
		select {
		case err := <-ended:
			r.wantErr("Listen", err, context.Canceled)
		case <-time.After(10 * time.Second):
			r.Fatalf("Listen goes on after its context has ended")
		}
		if err := s.Listen(ctx, "a", func(relocation.Event) {}); !errors.Is(err, context.Canceled) {
			r.Errorf("Listen with an ended context = %v, want the context's", err)
		}
	}},
}

// listen returns a function that returns what an instance has heard, but for
// Missed.
func (r *storeRun) listen(owner string) (heard func() []relocation.Event) {
	var mu sync.Mutex // guards events
	var events []relocation.Event
	s := r.connect()
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Listen(ctx, owner, func(e relocation.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind != relocation.Missed {
				events = append(events, e)
			}
		})
	}()
	r.Cleanup(func() {
		cancel()
		<-ended
	})
	return func() []relocation.Event {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(events)
	}
}

// hears does something until an instance hears of it, and nothing else.
func (r *storeRun) hears(owner string, want relocation.Event, do func()) {
	r.Helper()
	heard := r.listen(owner)
	r.eventually("the event", 10*time.Second, func() bool {
		do()
		time.Sleep(10 * time.Millisecond)
		return len(heard()) > 0
	})
	var out uint64
	for _, got := range heard() {
		if want.Kind == relocation.Appended && got.Out <= out {
			r.Errorf("heard that %d was appended after %d", got.Out, out)
		}
		out, got.Out = got.Out, 0
		if got != want {
			r.Errorf("heard %+v, want %+v", got, want)
		}
	}
}
