package location

import (
	"context"
	"math/rand/v2"
	"net/url"
)

// A Locator turns the name of a service into the endpoints of its instances.
// It is safe for concurrent use.
type Locator interface {
	// Resolve returns the endpoints of service, at least one. What else there
	// is to say is an error: [ErrUnknownService] for a service that nobody has
	// heard of, [ErrNoInstances], with an empty Snapshot that has a time, for
	// one that is known and has none, and one of a class of the root package
	// when it cannot be told: ErrUnavailable when the source was not reached,
	// ErrDenied, ErrInvalid for a name that is none (see [CleanService]). When
	// ctx ends, Resolve returns at once, with the error of ctx.
	Resolve(ctx context.Context, service string) (Snapshot, error)
}

// URL returns the URL of one instance of service, chosen by weight among those
// of the first priority. The URL is the caller's to change. Errors are those
// of [Locator.Resolve].
//
// It looks the service up each time. A [Balancer] does not, and tells the
// busy from the idle.
func URL(ctx context.Context, l Locator, service string) (*url.URL, error) {
	s, err := resolve(ctx, l, service)
	if err != nil {
		return nil, err
	}
	if s.Len() == 0 {
		name, _ := CleanService(service)
		return nil, failed("url", name, ErrNoInstances)
	}
	return s.pick().URL(), nil
}

// resolve asks l, which may be nil.
func resolve(ctx context.Context, l Locator, service string) (Snapshot, error) {
	if l == nil {
		return Snapshot{}, failed("resolve", "", errNoLocator)
	}
	return l.Resolve(ctx, service)
}

var errNoLocator = invalid("the locator is nil")

// pick requires an endpoint.
func (s Snapshot) pick() Endpoint {
	first := s.firstTier()
	total := 0
	for _, e := range first {
		total += int(e.weight())
	}
	n := rand.IntN(total)
	for _, e := range first {
		if n -= int(e.weight()); n < 0 {
			return e
		}
	}
	return first[0] // not reached
}

// firstTier returns the endpoints of the first priority. It shares them.
func (s Snapshot) firstTier() []Endpoint {
	for i, e := range s.endpoints {
		if e.Priority != s.endpoints[0].Priority {
			return s.endpoints[:i]
		}
	}
	return s.endpoints
}

// Addrs returns a function that looks service up and returns the host:port of
// each instance, in the order of the snapshot. It is what other packages take
// for a source of addresses. Errors are those of [Locator.Resolve].
func Addrs(l Locator, service string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		s, err := resolve(ctx, l, service)
		if err != nil {
			return nil, err
		}
		addrs := make([]string, 0, s.Len())
		seen := make(map[string]bool, s.Len())
		for _, e := range s.endpoints {
			if addr := e.Addr(); !seen[addr] { // one place may have two schemes
				seen[addr] = true
				addrs = append(addrs, addr)
			}
		}
		return addrs, nil
	}
}
