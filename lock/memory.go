package lock

import (
	"context"
	"sync"
	"time"
)

// grace is how long a key that was handed over waits for its new owner.
const grace = 50 * time.Millisecond

// MemoryDriver is a store within the process. Several Lockers may share one,
// as processes share a Redis. The zero value is an empty store.
type MemoryDriver struct {
	mu    sync.Mutex // guards what follows
	keys  keyed[*memoryKey]
	sweep int                                // size at which those that expired are looked for
	fence uint64                             // the greatest given, for any key
	ears  map[string]map[*memoryEar]struct{} // by owner
}

type memoryKey struct {
	token   string
	expires time.Time
	line    []string // tokens that wait, first come first
}

type memoryEar struct{ wake func(key string) }

// NewMemoryDriver returns an empty store.
func NewMemoryDriver() *MemoryDriver {
	return &MemoryDriver{}
}

const minSweep = 1024

// Acquire implements [Driver].
func (d *MemoryDriver) Acquire(ctx context.Context, c Claim, queue bool) (Grant, error) {
	if err := ctx.Err(); err != nil {
		return Grant{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	k, ok := d.keys.get(c.Key)
	if !ok {
		d.clean(now)
		k = &memoryKey{}
		d.keys.put(c.Key, k)
	} else if k.token != c.Token && now.Before(k.expires) {
		if queue {
			k.enqueue(c.Token)
		}
		return Grant{Remaining: k.expires.Sub(now)}, nil
	}
	k.token, k.expires = c.Token, now.Add(c.TTL)
	k.dequeue(c.Token)
	// As in Redis: the time, so that fences rise although none is kept for a
	// key, and one more when the time does not.
	d.fence = max(d.fence+1, uint64(now.UnixMicro()))
	return Grant{Fence: d.fence}, nil
}

// Renew implements [Driver].
func (d *MemoryDriver) Renew(ctx context.Context, claims []Claim) []error {
	results := make([]error, len(claims))
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for i, c := range claims {
		k, ok := d.keys.get(c.Key)
		switch {
		case ctx.Err() != nil:
			results[i] = ctx.Err()
		case !ok || k.token != c.Token || !now.Before(k.expires):
			results[i] = ErrLost
		default:
			k.expires = now.Add(c.TTL)
		}
	}
	return results
}

// Release implements [Driver].
func (d *MemoryDriver) Release(ctx context.Context, key, token string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	owned, wake := d.release(key, token)
	for _, e := range wake {
		e.wake(key)
	}
	return owned, nil
}

func (d *MemoryDriver) release(key, token string) (owned bool, wake []*memoryEar) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, ok := d.keys.get(key)
	if !ok {
		return false, nil
	}
	now := time.Now()
	if k.token != token || !now.Before(k.expires) {
		k.dequeue(token)
		return false, nil
	}
	for len(k.line) > 0 {
		next := k.line[0]
		k.line = k.line[1:]
		for e := range d.ears[Owner(next)] {
			wake = append(wake, e)
		}
		if len(wake) > 0 { // else its owner is gone
			k.token, k.expires = next, now.Add(grace)
			return true, wake
		}
	}
	d.keys.drop(key)
	return true, nil
}

// Listen implements [Driver].
func (d *MemoryDriver) Listen(ctx context.Context, owner string, wake func(key string)) error {
	e := &memoryEar{wake}
	d.mu.Lock()
	if d.ears == nil {
		d.ears = make(map[string]map[*memoryEar]struct{})
	}
	if d.ears[owner] == nil {
		d.ears[owner] = make(map[*memoryEar]struct{})
	}
	d.ears[owner][e] = struct{}{}
	d.mu.Unlock()
	wake("")

	<-ctx.Done()
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.ears[owner], e); len(d.ears[owner]) == 0 {
		delete(d.ears, owner)
	}
	return ctx.Err()
}

func (k *memoryKey) enqueue(token string) {
	for _, t := range k.line {
		if t == token {
			return
		}
	}
	k.line = append(k.line, token)
}

func (k *memoryKey) dequeue(token string) {
	for i, t := range k.line {
		if t == token {
			k.line = append(k.line[:i:i], k.line[i+1:]...)
			return
		}
	}
}

// clean removes keys that expired without a release, each time that the keys
// have doubled, so that it costs little and leaves no more than twice what is
// in use. It requires d.mu.
func (d *MemoryDriver) clean(now time.Time) {
	if len(d.keys.m) < max(d.sweep, minSweep) {
		return
	}
	for key, k := range d.keys.m {
		if !now.Before(k.expires) {
			d.keys.drop(key)
		}
	}
	d.sweep = 2 * len(d.keys.m)
}
