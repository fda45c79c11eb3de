package replica

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"
)

// A Backend knows one kind of database: how to ask a node what it is, and
// what the errors of its clients mean. It must be safe for concurrent use.
//
// A Backend may also have the method
//
//	Redact(err error) error
//
// which returns err with a text that holds no secrets. Without it, the texts
// of errors are shown as they are.
type Backend[C any] interface {
	// Probe asks the node what it is, and whether it can serve. It returns
	// soon after ctx ends. An error that [Backend.Classify] puts in ClassDown,
	// ClassUnknown or ClassDenied means that the node cannot be used, and so
	// does one that matches ErrDenied of the root package; one in
	// ClassOverload says nothing, and any other that it cannot be used yet.
	Probe(ctx context.Context, n Node[C]) (Status, error)

	// Classify says what may be concluded from err, which a call at a node in
	// that role returned. It is not asked about nil. For an error that does
	// not say that nothing was executed, it returns ClassUnknown, or ClassApp
	// when the error is the database's answer.
	Classify(err error, role Role) Class
}

// A Node is one copy of the data.
type Node[C any] struct {
	// Name is what the node is called in errors, logs and statistics. It must
	// not be empty, and no two nodes have the same.
	Name string

	// Role is what the node is believed to be. A Backend that asks nodes
	// for their roles does not need it: RoleUnknown is fine. A node that is
	// given as a replica is no candidate for the primary if no other node is.
	Role Role

	// Client is what callbacks get. It stays the caller's.
	Client C `json:"-"`
}

// String names the node without its client, which can hold a password.
func (n Node[C]) String() string { return "replica.Node(" + strconv.Quote(n.Name) + ")" }

// Format writes String, whatever the verb.
func (n Node[C]) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, n.String()) }

// A Role is what a node does in its cluster.
type Role uint8

// The roles.
const (
	RoleUnknown Role = iota
	RolePrimary      // takes writes
	RoleReplica      // follows a primary
)

// String returns "unknown", "primary" or "replica".
func (r Role) String() string { return name(int(r), "unknown", "primary", "replica") }

// A Status is what a node says of itself.
type Status struct {
	Role Role

	// Epoch names the history that the node's data is a part of; it changes
	// when a node is promoted. Previous names the history that this one
	// branched from, if it did. Empty means not known.
	Epoch, Previous string

	// Offset says how much of the history the node has. It grows with writes.
	// Zero means not known.
	Offset uint64

	// LinkDown is for how long a replica has been without its primary: zero
	// when it is not, negative when it never had the primary's data.
	LinkDown time.Duration
}

// A Class is what may be concluded from an error of a call at a node.
type Class uint8

// The classes. The pool tells ClassCaller by itself; a Backend tells the rest.
const (
	// ClassUnknown: the connection was lost, or time ran out, after the call
	// may have been sent. Counts against the node. Reads go to another node;
	// a write is not made again unless it is idempotent.
	ClassUnknown Class = iota

	// ClassApp: an answer of the database: not found, a syntax error, a
	// conflict. It goes to the caller as it is.
	ClassApp

	// ClassCaller: the caller's context ended. Says nothing about the node but
	// how long it did not answer.
	ClassCaller

	// ClassMisrouted: the node is not in the role that it was used in, and has
	// executed nothing. The call goes once to the primary.
	ClassMisrouted

	// ClassNotReady: the node is loading, or waits for its primary, and has
	// executed nothing. It is left alone for a moment.
	ClassNotReady

	// ClassOverload: the node, or the client's pool of connections to it, has
	// no room; nothing was executed. The node gets less to do.
	ClassOverload

	// ClassDown: no connection was had, and nothing was sent. Counts against
	// the node.
	ClassDown

	// ClassDenied: the node refused the client for who it is. The call goes to
	// another node, and this one is looked at.
	ClassDenied

	// classAborted: a transaction was refused, and nothing was executed. Why
	// is not known: it can be for the node's role, or for what was asked.
	classAborted
)

// String returns the name of the class in lower case.
func (c Class) String() string {
	return name(int(c), "lost", "answer", "caller left", "misrouted", "not ready", "overloaded", "down", "denied", "aborted")
}

func name(i int, names ...string) string {
	if i >= len(names) {
		return strconv.Itoa(i)
	}
	return names[i]
}
