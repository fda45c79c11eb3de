package replica

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-transparency/transparency"
)

// The package's own answers. Those that say that no node could be used come
// inside an [*AttemptsError], which has a class of the root package too.
var (
	// ErrNoReplica says that no node could serve the read: none is in use, or
	// each that was tried failed, and the primary could not stand in.
	ErrNoReplica = errors.New("no replica")

	// ErrNoPrimary says that no node could take the write: none is known to be
	// the primary, or the one that is did not take it. Nothing was executed.
	ErrNoPrimary = errors.New("no primary")

	// ErrAmbiguousPrimary says that two nodes claim to be the primary and that
	// neither is known to follow the other. Nothing was executed.
	ErrAmbiguousPrimary = errors.New("two nodes claim to be primary")

	// ErrTooStale says that every replica may lag further behind than the read
	// allows, and the primary could not stand in.
	ErrTooStale = errors.New("replicas lag too far")

	// ErrMaybeExecuted says that the connection was lost, or the time was up,
	// after a write may have been sent. It may have happened. It wraps
	// [transparency.ErrUncertain].
	ErrMaybeExecuted = fmt.Errorf("%w: the write may have been executed", transparency.ErrUncertain)

	// ErrClosed says that the pool was closed.
	ErrClosed = errors.New("pool closed")
)

// An Attempt is what became of one node in a call that failed.
type Attempt struct {
	Node  string
	Class Class
	Err   error         // why it failed, or why it was not tried
	Took  time.Duration // zero when it was not tried
}

// An AttemptsError says why no node served a call. It matches its Reason, its
// Class, the errors of its attempts, and what ended the call early: the error
// of its context, or [ErrClosed].
type AttemptsError struct {
	Reason   error // ErrNoReplica, ErrNoPrimary, …
	Class    error // of the root package
	Attempts []Attempt
	end      error // of the caller's context, or ErrClosed, if that was why
}

// Error lists the nodes in the order in which they were tried, those that were
// not tried last.
func (e *AttemptsError) Error() string {
	var b strings.Builder
	if e.Class != nil && !errors.Is(e.Reason, e.Class) {
		fmt.Fprintf(&b, "%v: ", e.Class)
	}
	if e.Reason != nil {
		b.WriteString(e.Reason.Error())
	}
	for i, a := range e.Attempts {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%q %v", sep, a.Node, a.Class)
		if a.Took > 0 {
			fmt.Fprintf(&b, " after %v", a.Took.Round(10*time.Microsecond))
		} else {
			b.WriteString(", not tried")
		}
		if a.Err != nil {
			fmt.Fprintf(&b, ": %v", a.Err)
		}
	}
	if e.end != nil {
		fmt.Fprintf(&b, ": %v", e.end)
	}
	return b.String()
}

// Unwrap returns all that the error matches.
func (e *AttemptsError) Unwrap() []error {
	errs := []error{e.Reason, e.Class}
	if e.end != nil {
		errs = append(errs, e.end)
	}
	for _, a := range e.Attempts {
		if a.Err != nil {
			errs = append(errs, a.Err)
		}
	}
	return errs
}

// cause carries a node's error under a text that may be shown.
type cause struct {
	text string
	err  error
}

func (c *cause) Error() string { return c.text }

// Unwrap hides an error that would pass for the end of the caller's context,
// as that of an attempt's own time limit does, or for another class.
func (c *cause) Unwrap() error {
	if isContext(c.err) || classed(c.err) {
		return nil
	}
	return c.err
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

func classed(err error) bool {
	for _, class := range [...]error{
		transparency.ErrUnavailable, transparency.ErrUncertain, transparency.ErrRejected,
		transparency.ErrDenied, transparency.ErrInvalid,
	} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// failed names the operation of an error.
func failed(op string, err error) error { return fmt.Errorf("replica: %s: %w", op, err) }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", transparency.ErrInvalid, fmt.Errorf(format, args...))
}
