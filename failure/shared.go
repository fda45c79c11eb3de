package failure

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// What zero fields of [SharedOptions] mean.
const (
	DefaultQuorum      = 2
	DefaultQuorumRatio = 0.3
	DefaultPoll        = time.Second
	DefaultTimeout     = time.Second
)

// SharedOptions configures a [SharedBreaker]. Breaker.Name is needed, and the
// rest may be left out.
type SharedOptions struct {
	// Breaker configures the breaker as of one process. Its Name is that of
	// the breaker in the store: breakers of one name are one. All instances
	// should have the same options.
	Breaker BreakerOptions

	// The fleet opens when its breaker has been opened, by their own calls, in
	// at least Quorum instances, and in at least QuorumRatio of those that are
	// live. One instance with a broken network cannot open it alone. Zero means
	// [DefaultQuorum] and [DefaultQuorumRatio]; a negative ratio means that
	// Quorum alone decides.
	Quorum      int
	QuorumRatio float64

	// Poll is how often an instance looks even if nothing was heard. It counts
	// as live for thrice that and the Timeout. Zero means [DefaultPoll].
	Poll time.Duration

	// Timeout bounds one exchange with the store. Zero means [DefaultTimeout];
	// there is none without a bound.
	Timeout time.Duration

	// Prefix is put before every key in Redis, and has no meaning elsewhere.
	// Empty means "breaker:".
	Prefix string

	// Logger is told when the store is lost and when it is back, and of client
	// options that do harm. Nil discards.
	Logger *slog.Logger
}

// withDefaults returns a copy, and why it can never work.
func (o *SharedOptions) withDefaults() (SharedOptions, error) {
	var opts SharedOptions
	if o != nil {
		opts = *o
	}
	orDefault(&opts.Quorum, DefaultQuorum)
	orDefault(&opts.QuorumRatio, DefaultQuorumRatio)
	orDefault(&opts.Poll, DefaultPoll)
	orDefault(&opts.Timeout, DefaultTimeout)
	orDefault(&opts.Prefix, "breaker:")
	opts.Poll, opts.Timeout = min(opts.Poll, forever), min(opts.Timeout, forever)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	opts.Breaker, err = opts.Breaker.withDefaults()
	switch {
	case err != nil:
	case opts.Breaker.Name == "":
		err = invalid("a shared breaker needs a name")
	case opts.Quorum < 0:
		err = invalid("the quorum is %d", opts.Quorum)
	case opts.QuorumRatio > 1 || opts.QuorumRatio != opts.QuorumRatio:
		err = invalid("the ratio of the quorum is %v, not from 0 to 1", opts.QuorumRatio)
	case opts.Poll < time.Millisecond:
		err = invalid("the time between polls is %v, less than 1ms", opts.Poll)
	case opts.Timeout < 0:
		err = invalid("the timeout is %v, and an exchange needs one", opts.Timeout)
	}
	return opts, err
}

// A SharedBreaker is a [Breaker] that a fleet of processes shares: opened by a
// quorum of them, it is open in all, and one of them probes. Its calls read
// local state only. All exchange with the store is in the background, in
// goroutines that the first call starts and Close ends. While the store cannot
// be reached, and after Close, each instance is a [LocalBreaker] on its own.
type SharedBreaker struct {
	local  *LocalBreaker
	driver Driver
	opts   SharedOptions
	id     string

	running   atomic.Bool // or never to be
	exchanged atomic.Uint64
	missed    atomic.Uint64
	live      atomic.Int64
	votes     atomic.Int64

	mu     sync.Mutex // guards what follows
	closed bool
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// NewSharedBreaker returns a breaker shared through d.
func NewSharedBreaker(d Driver, opts *SharedOptions) *SharedBreaker {
	o, err := opts.withDefaults()
	if v := reflect.ValueOf(d); d == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		err = errors.Join(err, invalid("the driver is nil"))
	}
	s := &SharedBreaker{driver: d, opts: o, id: newInstance()}
	s.local = NewLocalBreaker(&o.Breaker)
	s.local.refuse(err)
	s.local.fleet = &fleet{kick: make(chan struct{}, 1)}
	return s
}

// NewRedisBreaker returns a breaker shared through Redis. It does no I/O and
// starts nothing. The client stays the caller's; see the package page for the
// options it should have.
func NewRedisBreaker(client RedisClient, opts *SharedOptions) *SharedBreaker {
	d := NewRedisDriver(client, opts)
	s := NewSharedBreaker(d, opts)
	s.local.refuse(d.err)
	return s
}

var _ Breaker = (*SharedBreaker)(nil)

// Do implements [Policy]; see [Breaker].
func (s *SharedBreaker) Do(ctx context.Context, next Next) (any, error) {
	return s.started().Do(ctx, next)
}

// Allow implements [Breaker].
func (s *SharedBreaker) Allow(ctx context.Context) (Permit, error) {
	return s.started().Allow(ctx)
}

// State implements [Breaker]. When the fleet is open, it is StateHalfOpen only
// in the instance that may probe.
func (s *SharedBreaker) State() State { return s.own().State() }

// ForceOpen stops all calls of this instance until Reset.
func (s *SharedBreaker) ForceOpen() { s.own().ForceOpen() }

// Disable lets all calls of this instance pass uncounted until Reset.
func (s *SharedBreaker) Disable() { s.own().Disable() }

// Reset closes this instance's breaker and forgets what was counted. If the
// fleet is open, so will this instance be, as soon as it has looked.
func (s *SharedBreaker) Reset() {
	if b := s.own(); b != nil {
		b.Reset()
		b.fleet.wake()
	}
}

// Changes is as [LocalBreaker.Changes], of this instance.
func (s *SharedBreaker) Changes(ctx context.Context) iter.Seq[Change] { return s.own().Changes(ctx) }

// SharedStats counts what a [SharedBreaker] has done.
type SharedStats struct {
	Stats // of this instance

	Exchanged, Missed uint64 // exchanges with the store that were answered, and that were not
	Live, Votes       int    // instances and their votes, when last heard
}

// Stats returns the counts of this moment.
func (s *SharedBreaker) Stats() SharedStats {
	if s == nil {
		return SharedStats{}
	}
	return SharedStats{
		Stats:     s.local.Stats(),
		Exchanged: s.exchanged.Load(), Missed: s.missed.Load(),
		Live: int(s.live.Load()), Votes: int(s.votes.Load()),
	}
}

// own returns the breaker of this instance, which is nil, and as good as one
// that is not, if s is nil or no constructor has made it.
func (s *SharedBreaker) own() *LocalBreaker {
	if s == nil {
		return nil
	}
	return s.local
}

// started is own, for calls.
func (s *SharedBreaker) started() *LocalBreaker {
	b := s.own()
	if b != nil && !s.running.Load() {
		s.start()
	}
	return b
}

// start starts the background work, once.
func (s *SharedBreaker) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.local.err != nil || s.closed || s.running.Load() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.tasks.Go(func() { s.exchange(ctx) })
	s.tasks.Go(func() { s.listen(ctx) })
	s.running.Store(true)
}

// Close ends the exchange with the fleet and returns when all that the breaker
// started has ended, or about a Timeout has passed: what a client has begun
// that ends with no context, such as the handshake of a connection, ends by the
// client's own timeouts. Calls go on, as through a [LocalBreaker]. Closing
// again waits likewise. The error is always nil.
func (s *SharedBreaker) Close() error {
	if s.own() == nil {
		return nil
	}
	s.mu.Lock()
	if s.closed = true; s.cancel != nil {
		s.cancel()
	}
	s.running.Store(true) // there is nothing to start any more
	s.mu.Unlock()
	s.tasks.Wait()
	s.local.leave()
	return nil
}

// String leaves the driver out, for it can hold a password.
func (s *SharedBreaker) String() string {
	if s == nil {
		return "failure.SharedBreaker(nil)"
	}
	return "failure.SharedBreaker(" + quote(s.opts.Breaker.Name) + ")"
}

// GoString is String.
func (s *SharedBreaker) GoString() string { return s.String() }
