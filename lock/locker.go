package lock

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultTTL is the TTL of a lock where the options say nothing.
	DefaultTTL = 30 * time.Second
	// MaxTTL bounds every TTL. A lease is renewed, so that a long TTL only
	// prolongs the wait for a holder that crashed.
	MaxTTL = 24 * time.Hour
	// DefaultTimeout bounds one exchange with the store.
	DefaultTimeout = 2 * time.Second

	maxHolder = 200
)

// Options configures a [Locker]. Nil is fine.
type Options struct {
	// TTL is how long a lock outlives a holder that crashed, from one
	// millisecond to [MaxTTL]; what is beyond a whole millisecond is cut off.
	// Zero means [DefaultTTL]. It should be many times the round trip to the
	// store: a third of it passes between renewals.
	TTL time.Duration

	// Timeout bounds one exchange with the store. Zero means [DefaultTimeout];
	// negative is refused with [transparency.ErrInvalid], for a renewal without
	// a bound could outlast its lease.
	Timeout time.Duration

	// Prefix is put before every key in Redis, and has no meaning elsewhere.
	// Empty means "lock:". Lockers with different prefixes never meet.
	Prefix string

	// Holder is what those are told who ask in vain for a lock that this
	// Locker holds, in [HeldError]: who or where it is, as in "worker-3/812".
	// It stands in the store and in their errors, so it should be no secret.
	// Empty means that they are told nothing. At most 200 bytes.
	Holder string

	// Logger is told of lost leases, of renewals that fail, and of client
	// options that do harm. Nil discards.
	Logger *slog.Logger
}

// withDefaults returns a copy, and why it can never work.
func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.TTL == 0 {
		opts.TTL = DefaultTTL
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.Prefix == "" {
		opts.Prefix = "lock:"
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	ttl, err := checkTTL(opts.TTL)
	opts.TTL = ttl
	if err == nil && opts.Timeout < 0 {
		err = invalid("the timeout is %v, and a lock needs one", opts.Timeout)
	}
	if err == nil && len(opts.Holder) > maxHolder {
		err = invalid("the holder's name has %d bytes, more than %d", len(opts.Holder), maxHolder)
	}
	return opts, err
}

func checkTTL(ttl time.Duration) (time.Duration, error) {
	if ttl < time.Millisecond || ttl > MaxTTL {
		return 0, invalid("the TTL is %v, not from 1ms to %v", ttl, MaxTTL)
	}
	return ttl.Truncate(time.Millisecond), nil
}

// A Locker holds the locks of one process: it renews leases, keeps those who
// wait in line, and undoes what failed attempts left behind. It is safe for
// concurrent use. It comes from [New], [NewMemory] or [NewRedis]; the zero
// value has no store, and locks nothing.
type Locker struct {
	driver Driver
	opts   Options
	err    error // why no operation can work
	owner  string
	wall   func() time.Time // the wall clock; nil means that of time.Now

	done     chan struct{}  // closed by Close
	calls    sync.WaitGroup // that ask the store under way
	attempts atomic.Uint64
	tasks    sync.WaitGroup // background goroutines

	mu      sync.Mutex // guards what follows
	closed  bool
	slots   keyed[slotName, *slot]
	leases  heap[*Lease]
	keeper  keeper
	ear     ear
	undoer  undoer
	stats   Stats
	waiting int
	reports []func() // for the logger; see unlock
}

// New returns a Locker over a store that d reaches.
func New(d Driver, opts *Options) *Locker {
	l := &Locker{driver: d, owner: newOwner(), done: make(chan struct{})}
	l.opts, l.err = opts.withDefaults()
	l.keeper.kick = make(chan struct{}, 1)
	l.undoer.kick = make(chan struct{}, 1)
	return l
}

// NewMemory returns a Locker whose locks live in this process, in a
// [MemoryDriver] of its own. It keeps every promise that [NewRedis] keeps.
func NewMemory(opts *Options) *Locker { return New(NewMemoryDriver(), opts) }

// NewRedis returns a Locker whose locks live in Redis. It does no I/O and
// starts nothing. The client stays the caller's; see the package page for the
// options it should have.
func NewRedis(client RedisClient, opts *Options) *Locker {
	return New(NewRedisDriver(client, opts), opts)
}

// unusable returns why no operation can work.
func (l *Locker) unusable() error {
	switch {
	case l == nil:
		return invalid("the Locker is nil")
	case l.err != nil:
		return l.err
	case l.driver == nil:
		return errNoDriver
	default:
		return nil
	}
}

var errNoDriver = invalid("there is no driver; a Locker comes from New, NewMemory or NewRedis")

// Close ends the Locker. Those who wait get [ErrClosed], as every later Lock
// and TryLock does. Leases still held are lost: they are not renewed any more
// and their contexts end, but their keys stay until they are unlocked, which
// still works, or until their TTL has passed, for the sections that they guard
// may be running. What failed attempts left in the store is given one last
// try. Close returns when all that the Locker started has ended. When the store
// does not answer that takes a few times the Timeout, or as long as the client
// goes on connecting, which a go-redis client does until its DialTimeout.
// Closing again waits likewise. The error is always nil.
func (l *Locker) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		if l.done != nil { // else it is a zero Locker, and nobody waits
			close(l.done)
		}
		for len(l.leases) > 0 {
			l.lose(l.leases[0], fmt.Errorf("%w: %w", ErrLost, ErrClosed))
		}
		l.deafen()
	}
	l.unlock()
	l.calls.Wait()
	l.tasks.Wait()
	return nil
}

// Stats counts what a [Locker] has done.
type Stats struct {
	Held    int // leases held now
	Waiting int // calls of Lock that wait now
	Undoing int // releases that the Locker is still trying to make

	Acquired, Lost          uint64 // leases, since the start
	Attempts                uint64 // requests to acquire that were sent to the store
	Renewed, RenewalsFailed uint64 // single renewals
}

// Stats returns the counts of this moment.
func (l *Locker) Stats() Stats {
	if l == nil {
		return Stats{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Attempts = l.attempts.Load()
	s.Held, s.Waiting, s.Undoing = len(l.leases), l.waiting, len(l.undoer.list)
	return s
}

// instant is a moment on both clocks. The monotonic clock stands still while
// the machine is suspended and the wall clock can be set, so a time is over
// when either says so. This is the one place where a clock can be replaced.
type instant struct {
	at   time.Time // compared by its monotonic reading
	wall time.Time // without one
}

func (l *Locker) now() instant {
	t := time.Now()
	if l.wall != nil {
		return instant{t, l.wall().Round(0)}
	}
	return instant{t, t.Round(0)}
}

func (i instant) add(d time.Duration) instant { return instant{i.at.Add(d), i.wall.Add(d)} }

func (i instant) reached(end instant) bool {
	return !i.at.Before(end.at) || !i.wall.Before(end.wall)
}

// since returns the time from start to i, by the clock that says more.
func (i instant) since(start instant) time.Duration {
	return max(i.at.Sub(start.at), i.wall.Sub(start.wall))
}
