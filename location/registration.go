package location

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// State is what a [Registration] believes of its instance.
type State uint8

// The states. The first two come and go; the others are the last.
const (
	// StateRegistered: the registry has confirmed the instance, within its TTL.
	StateRegistered State = iota + 1
	// StateLost: the registry must have dropped the instance, or said so. It
	// is being registered again.
	StateLost
	// StateReplaced: another has the instance's id. It is not asked for again.
	StateReplaced
	// StateDeregistered: Deregister or the Registry's Close was called.
	StateDeregistered
)

var stateNames = [...]string{"unknown", "registered", "lost", "replaced", "deregistered"}

// String returns the state in lower case.
func (s State) String() string {
	if int(s) >= len(stateNames) {
		s = 0
	}
	return stateNames[s]
}

func (s State) last() bool { return s == StateReplaced || s == StateDeregistered || s == 0 }

// A Change is a state that a [Registration] came into. Registered after Lost is
// how it was restored.
type Change struct {
	State State
	At    time.Time
	// Err is why, and nil for StateRegistered. It wraps [ErrLost],
	// [ErrInstanceConflict] or [ErrDeregistered].
	Err error
}

// A Registration is an instance that is kept registered. It is safe for
// concurrent use.
type Registration struct {
	r        *Registry
	service  string
	endpoint Endpoint
	ttl      time.Duration
	token    *string // behind a pointer, because fmt prints the strings in unexported fields

	ctx    context.Context // of the loop
	cancel context.CancelFunc
	lost   atomic.Bool // state == StateLost

	mu       sync.Mutex // guards what follows
	now      *link
	valid    time.Time // until when the registry has the instance for certain
	trouble  error     // of the last heartbeat
	timer    *time.Timer
	released bool // the registry has confirmed the deregistration
}

// A link is a change and, once done is closed, the next. Who follows them holds
// the one it has seen, so nothing is lost on the slow and nothing is kept for
// the absent.
type link struct {
	Change
	next *link
	done chan struct{}
}

// supervise starts the loop of an instance that is registered since an attempt
// that was sent then.
func (r *Registry) supervise(service string, in Instance, sent time.Time) *Registration {
	g := &Registration{
		r: r, service: service, endpoint: in.Endpoint, ttl: in.TTL, token: &in.Token,
		valid: sent.Add(in.TTL),
	}
	g.ctx, g.cancel = context.WithCancel(r.ctx)
	g.now = &link{Change: Change{State: StateRegistered, At: time.Now()}, done: make(chan struct{})}
	g.timer = time.AfterFunc(time.Until(g.valid), g.expire)
	r.mu.Lock()
	r.regs[g] = struct{}{}
	r.tasks.Add(1)
	r.wakeService(service)
	r.mu.Unlock()
	go g.keep()
	return g
}

func (g *Registration) instance() Instance { return Instance{g.endpoint, *g.token, g.ttl} }

// keep sends heartbeats until the registration ends. The first comes anywhere
// within the interval, so that instances that were started together are not
// heard from together.
func (g *Registration) keep() {
	defer g.r.tasks.Done()
	interval := g.ttl / 3
	timer := time.NewTimer(rand.N(interval) + 1)
	defer timer.Stop()
	for failures := 0; ; {
		select {
		case <-timer.C:
		case <-g.ctx.Done():
			return
		}
		wait := interval*9/10 + rand.N(interval/5)
		if err := g.beat(); err == nil {
			failures = 0
		} else if failures++; failures <= quickRetries {
			wait = retryPolicy(g.ttl).Delay(failures - 1)
		}
		timer.Reset(wait)
	}
}

// quickRetries is how many heartbeats that failed are tried again sooner than
// the next would come. After that the outage is a long one, and the ordinary
// pace is the one at which instances that come back are the best spread.
const quickRetries = 5

// beat renews the lease, or makes it again.
func (g *Registration) beat() error {
	ctx, cancel := context.WithTimeout(g.ctx, min(g.r.opts.Timeout, max(g.ttl/3, MinTTL)))
	defer cancel()
	sent := time.Now()
	err := g.r.driver.Renew(ctx, g.service, g.instance())
	again := errors.Is(err, ErrLost)
	if again {
		g.lose(fmt.Errorf("%w: the registry does not know the instance any more", ErrLost))
		sent = time.Now()
		// Never a takeover: who has the id now came later.
		err = g.r.driver.Register(ctx, g.service, g.instance(), false)
	}
	err = changed(ours(ctx, err))
	g.r.countBeat(again, err)
	switch {
	case g.ctx.Err() != nil:
		return nil
	case errors.Is(err, ErrInstanceConflict):
		g.end(StateReplaced, err)
	case err != nil:
		g.mu.Lock()
		g.trouble = err
		g.mu.Unlock()
		g.r.opts.Logger.Debug("location: heartbeat failed", "service", g.service, "instance", g.endpoint.ID, "error", err)
		return err
	default:
		g.confirm(sent)
	}
	return nil
}

func (r *Registry) countBeat(again bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.stats.RenewalsFailed++
	case again:
		r.stats.Reregistered++
	default:
		r.stats.Renewed++
	}
}

// confirm takes note of a heartbeat that was sent then and answered.
func (g *Registration) confirm(sent time.Time) {
	g.mu.Lock()
	if g.now.State.last() {
		g.mu.Unlock()
		return
	}
	g.valid, g.trouble = sent.Add(g.ttl), nil
	g.timer.Reset(time.Until(g.valid))
	restored := g.now.State == StateLost
	if restored {
		g.change(StateRegistered, nil)
	}
	g.mu.Unlock() // a Logger may do what it likes
	if restored {
		g.r.opts.Logger.Info("location: registration restored", "service", g.service, "instance", g.endpoint.ID)
	}
}

// expire says that the registration is lost when its time has passed without
// an answer.
func (g *Registration) expire() {
	g.mu.Lock()
	due := !time.Now().Before(g.valid)
	err := ErrLost
	if g.trouble != nil {
		err = fmt.Errorf("%w: %w", ErrLost, g.trouble)
	}
	g.mu.Unlock()
	if due {
		g.lose(err)
	}
}

func (g *Registration) lose(err error) {
	g.mu.Lock()
	had := g.now.State == StateRegistered
	if had {
		g.change(StateLost, err)
	}
	g.mu.Unlock()
	if had {
		g.r.opts.Logger.Warn("location: registration lost", "service", g.service, "instance", g.endpoint.ID, "error", err)
	}
}

// end brings the registration into a last state, if it is in none.
func (g *Registration) end(s State, err error) {
	g.mu.Lock()
	if !g.now.State.last() {
		g.change(s, err)
	}
	g.timer.Stop()
	g.mu.Unlock()
	g.cancel()
	g.r.mu.Lock()
	delete(g.r.regs, g)
	g.r.mu.Unlock()
}

// change requires g.mu.
func (g *Registration) change(s State, err error) {
	g.lost.Store(s == StateLost)
	next := &link{Change: Change{State: s, At: time.Now(), Err: err}, done: make(chan struct{})}
	g.now.next = next
	close(g.now.done)
	g.now = next
}

// made reports whether Register made g. What nobody made is in no state, for
// ever.
func (g *Registration) made() bool { return g != nil && g.r != nil }

func (g *Registration) present() *link {
	if !g.made() {
		return &link{Change: Change{Err: errNotMade}}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now
}

// Service returns the service's name.
func (g *Registration) Service() string {
	if !g.made() {
		return ""
	}
	return g.service
}

// Endpoint returns the endpoint as it is registered, with its ID.
func (g *Registration) Endpoint() Endpoint {
	if !g.made() {
		return Endpoint{}
	}
	return g.endpoint.clone()
}

// State returns the present state.
func (g *Registration) State() State { return g.present().State }

// Err returns nil while the instance is registered, and else why it is not:
// [ErrLost], [ErrInstanceConflict] or [ErrDeregistered], with its cause.
func (g *Registration) Err() error { return g.present().Err }

// Changes returns the present state and every change after it, in order and
// none left out, until ctx ends or the state is a last one.
func (g *Registration) Changes(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		for l := g.present(); ctx.Err() == nil && yield(l.Change) && !l.State.last(); {
			select {
			case <-l.done:
				l = l.next
			case <-ctx.Done():
				return
			}
		}
	}
}

// WaitVisible returns nil when a look into the registry finds the instance, or
// another at the same place, such as the former self of one that crashed. It
// returns the error of ctx when that ends first, and that of the registration
// when it ends. Those who watch the service elsewhere see the instance within
// their poll interval.
func (g *Registration) WaitVisible(ctx context.Context) error {
	if !g.made() {
		return failed("wait for", "", errNotMade)
	}
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	var last error
	for s, err := range g.r.Watch(watch, g.service) {
		last = err
		for _, e := range s.endpoints {
			if !s.stale && (e.ID == g.endpoint.ID || e.samePlace(g.endpoint)) {
				return nil
			}
		}
	}
	err := ctx.Err()
	switch {
	case err == nil:
		if err = g.Err(); err == nil {
			err = ErrClosed // or about to be
		}
	case last != nil:
		err = fmt.Errorf("%w: %w", last, err)
	}
	return failed("wait for", g.service, err)
}

// Deregister ends the registration and takes the instance out of the registry,
// if it is still this registration's. It is idempotent. When the registry
// cannot be reached it returns within the Timeout, or when ctx ends, with an
// error that wraps ErrUnavailable or ErrUncertain of the root package, or just
// that of a ctx that had ended before: the Registry then tries on in the
// background until the instance's TTL has passed, and Deregister can be called
// again.
func (g *Registration) Deregister(ctx context.Context) error {
	if err := g.deregister(ctx); err != nil {
		return failed("deregister", g.Service(), err)
	}
	return nil
}

func (g *Registration) deregister(ctx context.Context) error {
	if !g.made() {
		return errNotMade
	}
	g.end(StateDeregistered, ErrDeregistered)
	g.mu.Lock()
	nothing := g.released || g.now.State == StateReplaced
	g.mu.Unlock()
	if nothing {
		return nil
	}
	err := changed(g.r.driver.Deregister(ctx, g.service, g.instance()))
	if err == nil {
		g.mu.Lock()
		g.released = true
		g.mu.Unlock()
	}
	g.r.mu.Lock()
	defer g.r.mu.Unlock()
	if err == nil {
		g.r.wakeService(g.service)
	} else if !isFinal(err) && !g.r.closed {
		g.r.undo(g.service, g.instance())
	}
	return err
}

// Format prints the registration, for every verb, without its token.
func (g *Registration) Format(s fmt.State, _ rune) {
	e := g.Endpoint()
	fmt.Fprintf(s, "location.Registration{%q %q %v, %v}", g.Service(), e.ID, e, g.State())
}
