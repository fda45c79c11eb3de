package lock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// grace is how long a key that was handed over waits for its new owner.
const grace = 50 * time.Millisecond

// MemoryDriver is a store within the process. Several Lockers may share one,
// as processes share a Redis. The zero value is an empty store.
type MemoryDriver struct {
	mu    sync.Mutex // guards what follows
	keys  keyed[slotName, *memoryKey]
	sweep int                                // size at which those that expired are looked for
	fence uint64                             // the greatest given, for any key
	ears  map[string]map[*memoryEar]struct{} // by owner
}

// A memoryKey is a lock, which is a semaphore of one permit here, or a
// semaphore.
type memoryKey struct {
	holds []memoryHold // those that expired go at the next look
	line  []memoryWait // first come first
	one   [1]memoryHold
}

type memoryHold struct {
	token, holder string
	expires       time.Time
	passing       bool // handed over
}

type memoryWait struct {
	token   string
	permits int // that it knows of
}

type memoryEar struct{ wake func(key string) }

// NewMemoryDriver returns an empty store.
func NewMemoryDriver() *MemoryDriver {
	return &MemoryDriver{}
}

const minSweep = 1024

// Acquire implements [Driver].
func (d *MemoryDriver) Acquire(ctx context.Context, c Claim, queue bool) (Grant, error) {
	if err := d.unusable(ctx); err != nil {
		return Grant{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	name := slotName{c.Key, c.Permits > 0}
	k, ok := d.keys.get(name)
	if !ok {
		d.clean(now)
		k = &memoryKey{}
		k.holds = k.one[:0]
		d.keys.put(name, k)
	}
	k.sweep(now)
	permits := max(c.Permits, 1)
	i := k.find(c.Token)
	if i < 0 && len(k.holds) >= permits {
		if queue {
			k.enqueue(memoryWait{c.Token, permits})
		}
		return k.refusal(permits, now), nil
	}
	if i < 0 {
		i = len(k.holds)
		k.holds = append(k.holds, memoryHold{})
	}
	k.holds[i] = memoryHold{token: c.Token, holder: c.Holder, expires: now.Add(c.TTL)}
	k.dequeue(c.Token)
	return Grant{Fence: d.mint(now)}, nil
}

// unusable returns why an operation cannot work.
func (d *MemoryDriver) unusable(ctx context.Context) error {
	if d == nil {
		return invalid("the MemoryDriver is nil")
	}
	return ctx.Err()
}

// mint returns a fence. As in Redis it is the time, so that fences rise
// although none is kept for a key, and one more when the time does not. It
// requires d.mu.
func (d *MemoryDriver) mint(now time.Time) uint64 {
	d.fence = max(d.fence+1, uint64(now.UnixMicro()))
	return d.fence
}

// Renew implements [Driver].
func (d *MemoryDriver) Renew(ctx context.Context, claims []Claim) []error {
	results := make([]error, len(claims))
	if err := d.unusable(ctx); err != nil {
		for i := range results {
			results[i] = err
		}
		return results
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for i, c := range claims {
		results[i] = ErrLost
		if k, ok := d.keys.get(slotName{c.Key, c.Permits > 0}); ok {
			if j := k.find(c.Token); j >= 0 && now.Before(k.holds[j].expires) {
				k.holds[j].expires = now.Add(c.TTL)
				results[i] = nil
			}
		}
	}
	return results
}

// Release implements [Driver].
func (d *MemoryDriver) Release(ctx context.Context, c Claim) (bool, error) {
	if err := d.unusable(ctx); err != nil {
		return false, err
	}
	owned, woken := d.release(c)
	for _, e := range woken {
		e.wake(c.Key)
	}
	return owned, nil
}

func (d *MemoryDriver) release(c Claim) (owned bool, woken []*memoryEar) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := slotName{c.Key, c.Permits > 0}
	k, ok := d.keys.get(name)
	if !ok {
		return false, nil
	}
	now := time.Now()
	k.sweep(now)
	k.dequeue(c.Token)
	i := k.find(c.Token)
	if i < 0 {
		return false, nil
	}
	k.holds = slices.Delete(k.holds, i, i+1)
	return true, d.handOver(name, k, now)
}

// Break implements [Driver].
func (d *MemoryDriver) Break(ctx context.Context, key string) (uint64, error) {
	if err := d.unusable(ctx); err != nil {
		return 0, err
	}
	fence, woken := d.breakLock(key)
	for _, e := range woken {
		e.wake(key)
	}
	return fence, nil
}

func (d *MemoryDriver) breakLock(key string) (fence uint64, woken []*memoryEar) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	fence = d.mint(now)
	name := slotName{key, false}
	if k, ok := d.keys.get(name); ok {
		k.holds = k.holds[:0]
		woken = d.handOver(name, k, now)
	}
	return fence, woken
}

// handOver gives what is free to the first in line for whom it is, and returns
// whom to wake. It requires d.mu.
func (d *MemoryDriver) handOver(name slotName, k *memoryKey, now time.Time) (woken []*memoryEar) {
	k.line = slices.DeleteFunc(k.line, func(w memoryWait) bool {
		if len(k.holds) >= w.permits {
			return false
		}
		ears := d.ears[Owner(w.token)]
		for e := range ears {
			woken = append(woken, e)
		}
		if len(ears) > 0 { // else its owner is gone
			k.holds = append(k.holds, memoryHold{token: w.token, expires: now.Add(grace), passing: true})
		}
		return true
	})
	if len(k.holds) == 0 {
		d.keys.drop(name)
	}
	return woken
}

// Listen implements [Driver].
func (d *MemoryDriver) Listen(ctx context.Context, owner string, wake func(key string)) error {
	if err := d.unusable(ctx); err != nil {
		return err
	}
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

// sweep takes out what has expired.
func (k *memoryKey) sweep(now time.Time) {
	k.holds = slices.DeleteFunc(k.holds, func(h memoryHold) bool { return !now.Before(h.expires) })
}

func (k *memoryKey) find(token string) int {
	return slices.IndexFunc(k.holds, func(h memoryHold) bool { return h.token == token })
}

// refusal is for one who knows of so many permits, which are all held.
func (k *memoryKey) refusal(permits int, now time.Time) Grant {
	holds := k.holds
	if len(holds) > 1 {
		holds = slices.SortedFunc(slices.Values(holds), func(a, b memoryHold) int { return a.expires.Compare(b.expires) })
	}
	last := holds[len(holds)-permits]
	return Grant{Remaining: last.expires.Sub(now), Holder: last.holder, Passing: last.passing}
}

func (k *memoryKey) enqueue(w memoryWait) {
	if !slices.ContainsFunc(k.line, func(in memoryWait) bool { return in.token == w.token }) {
		k.line = append(k.line, w)
	}
}

func (k *memoryKey) dequeue(token string) {
	k.line = slices.DeleteFunc(k.line, func(w memoryWait) bool { return w.token == token })
}

// clean removes keys that expired without a release, each time that the keys
// have doubled, so that it costs little and leaves no more than twice what is
// in use. It requires d.mu.
func (d *MemoryDriver) clean(now time.Time) {
	if len(d.keys.m) < max(d.sweep, minSweep) {
		return
	}
	for name, k := range d.keys.m {
		if k.sweep(now); len(k.holds) == 0 {
			d.keys.drop(name)
		}
	}
	d.sweep = 2 * len(d.keys.m)
}
