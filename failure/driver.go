package failure

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"time"
)

// A Driver is the store through which the breakers of a fleet hear of each
// other. It must be safe for concurrent use. A [SharedBreaker] calls it from
// the background only. Package failuretest holds the checks that every Driver
// passes.
//
// Durations are judged by the store's clock; no time of day is sent to it.
type Driver interface {
	// Exchange hands in what one instance has to say about the breaker of that
	// name and returns what the fleet thinks, in one step that nothing comes
	// between. In this order:
	//
	// A Verdict counts if the breaker is open in generation r.Gen and its
	// probing was last granted to r.Instance. Close closes it; Reopen opens it
	// for an open time that is doubled for each Reopen since it first opened,
	// up to r.MaxOpenFor. Both begin a new generation. Another Verdict is
	// nothing.
	//
	// The instance counts as live for r.TTL from now, and its vote likewise if
	// r.Vote is set; else it has none. If the breaker is not open and the votes
	// are at least r.Quorum, and at least r.QuorumRatio of the live instances,
	// it opens for r.OpenFor: a new generation, without votes.
	//
	// If r.Probe is set, the breaker is open in generation r.Gen, its open time
	// has passed, and no other instance has been granted its probing, or that
	// has ended, then r.Instance is granted it until r.Probe from now.
	//
	// A generation is greater than all before of that name, and than r.Gen if
	// that began it. Whoever listens is told of new generations.
	Exchange(ctx context.Context, name string, r Report) (View, error)

	// Listen calls wake whenever a generation begins, until ctx ends or the
	// source of news fails, and returns why. It calls wake each time it has
	// begun to hear: what happened before was missed. It may miss news later
	// too; the engine asks again in any case. wake does not block.
	Listen(ctx context.Context, name string, wake func()) error
}

// A Report is what an instance has to say.
type Report struct {
	Instance string        // unique to one breaker in one process
	TTL      time.Duration // at least a millisecond, as all durations here
	Vote     bool          // its own calls have opened its breaker

	Gen     uint64        // the last generation that it knows; Verdict and Probe are about it
	Verdict Verdict       // how the probing ended that was granted
	Probe   time.Duration // for how long it wants to probe; zero means not at all

	Quorum              int
	QuorumRatio         float64 // negative means that Quorum alone decides
	OpenFor, MaxOpenFor time.Duration
}

// A Verdict is how probing ended.
type Verdict uint8

// The verdicts.
const (
	NoVerdict Verdict = iota
	Close
	Reopen
)

// A View is what the fleet thinks of one breaker.
type View struct {
	// Gen is the present generation. Zero means that the store knows nothing:
	// the breaker has never opened, or it was forgotten.
	Gen  uint64
	Open bool
	// Remaining is what is left of the open time.
	Remaining time.Duration
	// Probing is what is left of the time in which one instance may probe, and
	// Granted that it is the one that asks.
	Probing time.Duration
	Granted bool

	Live, Votes int // instances, and votes to open among them
}

func newInstance() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
