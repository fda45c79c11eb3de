package location

import (
	"context"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/backoff"
)

// A Watcher is a [Locator] that learns of changes by itself. See [Watch] for
// what its method has to do.
type Watcher interface {
	Watch(ctx context.Context, service string) iter.Seq2[Snapshot, error]
}

// DefaultPoll is the mean time between two looks at a service that is watched.
const DefaultPoll = 3 * time.Second

// Watch returns the snapshots of service, one after another, for as long as
// ctx lasts. The first is the present one, also when it is empty. Each is
// whole; one comes whenever the endpoints or their staleness have changed, and
// who is slow gets the latest and not those between.
//
// An error takes the place of a snapshot when there is none to give:
// [ErrUnknownService], or one of a class of the root package. It does not end
// the sequence and is not repeated while it is the same: a service can become
// known, and a source can come back. Only the end of ctx ends the sequence,
// also after ErrInvalid and [ErrClosed], which are last words.
//
// A Locator that is a [Watcher] does this itself. Another is asked every 2 to
// 5 seconds.
func Watch(ctx context.Context, l Locator, service string) iter.Seq2[Snapshot, error] {
	if w, ok := l.(Watcher); ok {
		return w.Watch(ctx, service)
	}
	return func(yield func(Snapshot, error) bool) {
		var last event
		for first := true; ; first = false {
			e := lookUp(ctx, l, service)
			if ctx.Err() != nil {
				return
			}
			if (first || !e.same(last)) && !yield(e.snapshot, e.err) {
				return
			}
			last = e
			if backoff.Sleep(ctx, jittered(DefaultPoll)) != nil {
				return
			}
		}
	}
}

// jittered returns from two thirds to five thirds of a mean: 2 to 5 s for 3 s.
func jittered(mean time.Duration) time.Duration {
	mean = min(mean, math.MaxInt64/2)
	return mean*2/3 + rand.N(mean+1)
}

// An event is what a watch has to tell.
type event struct {
	snapshot Snapshot
	err      error
}

// lookUp resolves service. To a watch an empty service is no error.
func lookUp(ctx context.Context, l Locator, service string) event {
	s, err := resolve(ctx, l, service)
	if errors.Is(err, ErrNoInstances) {
		err = nil
	}
	return event{s, err}
}

func (e event) same(o event) bool {
	return kind(e.err) == kind(o.err) && (e.err != nil || e.snapshot.same(o.snapshot))
}

// kind numbers what an error tells a consumer, by its sentinel or its class.
func kind(err error) int {
	if err == nil {
		return 0
	}
	kinds := [...]error{
		ErrUnknownService, ErrClosed, transparency.ErrInvalid, transparency.ErrDenied, transparency.ErrRejected,
	}
	for i, k := range kinds {
		if errors.Is(err, k) {
			return i + 1
		}
	}
	return len(kinds) + 1 // unavailable
}
