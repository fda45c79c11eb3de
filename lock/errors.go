package lock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-transparency/transparency"
)

// The package's own answers. None of them is a failure of the store, so none
// of them has a class of the root package.
var (
	// ErrHeld says that somebody else has the lock, or stands before the
	// caller in line for it. It comes as a [*HeldError].
	ErrHeld = errors.New("held by another")

	// ErrLost says that a lease ended before it was unlocked: it could not be
	// renewed in time, the store says that it belongs to another or to nobody,
	// or its Locker was closed. Somebody else may have the lock by now.
	ErrLost = errors.New("lease lost")

	// ErrReleased says that the lease was unlocked, by the holder's own wish.
	ErrReleased = errors.New("lease released")

	// ErrClosed says that the Locker was closed.
	ErrClosed = errors.New("locker closed")

	// ErrStaleFence says that a guard has seen a greater fence: somebody has
	// had the lock since, and the one who is refused has lost it, whether or
	// not it has been told. Nothing was written; trying again is refused again.
	ErrStaleFence = errors.New("stale fence")
)

// A HeldError says that a lock was not to be had. It matches [ErrHeld].
type HeldError struct {
	// Remaining is for how long the present lease runs on if it is not
	// renewed; it usually is. Zero means that it is not known. Of the holders
	// of a [Semaphore] it is the one whose end would free a permit.
	Remaining time.Duration

	// Holder is what the holder's Locker says of itself, by [Options].Holder.
	// Empty means that it says nothing, or that the lock is on its way from
	// one holder to the next.
	Holder string
}

// Error returns a text without the key, which the error around it names.
func (e *HeldError) Error() string {
	if e == nil {
		return ErrHeld.Error()
	}
	text := ErrHeld.Error()
	if e.Holder != "" {
		text += fmt.Sprintf(", %q,", e.Holder)
	}
	if e.Remaining > 0 {
		text += fmt.Sprintf(" for up to %v unless renewed", max(e.Remaining.Round(time.Millisecond), time.Millisecond))
	}
	return strings.TrimSuffix(text, ",")
}

// Is reports whether target is [ErrHeld].
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// failed names the operation and the key of an error.
func failed(op, key string, err error) error {
	return fmt.Errorf("lock: %s %q: %w", op, key, err)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", transparency.ErrInvalid, fmt.Errorf(format, args...))
}
