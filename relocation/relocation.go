package relocation

import (
	"context"
	"fmt"
	"time"

	"github.com/go-transparency/transparency"
)

// A Transport carries messages, each as it was written and in order, over one
// connection. One goroutine reads and one writes at a time; Close may be
// called at any time, more than once, and ends both. One that bounds what it
// reads has a method SetReadLimit(n int64), by which it is told how many bytes
// a message can have.
type Transport interface {
	// Read returns the next message. The slice is the caller's until the next
	// Read. An error is final.
	Read(ctx context.Context) ([]byte, error)

	// Write writes one message. It does not keep p. An error is final, and
	// says nothing about what the peer has read.
	Write(ctx context.Context, p []byte) error

	// Close ends the connection and says why, as far as the peer still
	// listens. It waits for nobody.
	Close(code CloseCode, reason string) error
}

// A Dialer opens transports. A dial that was refused for who the caller is
// returns an error wrapping transparency.ErrDenied, which ends a [Conn]; after
// any other error it tries again or elsewhere.
type Dialer interface {
	Dial(ctx context.Context, addr string) (Transport, error)
}

// A CloseCode says why a transport was closed. The codes are those of
// WebSocket (RFC 6455, section 7.4.1, and the IANA registry beside it). None of
// them ends the session: only a CLOSE frame does.
type CloseCode uint16

// The codes in use.
const (
	CloseNormal   CloseCode = 1000 // the session has ended, or this transport has served its purpose
	CloseProtocol CloseCode = 1002 // the peer broke the protocol
	CloseRefused  CloseCode = 1008 // the opening was rejected
	CloseRestart  CloseCode = 1012 // the server is going away: resume elsewhere
	CloseRetry    CloseCode = 1013 // the server cannot go on just now: resume later
)

// A CloseError is what [Transport].Read returns when the peer has closed the
// transport and has said why.
type CloseError struct {
	Code   CloseCode
	Reason string
}

// Error names the code, and the reason if there is one.
func (e *CloseError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("closed by the peer with code %d", e.Code)
	}
	return fmt.Sprintf("closed by the peer with code %d: %s", e.Code, e.Reason)
}

// Unwrap returns transparency.ErrUnavailable.
func (e *CloseError) Unwrap() error { return transparency.ErrUnavailable }

// A Message is one message of a session.
type Message struct {
	// Seq numbers the messages of one direction of a session from one.
	Seq uint64

	// Data is the receiver's own.
	Data []byte

	// Redelivered says that the message may have been handled before, by an
	// instance that could not say so any more. Without it, it was not.
	Redelivered bool
}

// A State is what a [Conn] is doing.
type State uint8

// The states of a Conn. A planned move goes Connected, Migrating,
// Reconnecting, Connected; the loss of a server Connected, Reconnecting,
// Connected. In each of the three, Send takes messages.
const (
	// Connecting is the state before the first connection.
	Connecting State = iota
	// Connected says that messages flow.
	Connected
	// Migrating says that messages flow, and that another server is being
	// dialled to take over.
	Migrating
	// Reconnecting says that no server is attached.
	Reconnecting
	// Closed says that the session has ended, or cannot go on.
	Closed
)

// String returns the name of the state in capitals.
func (s State) String() string {
	switch s {
	case Connecting:
		return "CONNECTING"
	case Connected:
		return "CONNECTED"
	case Migrating:
		return "MIGRATING"
	case Reconnecting:
		return "RECONNECTING"
	case Closed:
		return "CLOSED"
	}
	return "INVALID"
}

// A Change is a change of a Conn's state.
type Change struct {
	// Seq counts the changes of one Conn from one. A gap says that the reader
	// was too slow for some.
	Seq      uint64
	From, To State
	At       time.Time
	// Addr is the server of the new state, where there is one.
	Addr string
	// Err says what made the change, where that was an error.
	Err error
}
