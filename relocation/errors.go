package relocation

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency"
)

// The package's own answers.
var (
	// ErrClosed says that the Conn or the Hub was closed by its own side.
	ErrClosed = errors.New("closed")

	// ErrPeerClosed says that the other side ended the session. It comes as a
	// [*LostError].
	ErrPeerClosed = errors.New("session ended by the peer")

	// ErrSessionLost says that the servers know the session no more: it
	// expired, or the store lost it. It comes as a [*LostError].
	ErrSessionLost = errors.New("session lost")

	// ErrSessionTaken says that another process resumed the session with a
	// copy of its token. It comes as a [*LostError]. Nobody tries again, for
	// two who do would take it from each other for ever.
	ErrSessionTaken = errors.New("session taken by another client")

	// ErrStateRegressed says that the store went back to an earlier state, as
	// an asynchronously replicated one can after a failover, so that the
	// session cannot go on without losing something. It comes as a
	// [*LostError].
	ErrStateRegressed = errors.New("the store went back")

	// ErrSequenceExhausted says that a direction has used its last number,
	// 2^63-1. A new session begins anew.
	ErrSequenceExhausted = fmt.Errorf("%w: sequence numbers exhausted", transparency.ErrRejected)

	// ErrBufferFull says that as much is unacknowledged as the buffer takes.
	// The message was not taken, and never will be delivered.
	ErrBufferFull = fmt.Errorf("%w: buffer full", transparency.ErrRejected)

	// ErrTooLarge says that a message is larger than the other side takes.
	ErrTooLarge = fmt.Errorf("%w: message too large", transparency.ErrInvalid)

	// ErrNoServer says that no server could be reached.
	ErrNoServer = fmt.Errorf("%w: no server", transparency.ErrUnavailable)

	// ErrProtocol says that the other side broke the protocol, or speaks no
	// version of it that this side does.
	ErrProtocol = fmt.Errorf("%w: protocol error", transparency.ErrInvalid)

	// ErrDuplicate says that the effect of a message is there already. To a
	// [Hub], a handler's error that wraps it is as good as nil.
	ErrDuplicate = errors.New("the message had its effect before")

	// ErrUnconfirmed says that a message was taken and that its
	// acknowledgement was not awaited to the end. Unless the session is lost
	// it will be delivered. It comes as an [*UnconfirmedError].
	ErrUnconfirmed = fmt.Errorf("%w: not acknowledged yet", transparency.ErrUncertain)
)

// The answers of a [Store].
var (
	// ErrUnknown says that the store has no such session.
	ErrUnknown = errors.New("unknown session")

	// ErrExists says that the session is there already, and not by this call.
	ErrExists = errors.New("session exists")

	// ErrExpired says that the session ended or expired a while ago. It comes
	// as an [*ExpiredError].
	ErrExpired = errors.New("session expired")

	// ErrFenced says that the session has a newer owner, so that nothing was
	// changed.
	ErrFenced = errors.New("fenced: another instance owns the session")

	// ErrOwned says that another instance owns the session, which has been
	// asked to yield. It comes as an [*OwnedError].
	ErrOwned = errors.New("owned by another instance")

	// ErrSuperseded says that a later attempt of the same client was here
	// first.
	ErrSuperseded = errors.New("superseded by a later attempt")
)

// A LostError says that a session has ended other than by this side's Close.
// It matches its Reason, one of [ErrPeerClosed], [ErrSessionLost],
// [ErrSessionTaken], [ErrStateRegressed], [ErrSequenceExhausted],
// [ErrProtocol], [ErrTooLarge] and transparency.ErrDenied, and its Err.
type LostError struct {
	Reason error
	// Unacked is how many messages this side had taken and the other not
	// acknowledged. [Conn.Unacked] gives them.
	Unacked int
	// Handled is the last message of this side that the other handled, if
	// HandledKnown. What came after was not handled, unless a handler was
	// interrupted while it was.
	Handled      uint64
	HandledKnown bool
	// Err is what was seen last, where there was an error.
	Err error
}

// Error names the reason and the number of messages whose fate is open.
func (e *LostError) Error() string {
	text := fmt.Sprintf("%v: %d messages unacknowledged", e.Reason, e.Unacked)
	if e.HandledKnown {
		text += fmt.Sprintf(", handled up to %d", e.Handled)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the reason and the last error.
func (e *LostError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Err}
}

// An UnconfirmedError says which messages were not awaited to the end. It
// matches [ErrUnconfirmed] and its Err.
type UnconfirmedError struct {
	// Seq is the last of the messages.
	Seq uint64
	// Unacked is how many messages are unacknowledged, up to Seq.
	Unacked int
	// Err is why the wait ended.
	Err error
}

// Error says how many messages are open.
func (e *UnconfirmedError) Error() string {
	return fmt.Sprintf("%v: %d messages up to %d: %v", ErrUnconfirmed, e.Unacked, e.Seq, e.Err)
}

// Unwrap returns ErrUnconfirmed and why the wait ended.
func (e *UnconfirmedError) Unwrap() []error { return []error{ErrUnconfirmed, e.Err} }

// An ExpiredError says what the store remembers of a session that ended. It
// matches [ErrExpired].
type ExpiredError struct {
	// In is the last message of the client that was handled and committed.
	In uint64
}

// Error says what was handled.
func (e *ExpiredError) Error() string { return fmt.Sprintf("%v: handled up to %d", ErrExpired, e.In) }

// Is reports whether target is [ErrExpired].
func (e *ExpiredError) Is(target error) bool { return target == ErrExpired }

// An OwnedError says who owns a session. It matches [ErrOwned].
type OwnedError struct {
	Owner string
	// Remaining is for how long, if the lease is not renewed.
	Remaining time.Duration
}

// Error says for how long.
func (e *OwnedError) Error() string { return fmt.Sprintf("%v for up to %v", ErrOwned, e.Remaining) }

// Is reports whether target is [ErrOwned].
func (e *OwnedError) Is(target error) bool { return target == ErrOwned }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", transparency.ErrInvalid, fmt.Errorf(format, args...))
}
