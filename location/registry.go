package location

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/backoff"
)

const (
	// DefaultTTL is how long an instance outlives a crash.
	DefaultTTL = 15 * time.Second
	// MinTTL is the least TTL.
	MinTTL = 100 * time.Millisecond
	// MaxTTL is the greatest.
	MaxTTL = time.Hour
	// DefaultMaxStale is how long endpoints are served that cannot be confirmed.
	DefaultMaxStale = 5 * time.Minute
	// DefaultTimeout bounds one exchange with the store.
	DefaultTimeout = 2 * time.Second
	// DefaultMaxServices bounds the services that are remembered.
	DefaultMaxServices = 1024
)

// Options configures a [Registry]. Nil is fine.
type Options struct {
	// TTL is how long an instance that crashed stays in the registry, from
	// [MinTTL] to [MaxTTL]; what is beyond a whole millisecond is cut off.
	// Zero means [DefaultTTL]. A third of it passes between heartbeats. It is
	// best the same in all processes: those who only look wait that long for
	// the others when instances come back after all were gone.
	TTL time.Duration

	// Poll is the mean time between two looks at a service that is watched;
	// each is between two thirds and five thirds of it. Zero means
	// [DefaultPoll]. Changes usually are seen sooner, by a hint.
	Poll time.Duration

	// MaxStale is how long the last known endpoints are served, marked as
	// stale, while the store does not answer or has lost them. Zero means
	// [DefaultMaxStale]; negative means for ever.
	MaxStale time.Duration

	// Timeout bounds one exchange with the store. Zero means [DefaultTimeout];
	// there is none without a bound.
	Timeout time.Duration

	// Takeover makes Register take an instance id away from one who has it,
	// who may be a former self that crashed. The other is told and stays out.
	Takeover bool

	// MaxServices bounds the services whose endpoints are remembered, of which
	// the one that was not asked for longest gives way, and those that are
	// watched, where one more gets ErrRejected of the root package. Zero means
	// [DefaultMaxServices].
	MaxServices int

	// Prefix is put before every key in Redis, and has no meaning elsewhere.
	// Empty means "location:". Registries with different prefixes never meet.
	Prefix string

	// Logger is told of registrations that are lost and restored, and of
	// client options that do harm, with nothing locked. Nil discards.
	Logger *slog.Logger
}

// withDefaults returns a copy, and why it can never work.
func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&opts.TTL, DefaultTTL}, {&opts.Poll, DefaultPoll},
		{&opts.MaxStale, DefaultMaxStale}, {&opts.Timeout, DefaultTimeout},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if opts.MaxServices == 0 {
		opts.MaxServices = DefaultMaxServices
	}
	if opts.Prefix == "" {
		opts.Prefix = "location:"
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.TTL = opts.TTL.Truncate(time.Millisecond)
	switch {
	case opts.TTL < MinTTL || opts.TTL > MaxTTL:
		return opts, invalid("the TTL is %v, not from %v to %v", opts.TTL, MinTTL, MaxTTL)
	case opts.Poll < time.Millisecond:
		return opts, invalid("Poll is %v, and polling is what finds every change", opts.Poll)
	case opts.Timeout < 0:
		return opts, invalid("the timeout is %v, and a registry needs one", opts.Timeout)
	case opts.MaxServices < 0:
		return opts, invalid("MaxServices is %d, and memory has a bound", opts.MaxServices)
	}
	return opts, nil
}

// A Registrar makes instances known.
type Registrar interface {
	// Register makes the endpoint known as an instance of service, and keeps
	// it so until it is deregistered: a loop sends heartbeats, and registers
	// again whenever the registry has lost the instance, for ever.
	//
	// ctx bounds the first registration and nothing else. While the registry
	// cannot be reached it is tried again; when ctx ends first, Register
	// returns the error of ctx and of the last attempt, and what that may have
	// left is undone. Who wants to start without a registry calls Register in
	// a goroutine.
	//
	// [ErrInstanceConflict] says that the endpoint's ID is another's. Other
	// errors are [ErrClosed] or wrap ErrInvalid or ErrDenied of the root
	// package.
	Register(ctx context.Context, service string, ep Endpoint) (*Registration, error)
}

// A Registry is a [Locator], a [Watcher] and a [Registrar] over a shared
// store. It is safe for concurrent use.
type Registry struct {
	driver Driver
	opts   Options
	err    error // why no operation can work

	ctx    context.Context // ends by Close; of all that the Registry starts
	cancel context.CancelFunc
	calls  sync.WaitGroup // Register under way
	tasks  sync.WaitGroup // background goroutines

	mu      sync.Mutex // guards what follows
	closed  bool
	regs    map[*Registration]struct{} // those that are kept
	views   map[string]*view
	watched int // of them
	aside   int // looks that nobody waits for
	ear     ear
	undoer  undoer
	stats   Stats
}

var (
	_ Watcher   = (*Registry)(nil)
	_ Locator   = (*Registry)(nil)
	_ Registrar = (*Registry)(nil)
)

// NewRegistry returns a Registry over the store that d reaches. It does no I/O
// and starts nothing.
func NewRegistry(d Driver, opts *Options) *Registry {
	r := &Registry{driver: d, regs: make(map[*Registration]struct{}), views: make(map[string]*view)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.opts, r.err = opts.withDefaults()
	if d == nil {
		r.err = errors.Join(r.err, invalid("the driver is nil"))
	}
	return r
}

// NewMemory returns a Registry within the process, in a [MemoryDriver] of its
// own. It keeps every promise that [NewRedis] keeps.
func NewMemory(opts *Options) *Registry { return NewRegistry(NewMemoryDriver(), opts) }

// NewRedis returns a Registry in Redis. The client stays the caller's; see the
// package page for the options it should have.
func NewRedis(client RedisClient, opts *Options) *Registry {
	return NewRegistry(NewRedisDriver(client, opts), opts)
}

// String says what is registered and remembered.
func (r *Registry) String() string {
	s := r.Stats()
	return fmt.Sprintf("location.Registry(%d registrations, %d services)", s.Registrations, s.Services)
}

// GoString is String.
func (r *Registry) GoString() string { return r.String() }

// made reports whether NewRegistry made r. What nobody made has no state.
func (r *Registry) made() bool { return r != nil && r.views != nil }

// enter is called before Register, and calls.Done after it.
func (r *Registry) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return r.err
	case r.closed:
		return ErrClosed
	}
	r.calls.Add(1)
	return nil
}

// Register implements [Registrar].
func (r *Registry) Register(ctx context.Context, service string, ep Endpoint) (*Registration, error) {
	if !r.made() {
		return nil, failed("register", "", errNotMade)
	}
	name, err := CleanService(service)
	if err != nil {
		return nil, failed("register", "", err)
	}
	in := Instance{Token: randomText(), TTL: r.opts.TTL}
	if in.Endpoint, err = ep.checked(); err != nil {
		return nil, failed("register", name, err)
	}
	if in.Endpoint.ID == "" {
		in.Endpoint.ID = randomText()
	}
	if err := r.enter(); err != nil {
		return nil, failed("register", name, err)
	}
	defer r.calls.Done()
	sent, err := r.register(ctx, name, in)
	if err != nil {
		return nil, failed("register", name, err)
	}
	return r.supervise(name, in, sent), nil
}

// register tries until the instance is registered, or ctx ends, or it is told
// no. It returns when the attempt that won was sent.
func (r *Registry) register(ctx context.Context, name string, in Instance) (sent time.Time, err error) {
	attempt, stop := r.bound(ctx)
	defer stop()
	left := false // something may be
	for n := 0; ; n++ {
		sent = time.Now()
		err = changed(r.driver.Register(attempt, name, in, r.opts.Takeover))
		if err == nil && attempt.Err() == nil {
			return sent, nil
		}
		left = left || err == nil || !isRefusal(err)
		if isFinal(err) || backoff.Sleep(attempt, retryPolicy(r.opts.TTL).Delay(n)) != nil {
			break
		}
	}
	if left {
		r.mu.Lock()
		r.undo(name, in)
		r.mu.Unlock()
	}
	switch {
	case isFinal(err):
		return sent, err
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return sent, err
	case ctx.Err() != nil && err != nil:
		return sent, fmt.Errorf("%w: %w", err, ctx.Err())
	case ctx.Err() != nil:
		return sent, ctx.Err()
	}
	return sent, ErrClosed
}

// bound returns a context that ends with ctx, and when the Registry is closed.
func (r *Registry) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// isFinal reports whether trying again is of no use.
func isFinal(err error) bool {
	return errors.Is(err, ErrInstanceConflict) || errors.Is(err, transparency.ErrDenied) ||
		errors.Is(err, transparency.ErrInvalid)
}

// isRefusal reports whether err says that nothing was done.
func isRefusal(err error) bool {
	return isFinal(err) || errors.Is(err, transparency.ErrUnavailable) && !errors.Is(err, transparency.ErrUncertain)
}

// retryPolicy spreads the instances of a service that come back together. None
// waits for more than the time between two heartbeats.
func retryPolicy(ttl time.Duration) backoff.Policy {
	return backoff.Policy{Base: max(ttl/60, 10*time.Millisecond), Max: ttl / 3}
}

// Close ends the Registry. What is registered is deregistered, in no more than
// the Timeout, and is left to its TTL when that fails. Every later call, and
// every call under way, gets [ErrClosed]. Close returns when all that the
// Registry started has ended. Closing again waits likewise. The error is
// always nil.
func (r *Registry) Close() error {
	if !r.made() {
		return nil
	}
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.calls.Wait()
	r.deregisterAll()
	r.tasks.Wait()
	return nil
}

// Stats counts what a [Registry] has done.
type Stats struct {
	Registrations int // kept now
	Lost          int // of these, those that the registry must have dropped
	Undoing       int // deregistrations that the Registry is still trying to make
	Services      int // remembered now
	Watched       int // of these, those that are watched

	Renewed, RenewalsFailed uint64 // heartbeats, since the start
	Reregistered            uint64 // registrations made again
	Lookups, LookupsFailed  uint64 // requests for endpoints that were sent to the store
	Broken                  uint64 // endpoints that could not be decoded
}

// Stats returns the counts of this moment.
func (r *Registry) Stats() Stats {
	if !r.made() {
		return Stats{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Registrations, s.Undoing = len(r.regs), len(r.undoer.list)
	s.Services, s.Watched = len(r.views), r.watched
	for g := range r.regs {
		if g.lost.Load() {
			s.Lost++
		}
	}
	return s
}
