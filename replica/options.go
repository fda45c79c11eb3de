package replica

import (
	"log/slog"
	"math"
	"time"
)

// What zero fields of [Options] mean.
const (
	DefaultAttempts       = 3
	DefaultAttemptTimeout = 2 * time.Second
	DefaultProbeInterval  = time.Second
	DefaultProbeTimeout   = 500 * time.Millisecond
	DefaultMaxConcurrent  = 48
	DefaultMaxLinkDown    = time.Minute
	DefaultPrimaryShare   = 0.2
)

// Options configures a [Pool]. Nil is fine.
type Options struct {
	// Attempts is how many different nodes one read tries at most, and how
	// often an idempotent write is made at most. Zero means
	// [DefaultAttempts]; negative means one.
	Attempts int

	// AttemptTimeout bounds one call of fn. Zero means
	// [DefaultAttemptTimeout]; negative means none: a node that hangs then
	// holds its callers until their contexts end.
	AttemptTimeout time.Duration

	// ProbeInterval is how often each node is asked what it is, give or take a
	// fifth. Zero means [DefaultProbeInterval]; there is no pool without.
	ProbeInterval time.Duration

	// ProbeTimeout bounds one probe. Zero means [DefaultProbeTimeout].
	ProbeTimeout time.Duration

	// MaxConcurrent is how many callbacks are under way at most, and with
	// that how many a database that hangs can hold. Each node has an equal
	// share, at least one. Zero means [DefaultMaxConcurrent]; it should be
	// no more than the clients have connections.
	MaxConcurrent int

	// MaxLinkDown is for how long a replica that has lost its primary is still
	// read from. Zero means [DefaultMaxLinkDown]; negative means for ever. One
	// that never had its primary's data is not read from at all.
	MaxLinkDown time.Duration

	// PrimaryShare is the part of the reads that may go to the primary because
	// no replica could serve them, beside a burst of ten: it keeps the
	// primary from the load of all replicas. Zero means
	// [DefaultPrimaryShare], 1 means all, and negative means none. A pool that
	// has the primary alone always reads there.
	PrimaryShare float64

	// Logger is told of changes of nodes, and of callbacks that panic. Nil
	// discards.
	Logger *slog.Logger
}

// longest stands for all that is longer than a process lives.
const longest = math.MaxInt64 / 2

// withDefaults returns a copy, and why it can never work.
func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	setDefault(&opts.Attempts, DefaultAttempts)
	setDefault(&opts.AttemptTimeout, DefaultAttemptTimeout)
	setDefault(&opts.ProbeInterval, DefaultProbeInterval)
	setDefault(&opts.ProbeTimeout, DefaultProbeTimeout)
	setDefault(&opts.MaxConcurrent, DefaultMaxConcurrent)
	setDefault(&opts.MaxLinkDown, DefaultMaxLinkDown)
	setDefault(&opts.PrimaryShare, DefaultPrimaryShare)
	opts.Attempts = max(opts.Attempts, 1)
	// Sums of them, and parts, are not to overflow.
	opts.ProbeInterval = min(opts.ProbeInterval, longest)
	opts.ProbeTimeout = min(opts.ProbeTimeout, longest)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case opts.ProbeInterval < time.Millisecond:
		return opts, invalid("the probe interval is %v, and a pool needs one of 1ms or more", opts.ProbeInterval)
	case opts.ProbeTimeout < time.Millisecond:
		return opts, invalid("the probe timeout is %v, and a probe needs one of 1ms or more", opts.ProbeTimeout)
	case opts.MaxConcurrent < 1:
		return opts, invalid("MaxConcurrent is %d, and a pool needs a bound", opts.MaxConcurrent)
	case !(opts.PrimaryShare <= 1): // NaN too
		return opts, invalid("PrimaryShare is %v, not 1 or less", opts.PrimaryShare)
	}
	return opts, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
