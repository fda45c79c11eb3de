package location

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/go-transparency/transparency"
)

// DefaultWatched bounds the services that a Balancer watches.
const DefaultWatched = 256

// BalancerOptions configures a [Balancer]. Nil is fine.
type BalancerOptions struct {
	// MaxServices bounds the services that are watched at one time. Zero means
	// [DefaultWatched]. One that was not picked from lately gives way to a new
	// one.
	MaxServices int
}

// A Balancer spreads calls over the instances of services. It watches each
// service that is picked from, so that [Balancer.Pick] asks nobody. It is safe
// for concurrent use.
//
// Of the instances of the first priority it draws two, by weight, and picks
// the one with fewer calls under way for its weight: the power of two choices
// (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", IEEE
// TPDS 2001). With one call at a time the shares are those of the weights.
//
// An instance whose calls fail answers fast and would draw all load, so it
// sits out: the pick goes to the other one drawn, 8 times after a first
// failure, twice as often after each more, up to 1024 times, and then it is
// tried again. A success makes it like any other. When both that were drawn
// sit out one of them is picked all the same: a Balancer with instances never
// refuses.
type Balancer struct {
	locator Locator
	max     int
	err     error // why no operation can work

	ctx    context.Context // of the watches
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	targets atomic.Pointer[map[string]*target] // by clean name; copied on change

	mu     sync.Mutex // guards the changing of targets, and what follows
	closed bool
	order  []*target // whose turn it is to give way
}

// NewBalancer returns a Balancer over l, which stays the caller's. Watches are
// started by Pick and ended by Close.
func NewBalancer(l Locator, opts *BalancerOptions) *Balancer {
	b := &Balancer{locator: l, max: DefaultWatched}
	if opts != nil && opts.MaxServices != 0 {
		b.max = opts.MaxServices
	}
	switch {
	case l == nil:
		b.err = errNoLocator
	case b.max < 0:
		b.err = invalid("MaxServices is %d, and watches need a bound", b.max)
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.targets.Store(new(map[string]*target))
	return b
}

// A target is one service that is watched.
type target struct {
	service string
	cancel  context.CancelFunc
	used    atomic.Bool // since it was last asked to give way
	ready   chan struct{}
	state   atomic.Pointer[choice] // nil before ready
}

// Pick returns an instance of service. The first Pick of a service waits until
// the service has been looked up, or ctx ends; later ones do not wait. Errors
// are those of [Locator.Resolve], and [ErrClosed].
//
// Done of what was picked must be called once, when the call is over.
func (b *Balancer) Pick(ctx context.Context, service string) (Picked, error) {
	if !b.made() {
		return Picked{}, failed("pick", "", errNotMade)
	}
	if t, ok := (*b.targets.Load())[service]; ok {
		if c := t.state.Load(); c != nil && len(c.nodes) > 0 && ctx.Err() == nil {
			t.use()
			return c.pick(), nil
		}
	}
	name, err := CleanService(service)
	if err != nil {
		return Picked{}, failed("pick", "", err)
	}
	c, err := b.await(ctx, name)
	if err == nil {
		err = c.err
	}
	if err != nil {
		return Picked{}, failed("pick", name, err)
	}
	return c.pick(), nil
}

// made reports whether NewBalancer made b.
func (b *Balancer) made() bool { return b != nil && b.cancel != nil }

func (t *target) use() {
	if !t.used.Load() { // so that it is not written each time
		t.used.Store(true)
	}
}

// await returns the choice there is for a service, watching it if it is not
// watched.
func (b *Balancer) await(ctx context.Context, name string) (*choice, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, err := b.target(name)
	if err != nil {
		return nil, err
	}
	t.use()
	select {
	case <-t.ready:
		return t.state.Load(), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: not looked up yet: %w", transparency.ErrUnavailable, ctx.Err())
	case <-b.ctx.Done():
		return nil, ErrClosed
	}
}

func (b *Balancer) target(name string) (*target, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.err != nil:
		return nil, b.err
	case b.closed:
		return nil, ErrClosed
	}
	old := *b.targets.Load()
	if t, ok := old[name]; ok {
		return t, nil
	}
	targets := maps.Clone(old)
	if targets == nil {
		targets = make(map[string]*target)
	}
	if len(targets) >= b.max {
		b.giveWay(targets)
	}
	ctx, cancel := context.WithCancel(b.ctx)
	t := &target{service: name, cancel: cancel, ready: make(chan struct{})}
	t.used.Store(true)
	targets[name] = t
	b.order = append(b.order, t)
	b.targets.Store(&targets)
	b.tasks.Add(1)
	go b.follow(ctx, t)
	return t, nil
}

// giveWay takes the first target out that was not used since it was last
// considered: the clock algorithm. It requires b.mu and that there is one.
func (b *Balancer) giveWay(targets map[string]*target) {
	for {
		t := b.order[0]
		b.order = b.order[1:]
		if t.used.Swap(false) {
			b.order = append(b.order, t)
			continue
		}
		delete(targets, t.service)
		t.cancel()
		return
	}
}

// drop takes out a target that is of no use.
func (b *Balancer) drop(t *target) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.cancel()
	old := *b.targets.Load()
	if old[t.service] != t {
		return
	}
	targets := maps.Clone(old)
	delete(targets, t.service)
	b.targets.Store(&targets)
	for i, o := range b.order {
		if o == t {
			b.order = append(b.order[:i:i], b.order[i+1:]...)
			break
		}
	}
}

// follow keeps the choice of a target. A service that is unknown is not
// watched, or anyone who makes up names could fill the Balancer.
func (b *Balancer) follow(ctx context.Context, t *target) {
	defer b.tasks.Done()
	defer t.cancel()
	for s, err := range Watch(ctx, b.locator, t.service) {
		last := t.state.Load()
		t.state.Store(newChoice(last, s, err))
		if last == nil {
			close(t.ready)
		}
		if errors.Is(err, ErrUnknownService) {
			b.drop(t)
			return
		}
	}
	// A watch ends with its context, and that of a faulty Locator earlier.
	if t.state.Load() == nil {
		t.state.Store(&choice{err: fmt.Errorf("%w: the watch has ended", transparency.ErrUnavailable)})
		close(t.ready)
	}
	b.drop(t)
}

// Close ends all watches and returns when they have ended. Every later Pick
// gets [ErrClosed]; what was picked can still be used. The error is always
// nil.
func (b *Balancer) Close() error {
	if !b.made() {
		return nil
	}
	b.mu.Lock()
	b.closed = true
	b.order = nil
	b.targets.Store(new(map[string]*target))
	b.mu.Unlock()
	b.cancel()
	b.tasks.Wait()
	return nil
}
