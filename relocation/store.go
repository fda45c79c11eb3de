package relocation

import (
	"context"
	"time"
)

// A Store keeps what any instance needs to go on with a session: how far the
// client's messages were handled (In), which messages for the client were
// appended (up to Out) and acknowledged (up to Acked), and who owns it under
// which generation. Package relocationtest is the suite that every Store
// passes; [MemoryStore] and [RedisStore] are here.
//
// Every change is atomic, and one that the owner makes names its [Lease]: it
// is refused with [ErrFenced] when the generation is not the present one, or,
// when the present one is lower, with [ErrStateRegressed]. A
// call may be repeated with the same arguments when its outcome is unknown,
// and then has the effect and the result of one. Errors are the store's own
// answers (ErrUnknown, ErrExists, *ExpiredError, ErrFenced, *OwnedError,
// ErrSessionTaken, ErrSuperseded, ErrStateRegressed, ErrBufferFull,
// ErrSequenceExhausted) or wrap a class of the root package. Names of sessions
// are in no error.
//
// A Store is safe for concurrent use. Times are the store's.
type Store interface {
	// Create makes the session id, owned by claim.Owner under generation one.
	// It returns ErrExists when the session is there and claim.Nonce is not
	// the one that made it.
	Create(ctx context.Context, id string, terms Terms, claim Claim) (Snapshot, error)

	// Attach makes claim.Owner the owner under the next generation, and checks
	// the claim first. ErrUnknown also stands for a principal that is not the
	// session's; the claim's Serial is below the confirmed one:
	// ErrSessionTaken; its Attempt is not above the last: ErrSuperseded;
	// Received is below Acked, so that another client acknowledged the rest:
	// ErrSessionTaken; Acked is above In, Received above Out, or Serial above
	// the present generation: ErrStateRegressed.
	//
	// When another owner's lease has not ended and claim.Force is not set,
	// that owner is sent a [Yield] with claim.Owner, nothing changes, and the
	// error is an *OwnedError.
	Attach(ctx context.Context, id string, claim Claim) (Snapshot, error)

	// Commit applies u for the owner and renews its lease.
	Commit(ctx context.Context, lease Lease, u Update) (Progress, error)

	// Renew renews leases, all at once, and returns for each its progress or
	// its error.
	Renew(ctx context.Context, leases []Lease) []Renewal

	// Append appends messages for the client on behalf of any instance, and
	// sends the owner an [Appended]. The first gets the number that it
	// returns, the others the numbers that follow.
	Append(ctx context.Context, id string, batch Batch) (first uint64, err error)

	// Read returns the unacknowledged messages for the client after a number,
	// in order, as many as have at most limit bytes together, and at least
	// one if there is any.
	Read(ctx context.Context, id string, after uint64, limit int) ([]Outgoing, error)

	// Release ends an ownership but not the session, which can be resumed for
	// Terms.Resume from now. If to is not empty, that instance is sent a
	// [Released].
	Release(ctx context.Context, lease Lease, to string) error

	// Delete ends the session. For Terms.Tombstone from now Attach returns an
	// *ExpiredError.
	Delete(ctx context.Context, lease Lease) error

	// Listen calls hear with what is sent to an instance until ctx ends. What
	// it hears is a hint that saves time: some may be missed. It returns when
	// ctx has ended, or with the error that ended it before. hear does not
	// block.
	Listen(ctx context.Context, owner string, hear func(Event)) error
}

// Terms are what a session is made with. They stay.
type Terms struct {
	// Principal is who it belongs to.
	Principal string
	// Resume is for how long it can be resumed after the drop.
	Resume time.Duration
	// Tombstone is for how long its end is remembered.
	Tombstone time.Duration
	// MaxMessages and MaxBytes bound what is appended and not acknowledged.
	// One message always fits.
	MaxMessages int
	MaxBytes    int64
	// In and Out are the numbers from which the two directions go on, usually
	// zero.
	In, Out uint64
}

// A Claim is one attempt to own a session.
type Claim struct {
	// Owner names the instance, and Lease says for how long it owns the
	// session if it does not renew.
	Owner string
	Lease time.Duration
	// Nonce is random for each claim: a claim that comes again is known by it.
	Nonce string
	// Principal, Serial, Attempt, Received and Acked are what the client said.
	Principal       string
	Serial          uint64 // the generation in which its token was made
	Attempt         uint64
	Received, Acked uint64
	// Force takes the session from an owner whose lease has not ended.
	Force bool
}

// A Snapshot is the state of a session when it was attached.
type Snapshot struct {
	Generation     uint64
	In, Out, Acked uint64
	// Released says that the last owner released the session, or that there
	// was none, so that nothing beyond In was begun. An owner who cannot say
	// so lets its lease end.
	Released bool
	// Mark is the first mark of this ownership; see [Update].
	Mark string
}

// A Lease is an ownership: the right to change a session.
type Lease struct {
	Session    string
	Owner      string
	Generation uint64
	// Duration is for how long a renewal lasts. One of zero ends the lease.
	Duration time.Duration
}

// An Update is what an owner changes in one step.
type Update struct {
	// In and Acked are raised to these numbers. A lower number, such as zero,
	// changes nothing.
	In, Acked uint64
	// Messages are appended for the client.
	Messages [][]byte
	// Confirmed says that the client has shown the token of this generation:
	// from now on earlier ones are refused with ErrSessionTaken.
	Confirmed bool
	// Sent is the last message that was given to the client's transport. If
	// the store has none of that number, or another, it went back:
	// ErrStateRegressed.
	Sent Sent
	// Mark is random for each update, and After is the mark of the update
	// before, or of the snapshot. The store keeps the last. If it has Mark,
	// the update was done and comes again; if it has neither, it went back:
	// ErrStateRegressed.
	Mark, After string
}

// Sent names a message as it was when it was read or appended. The zero value
// names none.
type Sent struct {
	Seq   uint64
	Batch string
}

// A Progress is what an owner learns when it changes or renews something.
type Progress struct {
	// Out is the last message appended, by anybody.
	Out uint64
	// First is the number of the first of Update.Messages. They have the
	// Update's Mark as their batch.
	First uint64
}

// A Renewal is the result for one lease.
type Renewal struct {
	Progress Progress
	Err      error
}

// A Batch is messages to append together.
type Batch struct {
	// ID is random for each batch: one that comes again is known by it.
	ID string
	// Age is zero the first time, and then for how long the outcome has been
	// unknown. A store that cannot tell any more whether a batch of that age
	// was appended returns transparency.ErrUncertain and does not append.
	Age      time.Duration
	Messages [][]byte
}

// An Outgoing is a message for the client.
type Outgoing struct {
	Seq   uint64
	Batch string
	Data  []byte
}

// An Event is sent from one instance to another.
type Event struct {
	Kind    EventKind
	Session string
	// From is the instance that wants the session, for a Yield, and Generation
	// the ownership that is to end. Zero stands for any.
	From       string
	Generation uint64
	// Out is the last message, for an Appended. Zero stands for any.
	Out uint64
}

// An EventKind says what happened.
type EventKind uint8

// The events.
const (
	// Appended says that there are messages for the client.
	Appended EventKind = 1 + iota
	// Yield asks the owner to finish what it does and to release the session.
	Yield
	// Released says that a session that was asked for is free.
	Released
	// Missed says that events of any kind may have been missed.
	Missed
)
