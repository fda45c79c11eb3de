package location

import (
	"context"
	"iter"
	"time"
)

// Static is a Locator of endpoints that never change. The zero Static knows no
// service. It is safe for concurrent use.
type Static struct {
	services map[string]staticService
	err      error // why no service can be found
}

type staticService struct {
	snapshot Snapshot
	err      error
}

// NewStatic returns the Locator of these services, which it copies. A service
// without endpoints is known and empty. What can never work, a name or an
// endpoint, is an error of Resolve that wraps
// [github.com/go-transparency/transparency.ErrInvalid].
func NewStatic(services map[string][]Endpoint) *Static {
	s := &Static{services: make(map[string]staticService, len(services))}
	for service, endpoints := range services {
		name, err := CleanService(service)
		if err != nil {
			s.err = err
			continue
		}
		if _, ok := s.services[name]; ok {
			s.services[name] = staticService{err: invalid("the service is given twice, in two spellings")}
			continue
		}
		snapshot, err := NewSnapshot(endpoints, time.Time{})
		s.services[name] = staticService{snapshot, err}
	}
	return s
}

// Resolve implements [Locator]. The endpoints are as of now.
func (s *Static) Resolve(ctx context.Context, service string) (Snapshot, error) {
	name, err := CleanService(service)
	if err == nil {
		err = ctx.Err()
	}
	var found staticService
	if err == nil {
		found, err = s.find(name)
	}
	if err != nil {
		return found.snapshot, failed("resolve", name, err)
	}
	return found.snapshot, nil
}

func (s *Static) find(name string) (staticService, error) {
	switch {
	case s == nil:
		return staticService{}, errNotMade
	case s.err != nil:
		return staticService{}, s.err
	}
	found, ok := s.services[name]
	switch {
	case !ok:
		return staticService{}, ErrUnknownService
	case found.err != nil:
		return staticService{}, found.err
	}
	found.snapshot.asOf = time.Now()
	if found.snapshot.Len() == 0 {
		return found, ErrNoInstances
	}
	return found, nil
}

// Watch implements [Watcher]: there is one event, and then nothing to watch.
func (s *Static) Watch(ctx context.Context, service string) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		if e := lookUp(ctx, s, service); ctx.Err() == nil && yield(e.snapshot, e.err) {
			<-ctx.Done()
		}
	}
}
