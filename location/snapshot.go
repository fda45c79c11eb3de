package location

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"
)

// A Snapshot is the whole set of a service's endpoints at one time. It never
// changes, and what it gives away shares nothing with it. The zero Snapshot is
// empty.
//
// The endpoints are sorted, by priority, then by ID. No two have the same ID,
// or the same scheme, host and port.
type Snapshot struct {
	endpoints []Endpoint
	asOf      time.Time
	stale     bool
}

// NewSnapshot returns the snapshot of these endpoints, for a [Locator] of your
// own. It sorts and completes them, and keeps the first of those that have the
// same scheme, host and port. asOf is when the source said so. Errors wrap
// [github.com/go-transparency/transparency.ErrInvalid]: an endpoint that cannot
// be one, or one ID for two places.
func NewSnapshot(endpoints []Endpoint, asOf time.Time) (Snapshot, error) {
	all := make([]Endpoint, 0, len(endpoints))
	for i, e := range endpoints {
		e, err := e.checked()
		if err != nil {
			return Snapshot{}, &itemError{i + 1, err}
		}
		all = append(all, e)
	}
	all, err := arrange(all)
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{endpoints: all, asOf: asOf}, nil
}

// arrange gives the endpoints, which are checked, their order and their IDs.
func arrange(all []Endpoint) ([]Endpoint, error) {
	for i := range all {
		if all[i].ID == "" {
			all[i].ID = all[i].Addr()
			if s := all[i].Scheme; s != "http" {
				all[i].ID = s + "://" + all[i].ID
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID))
	})
	type place struct {
		scheme, host string
		port         uint16
	}
	ids := make(map[string]place, len(all))
	places := make(map[place]bool, len(all))
	kept := all[:0]
	for _, e := range all {
		p := place{e.Scheme, e.Host, e.Port}
		if other, ok := ids[e.ID]; ok && other != p {
			return nil, invalid("two endpoints have the id %q", e.ID)
		}
		ids[e.ID] = p
		if !places[p] {
			places[p] = true
			kept = append(kept, e)
		}
	}
	return slices.Clip(kept), nil
}

// AsStale returns the snapshot marked as stale.
func (s Snapshot) AsStale() Snapshot {
	s.stale = true
	return s
}

// Len returns the number of endpoints.
func (s Snapshot) Len() int { return len(s.endpoints) }

// At returns endpoint i. It panics when i is not in [0, Len()).
func (s Snapshot) At(i int) Endpoint { return s.endpoints[i].clone() }

// All returns the endpoints in order.
func (s Snapshot) All() iter.Seq[Endpoint] {
	return func(yield func(Endpoint) bool) {
		for _, e := range s.endpoints {
			if !yield(e.clone()) {
				return
			}
		}
	}
}

// AsOf returns when the source last said that these are the endpoints, by the
// clock of this process; time.Since is the snapshot's age. It is zero in the
// zero Snapshot.
func (s Snapshot) AsOf() time.Time { return s.asOf }

// Stale reports whether the snapshot is the last that was known, because the
// source does not answer or has lost what it knew.
func (s Snapshot) Stale() bool { return s.stale }

// String returns the number of endpoints and the age of what is stale.
func (s Snapshot) String() string {
	if s.stale {
		return fmt.Sprintf("%d endpoints, stale, as of %s", len(s.endpoints), s.asOf.Format(time.RFC3339))
	}
	return fmt.Sprintf("%d endpoints", len(s.endpoints))
}

// GoString is String.
func (s Snapshot) GoString() string { return "location.Snapshot{" + s.String() + "}" }

// same reports whether a consumer has nothing new to learn from o.
func (s Snapshot) same(o Snapshot) bool {
	return s.stale == o.stale && slices.EqualFunc(s.endpoints, o.endpoints, Endpoint.equal)
}
