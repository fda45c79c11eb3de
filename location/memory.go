package location

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// knownFor is how long a service is remembered whose instances are gone.
	knownFor = 7 * 24 * time.Hour
	// goneFor is how long a token that was deregistered is remembered, which
	// is longer than a command that was given up can be on its way.
	goneFor = 10 * time.Minute
)

// MemoryDriver is a store within the process. Several Registries may share
// one, as processes share a Redis. The zero value is not ready; see
// [NewMemoryDriver].
type MemoryDriver struct {
	mu       sync.Mutex // guards what follows
	services map[string]*memoryService
	epochs   int
	ears     map[*memoryEar]struct{}
}

type memoryService struct {
	epoch      string
	generation uint64
	used       time.Time
	emptied    bool
	void       time.Time
	instances  map[string]memoryInstance
	earliest   time.Time            // no lease runs out before
	gone       map[string]time.Time // tokens, by when they are forgotten
}

type memoryInstance struct {
	Instance
	expires time.Time
}

type memoryEar struct{ wake func(service string) }

// NewMemoryDriver returns an empty store.
func NewMemoryDriver() *MemoryDriver {
	return &MemoryDriver{services: make(map[string]*memoryService), ears: make(map[*memoryEar]struct{})}
}

// made reports whether NewMemoryDriver made d.
func (d *MemoryDriver) made() bool { return d != nil && d.services != nil }

// Register implements [Driver].
func (d *MemoryDriver) Register(ctx context.Context, service string, in Instance, takeover bool) error {
	return d.do(ctx, service, func(s *memoryService, now time.Time) (bool, error) {
		old, ok := s.instances[in.Endpoint.ID]
		held := ok && now.Before(old.expires) && old.Token != in.Token
		if now.Before(s.gone[in.Token]) || held && !takeover {
			return false, ErrInstanceConflict
		}
		if held {
			s.gone[old.Token] = now.Add(goneFor)
		}
		same := ok && now.Before(old.expires) && old.Token == in.Token && old.Endpoint.equal(in.Endpoint)
		if s.prune(now); s.epoch != "" && len(s.instances) == 0 && !s.emptied {
			s.void = now
		}
		in.Endpoint = in.Endpoint.clone()
		expires := now.Add(in.TTL)
		if len(s.instances) == 0 || expires.Before(s.earliest) {
			s.earliest = expires
		}
		s.instances[in.Endpoint.ID] = memoryInstance{in, expires}
		s.emptied = false
		return !same, nil
	})
}

// Renew implements [Driver].
func (d *MemoryDriver) Renew(ctx context.Context, service string, in Instance) error {
	return d.do(ctx, service, func(s *memoryService, now time.Time) (bool, error) {
		old, ok := s.instances[in.Endpoint.ID]
		live := ok && now.Before(old.expires)
		switch {
		case now.Before(s.gone[in.Token]), live && old.Token != in.Token:
			return false, ErrInstanceConflict
		case !live:
			return false, ErrLost
		}
		old.expires = now.Add(in.TTL)
		if old.expires.Before(s.earliest) {
			s.earliest = old.expires
		}
		s.instances[in.Endpoint.ID] = old
		return s.prune(now), nil
	})
}

// Deregister implements [Driver].
func (d *MemoryDriver) Deregister(ctx context.Context, service string, in Instance) error {
	return d.do(ctx, service, func(s *memoryService, now time.Time) (bool, error) {
		s.gone[in.Token] = now.Add(goneFor)
		old, ok := s.instances[in.Endpoint.ID]
		if !ok || old.Token != in.Token {
			return false, nil
		}
		delete(s.instances, in.Endpoint.ID)
		s.prune(now)
		s.emptied = len(s.instances) == 0
		return true, nil
	})
}

// do runs one step on a service, and tells of it if it changed the endpoints.
func (d *MemoryDriver) do(ctx context.Context, service string, step func(*memoryService, time.Time) (bool, error)) error {
	if !d.made() {
		return errNotMade
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	now := time.Now()
	s := d.services[service]
	if s == nil {
		s = &memoryService{instances: make(map[string]memoryInstance), gone: make(map[string]time.Time)}
	}
	news, err := step(s, now)
	if len(s.instances) > 0 {
		d.keep(service, s, now)
	} else if s.epoch == "" && len(s.gone) > 0 {
		d.services[service] = s // not known, but its dead are
	}
	var ears []*memoryEar
	if news {
		s.generation++
		ears = slices.Collect(maps.Keys(d.ears))
	}
	d.mu.Unlock()
	for _, e := range ears {
		e.wake(service)
	}
	return err
}

// keep makes the service known from now on, and forgets those that nobody
// used for long. It requires d.mu.
func (d *MemoryDriver) keep(service string, s *memoryService, now time.Time) {
	if s.epoch == "" {
		for name, o := range d.services {
			if now.Sub(o.used) >= knownFor {
				delete(d.services, name)
			}
		}
		d.epochs++
		s.epoch = strconv.Itoa(d.epochs)
		d.services[service] = s
	}
	s.used = now
}

// prune removes what has expired, and reports whether anything had.
func (s *memoryService) prune(now time.Time) bool {
	if now.Before(s.earliest) {
		return false
	}
	maps.DeleteFunc(s.gone, func(_ string, until time.Time) bool { return !now.Before(until) })
	before := len(s.instances)
	s.earliest = now.Add(MaxTTL)
	maps.DeleteFunc(s.instances, func(_ string, in memoryInstance) bool {
		if in.expires.Before(s.earliest) && now.Before(in.expires) {
			s.earliest = in.expires
		}
		return !now.Before(in.expires)
	})
	return len(s.instances) < before
}

// List implements [Driver].
func (d *MemoryDriver) List(ctx context.Context, service, known string) (Listing, error) {
	if !d.made() {
		return Listing{}, errNotMade
	}
	if err := ctx.Err(); err != nil {
		return Listing{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	s := d.services[service]
	if s == nil || s.epoch == "" || now.Sub(s.used) >= knownFor {
		return Listing{}, nil
	}
	l := Listing{Known: true, Epoch: s.epoch}
	for _, in := range s.instances {
		if now.Before(in.expires) {
			l.Endpoints = append(l.Endpoints, in.Endpoint.clone())
		}
	}
	l.Emptied = s.emptied && len(l.Endpoints) == 0
	if !s.void.IsZero() {
		l.SinceVoid = max(now.Sub(s.void), 1)
	}
	l.Version = fmt.Sprintf("%s/%d/%d", s.epoch, s.generation, len(l.Endpoints))
	if l.Version == known {
		l.Same, l.Endpoints = true, nil
	}
	return l, nil
}

// Listen implements [Driver].
func (d *MemoryDriver) Listen(ctx context.Context, wake func(service string)) error {
	if !d.made() {
		return errNotMade
	}
	e := &memoryEar{wake}
	d.mu.Lock()
	d.ears[e] = struct{}{}
	d.mu.Unlock()
	wake("")
	<-ctx.Done()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ears, e)
	return ctx.Err()
}

// Clear loses all that the store knows, as a Redis does that is started again
// and kept nothing.
func (d *MemoryDriver) Clear() {
	if !d.made() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.services)
}

// String says how many services there are.
func (d *MemoryDriver) String() string {
	if !d.made() {
		return "location.MemoryDriver(not made)"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprintf("location.MemoryDriver(%d services)", len(d.services))
}
