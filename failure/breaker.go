package failure

import (
	"context"
	"time"
)

// A Breaker is a [Policy] that stops calling a service which keeps failing, so
// that callers fail at once and the service can recover, and finds out by
// itself when it has (Nygard, "Release It!", 2nd ed. 2018, chapter 5).
//
// Its states: closed, in which calls pass and are counted; open, in which none
// passes, for a while; half-open, in which a few probes pass, and their
// success closes it, their failure opens it again.
type Breaker interface {
	// Do calls next if the breaker lets it, and counts how it ended. Else it
	// returns at once an [*Error] wrapping [ErrOpen] that says when to come
	// again. A panic or runtime.Goexit of next passes through and is ignored
	// in the counts.
	Policy

	// Allow is the first half of Do, for calls that are not functions. It
	// returns a permit to make one call now, an [*Error] wrapping [ErrOpen],
	// or the error of ctx if that has ended. It does not wait.
	Allow(ctx context.Context) (Permit, error)

	// State returns the state of this moment. It may have changed by the time
	// it is looked at: to make a call, make it.
	State() State
}

// A Permit is the leave to make one call. A permit that is never given back
// holds a place only in half-open, until its time is over.
type Permit interface {
	// Done says that the call ended with err. The first Done counts, if it
	// comes in time; others do nothing.
	Done(err error)
}

// State is the state of a [Breaker].
type State uint8

// The states of a [Breaker].
const (
	StateClosed   State = iota // calls pass and are counted
	StateOpen                  // no call passes
	StateHalfOpen              // a few calls pass, as probes
	StateForced                // open by hand, until Reset
	StateDisabled              // closed by hand, counting nothing, until Reset
)

// String returns the name of the state, like "half-open".
func (s State) String() string {
	switch s {
	case StateClosed:
		return "closed"
	case StateOpen:
		return "open"
	case StateHalfOpen:
		return "half-open"
	case StateForced:
		return "forced open"
	case StateDisabled:
		return "disabled"
	}
	return "unknown"
}

// What zero fields of [BreakerOptions] mean.
const (
	DefaultFailures     = 5
	DefaultRatio        = 0.5
	DefaultMinCalls     = 20
	DefaultWindow       = 10 * time.Second
	DefaultSlowRatio    = 0.5
	DefaultOpenFor      = 5 * time.Second
	DefaultMaxOpenFor   = time.Minute
	DefaultProbes       = 1
	DefaultProbeTimeout = 10 * time.Second
)

// BreakerOptions configures a breaker. Nil is fine. What makes no sense is an
// error of every call, wrapping
// [github.com/go-transparency/transparency.ErrInvalid].
type BreakerOptions struct {
	// Name is told in errors. A breaker that is shared must have one.
	Name string

	// Failures in a row open the breaker, however far apart. Zero means
	// [DefaultFailures]; negative switches the rule off.
	Failures int

	// Ratio is the share of calls which opens the breaker when they fail, of
	// those that ended within the last Window, if these are at least MinCalls.
	// Zero means [DefaultRatio], the most is 1; negative switches the rule off.
	Ratio float64
	// MinCalls is at least one. Zero means [DefaultMinCalls].
	MinCalls int
	// Window is at least ten milliseconds. Zero means [DefaultWindow]. It
	// moves on in tenths.
	Window time.Duration

	// Slow is how long a call may last and not be slow, whether it succeeds or
	// fails. It is counted when it ends, so calls need time limits all the
	// same. Zero or less means that none is slow.
	Slow time.Duration
	// SlowRatio is the share of calls which opens the breaker when they are
	// slow, of those that ended within the last Window, if these are at least
	// MinCalls; and a probe that is slow has failed. Zero means
	// [DefaultSlowRatio], the most is 1; negative switches the rule off.
	SlowRatio float64

	// OpenFor is how long the breaker stays open at first; each failed probe
	// doubles it, up to MaxOpenFor. It is cut by up to 15 % at random, so that
	// breakers which opened together do not probe together. Zero means
	// [DefaultOpenFor].
	OpenFor time.Duration
	// MaxOpenFor bounds the growth. Zero means [DefaultMaxOpenFor], or OpenFor
	// if that is longer; negative means that nothing grows.
	MaxOpenFor time.Duration

	// Probes is how many calls pass in half-open, and how many must succeed to
	// close the breaker; one failure opens it. Zero means [DefaultProbes].
	Probes int
	// ProbeTimeout is how long a probe holds its place. One that takes longer
	// is ignored, and another may pass. Zero means [DefaultProbeTimeout].
	ProbeTimeout time.Duration

	// Answers are errors that are answers of a healthy service, tested with
	// errors.Is: session.ErrNotFound, sql.ErrNoRows.
	Answers []error
	// Classify judges the errors of calls that are not among the Answers, on
	// the goroutine of the caller, whose context ctx is. Nil means [Classify].
	Classify func(ctx context.Context, err error) Outcome
	// Patience makes a call ignored instead of failed if its caller's deadline
	// passed when it had lasted less than that. Zero counts them all.
	Patience time.Duration
}

// forever is what longer times are taken for: sums and doubles of it, and its
// milliseconds in Redis, overflow nothing.
const forever = 10 * 365 * 24 * time.Hour

// openCut is the most that is cut off an open time.
const openCut = 0.15

// withDefaults returns a copy, and why it can never work.
func (o *BreakerOptions) withDefaults() (BreakerOptions, error) {
	var opts BreakerOptions
	if o != nil {
		opts = *o
	}
	opts.Answers = append([]error(nil), opts.Answers...)
	orDefault(&opts.Failures, DefaultFailures)
	orDefault(&opts.Ratio, DefaultRatio)
	orDefault(&opts.MinCalls, DefaultMinCalls)
	orDefault(&opts.Window, DefaultWindow)
	orDefault(&opts.SlowRatio, DefaultSlowRatio)
	if opts.SlowRatio < 0 {
		opts.Slow = 0
	}
	orDefault(&opts.OpenFor, DefaultOpenFor)
	orDefault(&opts.Probes, DefaultProbes)
	orDefault(&opts.ProbeTimeout, DefaultProbeTimeout)
	orDefault(&opts.MaxOpenFor, max(DefaultMaxOpenFor, opts.OpenFor))
	if opts.MaxOpenFor < 0 {
		opts.MaxOpenFor = opts.OpenFor
	}
	for _, d := range []*time.Duration{&opts.Window, &opts.OpenFor, &opts.MaxOpenFor, &opts.ProbeTimeout} {
		*d = min(*d, forever)
	}
	if opts.Classify == nil {
		opts.Classify = Classify
	}
	return opts, opts.check()
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o *BreakerOptions) check() error {
	switch {
	case o.Failures < 0 && o.Ratio < 0 && o.Slow <= 0:
		return invalid("all rules are off, and the breaker would never open")
	case o.Ratio > 1 || o.Ratio != o.Ratio:
		return invalid("the ratio is %v, not from 0 to 1", o.Ratio)
	case o.SlowRatio > 1 || o.SlowRatio != o.SlowRatio:
		return invalid("the ratio of slow calls is %v, not from 0 to 1", o.SlowRatio)
	case o.MinCalls < 0:
		return invalid("the least number of calls is %d", o.MinCalls)
	case o.Window < 10*time.Millisecond:
		return invalid("the window is %v, less than 10ms", o.Window)
	case o.OpenFor < time.Millisecond:
		return invalid("the open time is %v, less than 1ms", o.OpenFor)
	case o.MaxOpenFor < o.OpenFor:
		return invalid("the longest open time is %v, less than the first, %v", o.MaxOpenFor, o.OpenFor)
	case o.Probes < 0 || o.Probes > 1<<20:
		return invalid("the number of probes is %d", o.Probes)
	case o.ProbeTimeout < time.Millisecond:
		return invalid("the probe timeout is %v, less than 1ms", o.ProbeTimeout)
	case o.Patience < 0:
		return invalid("the patience is %v", o.Patience)
	}
	return nil
}
