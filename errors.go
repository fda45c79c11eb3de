package transparency

import (
	"context"
	"errors"
)

// The error classes. Every error of this module, other than a package's own
// "no" (session.ErrNotFound, lock.ErrHeld and their like) and a bare context
// error, wraps one of them, and its class is what the caller may conclude. The
// error of a call that was made of several attempts can wrap more, and then
// [ErrUncertain] counts. Test with [errors.Is].
//
// Drivers written elsewhere wrap the same values, so that callers need not
// know who wrote them.
var (
	// ErrUnavailable says that the resource was not reached, or refused
	// before any effect. Nothing has happened; trying again is safe.
	ErrUnavailable = errors.New("unavailable")

	// ErrUncertain says that a request that changes something was sent and
	// no answer came. It may have happened, may still happen, or may not.
	// Look before trying again.
	ErrUncertain = errors.New("outcome unknown")

	// ErrRejected says that this side refused the call (a breaker is open,
	// a bulkhead is full, a budget is spent). Nothing was sent; trying again
	// at once would be refused again.
	ErrRejected = errors.New("rejected on this side")

	// ErrDenied says that the resource was reached and refused the caller
	// for who it is. Nothing has happened; another identity or permission is
	// needed, not another try.
	ErrDenied = errors.New("denied")

	// ErrInvalid says that these arguments, or the data stored there, can
	// never work. Nothing has happened; trying again gives the same answer.
	ErrInvalid = errors.New("invalid")
)

// Retryable reports whether the failed call had no effect and may succeed
// when it is made again unchanged.
//
// It is true for [ErrUnavailable] alone. It is false for nil, for the other
// four classes wherever they stand in the tree of err, for errors without a
// class (a package's "no" is an answer, not a failure), and for context
// errors: the context that ended this call would end the next one too. A
// context error without [ErrUncertain] still means that nothing was changed.
func Retryable(err error) bool {
	if !errors.Is(err, ErrUnavailable) {
		return false
	}
	for _, final := range [...]error{
		ErrUncertain, ErrRejected, ErrDenied, ErrInvalid,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}
