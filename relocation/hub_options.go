package relocation

import (
	"context"
	"log/slog"
	"time"
)

const (
	// DefaultLease is for how long an instance owns a session that it does not
	// renew.
	DefaultLease = 5 * time.Second
	// DefaultResume is for how long a session can be resumed after the drop.
	DefaultResume = 2 * time.Minute
	// DefaultTombstone is for how long the end of a session is remembered.
	DefaultTombstone = 10 * time.Minute
	// DefaultHandoffGrace is for how long an owner is waited for that was
	// asked to yield.
	DefaultHandoffGrace = time.Second
	// DefaultPing is after how much silence a peer is asked for a sign of life.
	DefaultPing = 15 * time.Second
	// DefaultSilence is for how long the answer may take.
	DefaultSilence = 10 * time.Second
	// DefaultOpenTimeout bounds the opening of a transport, the part of each
	// side for itself.
	DefaultOpenTimeout = 5 * time.Second
	// DefaultMaxMessage is the greatest message, in bytes.
	DefaultMaxMessage = 1 << 20
	// DefaultWindow is how many bytes one side sends without an
	// acknowledgement.
	DefaultWindow = 1 << 20
	// DefaultMaxUnackedMessages is how many messages are kept for a client.
	DefaultMaxUnackedMessages = 16384
	// DefaultMaxUnackedBytes is how many bytes they have at most.
	DefaultMaxUnackedBytes = 4 << 20
)

const (
	minLease     = 100 * time.Millisecond
	maxLease     = time.Hour
	minKey       = 16
	hardMessage  = 1 << 30
	maxOpenings  = 16384
	minHeartbeat = 10 * time.Millisecond
)

// A Mode says when a message counts as handled.
type Mode uint8

// The modes of a [Hub].
const (
	// AtLeastOnce commits a message after its handler has returned nil. When
	// an instance dies in between, the message comes again, marked
	// Redelivered.
	AtLeastOnce Mode = iota
	// AtMostOnce commits a message, by itself, before its handler is called,
	// and that is what the client's SendAck and Flush wait for. When an
	// instance dies in between, or the handler fails, the message is lost.
	// What the handler replies is committed afterwards.
	AtMostOnce
	// Atomic is for handlers that commit the number of the message together
	// with its effect, in a database of their own, which HubOptions.Position
	// asks. The effect happens exactly once. What the handler replies is
	// committed afterwards, and so can be lost with the instance. Position is
	// asked whenever a client resumes, after a crash too, so that a message
	// which had its effect rarely comes again: Redelivered and [ErrDuplicate]
	// are for a former owner that is not at its end yet.
	Atomic
)

// HubOptions configures a [Hub]. Nil is fine. Durations beyond a whole
// millisecond are cut off.
type HubOptions struct {
	// Name names this instance to clients and other instances, for logs. It
	// should be no secret. Empty means a random one. At most 64 bytes.
	Name string

	// Mode says when a message counts as handled. Zero is [AtLeastOnce].
	Mode Mode

	// Position returns the last message of a session that the handler's own
	// database has. It is needed in the mode [Atomic] and has no meaning in
	// others. It is called for each client that resumes.
	Position func(ctx context.Context, session string) (uint64, error)

	// Attached is run, in a goroutine of its own, while a session is attached
	// here, and its context ends when it is no more. Nil means nothing.
	Attached func(ctx context.Context, s *Session)

	// Authenticate checks the credentials that a client sent in its opening,
	// on top of what the transport knows: p is what Serve was given. Its
	// answer replaces p. An error that wraps ErrDenied of the root package is
	// final for the client; after any other it tries again. Nil means that p
	// is enough.
	Authenticate func(ctx context.Context, p Principal, credentials []byte) (Principal, error)

	// Keys sign the tokens with which clients resume, each at least 16 bytes:
	// the first signs, all verify, so that a new key is put first and an old
	// one is kept for as long as its tokens live. All instances need the same.
	// Nil means a random key, known to this Hub alone: then no other instance
	// can resume its sessions.
	Keys [][]byte

	// Lease is for how long the session of an instance that crashed waits,
	// from 100 ms to an hour. Zero means [DefaultLease]. A third of it passes
	// between renewals.
	Lease time.Duration

	// Resume is for how long a session can be resumed, counted from when its
	// transport was lost. Zero means [DefaultResume].
	Resume time.Duration

	// Tombstone is for how long it is remembered that a session has ended, and
	// how far it had come. Zero means [DefaultTombstone].
	Tombstone time.Duration

	// HandoffGrace is for how long a client that resumes here waits for
	// another instance that still owns the session to finish what it does.
	// Then the session is taken. It has to be shorter than what a client waits
	// for an answer; see DialOptions.DialTimeout. Zero means
	// [DefaultHandoffGrace]; negative means that it is taken at once.
	HandoffGrace time.Duration

	// Ping is after how much silence the client asks for a sign of life, and
	// Silence is for how long the answer may take. Zero means [DefaultPing]
	// and [DefaultSilence].
	Ping, Silence time.Duration

	// OpenTimeout bounds how long a client takes for its first frame, and how
	// long the answer may take. Zero means [DefaultOpenTimeout].
	OpenTimeout time.Duration

	// MaxMessage bounds one message, in bytes. Zero means [DefaultMaxMessage].
	// Nothing else gets through beside a message: one that takes longer than
	// Ping and Silence looks like a dead connection, again and again.
	MaxMessage int

	// Window is how many bytes a client sends without an acknowledgement, and
	// so what a session holds in memory. Zero means [DefaultWindow]. One
	// message always fits.
	Window int

	// MaxUnackedMessages and MaxUnackedBytes bound what the store keeps for
	// the client of a session: what was sent and is not acknowledged. Zero
	// means [DefaultMaxUnackedMessages] and [DefaultMaxUnackedBytes]. One
	// message always fits.
	MaxUnackedMessages int
	MaxUnackedBytes    int64

	// Logger is told of handlers that fail, of sessions that are lost, and of
	// a store that does not answer. Nil discards.
	Logger *slog.Logger
}

// withDefaults returns a copy, and why it can never work.
func (o *HubOptions) withDefaults() (HubOptions, error) {
	var opts HubOptions
	if o != nil {
		opts = *o
	}
	var err error
	for _, d := range []struct {
		name  string
		field *time.Duration
		value time.Duration
		least time.Duration
	}{
		{"Lease", &opts.Lease, DefaultLease, minLease},
		{"Resume", &opts.Resume, DefaultResume, time.Millisecond},
		{"Tombstone", &opts.Tombstone, DefaultTombstone, time.Millisecond},
		{"Ping", &opts.Ping, DefaultPing, minHeartbeat},
		{"Silence", &opts.Silence, DefaultSilence, minHeartbeat},
		{"OpenTimeout", &opts.OpenTimeout, DefaultOpenTimeout, time.Millisecond},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
		*d.field = d.field.Truncate(time.Millisecond)
		if err == nil && (*d.field < d.least || *d.field > maxOption) {
			err = invalid("%s is %v, not from %v to %v", d.name, *d.field, d.least, maxOption)
		}
	}
	if opts.HandoffGrace == 0 {
		opts.HandoffGrace = DefaultHandoffGrace
	}
	opts.HandoffGrace = min(opts.HandoffGrace, maxOption)
	for _, n := range []struct {
		name  string
		field *int
		value int
	}{
		{"MaxMessage", &opts.MaxMessage, DefaultMaxMessage},
		{"Window", &opts.Window, DefaultWindow},
		{"MaxUnackedMessages", &opts.MaxUnackedMessages, DefaultMaxUnackedMessages},
	} {
		if *n.field == 0 {
			*n.field = n.value
		}
		if err == nil && (*n.field < 1 || *n.field > hardMessage) {
			err = invalid("%s is %d, not from 1 to %d", n.name, *n.field, hardMessage)
		}
	}
	if opts.MaxUnackedBytes == 0 {
		opts.MaxUnackedBytes = DefaultMaxUnackedBytes
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err == nil {
		err = opts.check()
	}
	return opts, err
}

// maxOption bounds the options that are durations.
const maxOption = 10 * 365 * 24 * time.Hour

func (o *HubOptions) check() error {
	switch {
	case o.MaxUnackedBytes < 1:
		return invalid("MaxUnackedBytes is %d", o.MaxUnackedBytes)
	case o.Lease > maxLease:
		return invalid("Lease is %v, more than %v", o.Lease, maxLease)
	case len(o.Name) > 64:
		return invalid("the name has %d bytes, more than 64", len(o.Name))
	case o.Mode > Atomic:
		return invalid("there is no mode %d", o.Mode)
	case o.Mode == Atomic && o.Position == nil:
		return invalid("the mode Atomic needs Position")
	}
	for i, key := range o.Keys {
		if len(key) < minKey {
			return invalid("key %d has %d bytes, fewer than %d", i, len(key), minKey)
		}
	}
	return nil
}

// A Principal is who a client is.
type Principal struct {
	// ID is compared with that of the session's first client: nobody else
	// resumes it. At most 256 bytes. It may be empty.
	ID string
	// Expires is when the client has to show credentials again: its transport
	// is dropped then, and it opens another. The zero value means never.
	Expires time.Time
}
