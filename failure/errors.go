package failure

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-transparency/transparency"
)

// Why a policy ended a call. They come in an [*Error].
var (
	// ErrOpen says that a breaker let the call through to nobody: it is open,
	// or half-open with its probes under way. It wraps
	// [transparency.ErrRejected].
	ErrOpen = fmt.Errorf("%w: breaker open", transparency.ErrRejected)

	// ErrFull says that a [Bulkhead] had no place for the call in time, or that
	// too many calls that a [Timeout] has abandoned go on. The call was not
	// made. It wraps [transparency.ErrRejected].
	ErrFull = fmt.Errorf("%w: no place free", transparency.ErrRejected)

	// ErrLimited says that a [RateLimit] had no turn for the call in time. The
	// call was not made. It wraps [transparency.ErrRejected].
	ErrLimited = fmt.Errorf("%w: rate limit", transparency.ErrRejected)

	// ErrTimeout says that a [Timeout] ended the call. Whether it had an effect
	// is said by the class of the error beside it.
	ErrTimeout = errors.New("timed out")

	// ErrAttempts says that a [Retry] made all its attempts.
	ErrAttempts = errors.New("attempts used up")

	// ErrBudget says that a [Retry] had no budget left for another attempt.
	ErrBudget = errors.New("retry budget spent")

	// ErrNoTime says that a [Retry] could not have made another attempt in
	// time: the wait for it would have outlasted the deadline of the context,
	// or the service asked for more patience than the Retry has.
	ErrNoTime = errors.New("no time for another attempt")
)

// An Error says which policy ended a call, and why. It matches, by
// [errors.Is], both its Reason and the error of the call that was Last.
type Error struct {
	// Policy is the kind of policy: "breaker", "bulkhead", "fallback", "hedge",
	// "rate limit", "retry", "timeout".
	Policy string
	// Name is the policy's name, where it has one.
	Name string
	// Reason is one of the errors above, or how the context ended the call,
	// why a Fallback had no answer, or why the last attempt of a Retry was
	// none.
	Reason error
	// Attempts is how many attempts a Retry or a Hedge made, and else zero.
	Attempts int
	// After is how long to wait before the call is worth making again. Zero
	// means that it is not known.
	After time.Duration
	// Last is the error of the call itself, as it was last made; nil when it
	// was not made.
	Last error
}

// Error tells all that is known.
func (e *Error) Error() string {
	if e == nil {
		return "failure: no error"
	}
	var b strings.Builder
	b.WriteString("failure: " + e.Policy)
	if e.Name != "" {
		b.WriteString(" " + strconv.Quote(e.Name))
	}
	if e.Reason != nil {
		b.WriteString(": " + e.Reason.Error())
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " after %d attempts", e.Attempts)
	}
	if e.After > 0 {
		fmt.Fprintf(&b, ", try again in %v", max(e.After.Round(time.Millisecond), time.Millisecond))
	}
	if e.Last != nil {
		b.WriteString(": " + e.Last.Error())
	}
	return b.String()
}

// Unwrap returns the reason and the last error.
func (e *Error) Unwrap() []error {
	if e == nil {
		return nil
	}
	both := make([]error, 0, 2)
	for _, err := range [...]error{e.Reason, e.Last} {
		if err != nil {
			both = append(both, err)
		}
	}
	return both
}

// RetryAfter returns After, or if that is not known the longer of what Reason
// and Last ask for.
func (e *Error) RetryAfter() time.Duration {
	if e == nil {
		return 0
	}
	if e.After > 0 {
		return e.After
	}
	return max(RetryAfter(e.Reason), RetryAfter(e.Last))
}

// RetryAfter returns how long err asks to wait before the call is made again:
// what the first error in its tree with a method RetryAfter() time.Duration
// says. Zero means that none asks.
func RetryAfter(err error) time.Duration {
	if err == nil {
		return 0
	}
	var asks interface{ RetryAfter() time.Duration }
	if errors.As(err, &asks) {
		return max(asks.RetryAfter(), 0)
	}
	return 0
}

// WithRetryAfter returns err with a wish to be left alone for d, which
// [RetryAfter] reads. For a nil err it returns nil.
func WithRetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &delayed{err, d}
}

type delayed struct {
	error
	after time.Duration
}

func (d *delayed) Unwrap() error             { return d.error }
func (d *delayed) RetryAfter() time.Duration { return d.after }

// failed names the operation and the key of an error.
func failed(op, key string, err error) error {
	if key == "" {
		return fmt.Errorf("failure: %s: %w", op, err)
	}
	return fmt.Errorf("failure: %s %q: %w", op, key, err)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", transparency.ErrInvalid, fmt.Errorf(format, args...))
}
