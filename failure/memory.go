package failure

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// MemoryDriver is a store within the process, for tests and for several
// breakers of one program. The zero value is an empty store.
type MemoryDriver struct {
	mu       sync.Mutex // guards what follows
	breakers map[string]*memoryBreaker
	ears     map[string]map[*memoryEar]struct{} // by name
}

type memoryBreaker struct {
	gen       uint64
	open      bool
	until     time.Time
	reopened  int
	prober    string
	probing   time.Time            // until
	forgotten time.Time            // when gen and open are
	live      map[string]time.Time // until
	votes     map[string]time.Time
}

type memoryEar struct{ wake func() }

// NewMemoryDriver returns an empty store.
func NewMemoryDriver() *MemoryDriver { return &MemoryDriver{} }

var errNilDriver = invalid("the driver is nil")

// keep is how long a store knows the last generation of a breaker after its
// open time.
const keep = time.Hour

// Exchange implements [Driver].
func (d *MemoryDriver) Exchange(ctx context.Context, name string, r Report) (View, error) {
	if d == nil {
		return View{}, failed("exchange", name, errNilDriver)
	}
	if err := ctx.Err(); err != nil {
		return View{}, err
	}
	view, ears := d.exchange(name, r)
	for _, e := range ears {
		e.wake()
	}
	return view, nil
}

func (d *MemoryDriver) exchange(name string, r Report) (v View, ears []*memoryEar) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	k := d.breakers[name]
	if k == nil {
		k = &memoryBreaker{live: make(map[string]time.Time), votes: make(map[string]time.Time)}
		if d.breakers == nil {
			d.breakers = make(map[string]*memoryBreaker)
		}
		d.breakers[name] = k
	}
	if !now.Before(k.forgotten) {
		k.gen, k.open = 0, false
	}
	before := k.gen
	k.settle(now, r)
	k.elect(now, r)
	if k.open && k.gen == r.Gen && r.Probe > 0 && !now.Before(k.until) &&
		(k.prober == r.Instance || !now.Before(k.probing)) {
		k.prober, k.probing = r.Instance, now.Add(r.Probe)
	}
	if k.gen != before {
		k.forgotten = now.Add(max(k.until.Sub(now), 0) + keep)
		for e := range d.ears[name] {
			ears = append(ears, e)
		}
	}
	v = View{Gen: k.gen, Open: k.open, Live: len(k.live), Votes: len(k.votes)}
	if k.open {
		v.Remaining = max(k.until.Sub(now), 0)
		v.Probing = max(k.probing.Sub(now), 0)
		v.Granted = v.Probing > 0 && k.prober == r.Instance
	}
	return v, ears
}

// settle applies a verdict.
func (k *memoryBreaker) settle(now time.Time, r Report) {
	if !k.open || k.gen != r.Gen || k.prober != r.Instance {
		return
	}
	switch r.Verdict {
	case Close:
		k.begin(now, r.Gen)
		k.open, k.until = false, now
	case Reopen:
		k.reopened++
		d := r.OpenFor
		for range min(k.reopened, 62) {
			d = min(2*d, r.MaxOpenFor)
		}
		k.begin(now, r.Gen)
		k.until = now.Add(d)
	}
}

// elect counts the living and their votes.
func (k *memoryBreaker) elect(now time.Time, r Report) {
	for _, m := range []map[string]time.Time{k.live, k.votes} {
		delete(m, r.Instance)
		for instance, until := range m {
			if !now.Before(until) {
				delete(m, instance)
			}
		}
	}
	k.live[r.Instance] = now.Add(r.TTL)
	if r.Vote {
		k.votes[r.Instance] = now.Add(r.TTL)
	}
	if n := len(k.votes); !k.open && n > 0 && n >= r.Quorum && float64(n) >= r.QuorumRatio*float64(len(k.live))-1e-9 {
		k.begin(now, r.Gen)
		k.open, k.reopened, k.until = true, 0, now.Add(r.OpenFor)
		clear(k.votes)
	}
}

// begin begins a generation: the time, as in Redis, or one more where the time
// is no greater.
func (k *memoryBreaker) begin(now time.Time, known uint64) {
	k.gen = max(k.gen+1, known+1, uint64(now.UnixMicro())) //nolint:gosec // after 1970
	k.prober, k.probing = "", time.Time{}
}

// Listen implements [Driver].
func (d *MemoryDriver) Listen(ctx context.Context, name string, wake func()) error {
	if d == nil {
		return failed("listen", name, errNilDriver)
	}
	e := &memoryEar{wake}
	d.mu.Lock()
	if d.ears == nil {
		d.ears = make(map[string]map[*memoryEar]struct{})
	}
	if d.ears[name] == nil {
		d.ears[name] = make(map[*memoryEar]struct{})
	}
	d.ears[name][e] = struct{}{}
	d.mu.Unlock()
	wake()

	<-ctx.Done()
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.ears[name], e); len(d.ears[name]) == 0 {
		delete(d.ears, name)
	}
	return ctx.Err()
}

// String says how many breakers there are.
func (d *MemoryDriver) String() string {
	if d == nil {
		return "failure.MemoryDriver(nil)"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprintf("failure.MemoryDriver(%d breakers)", len(d.breakers))
}
