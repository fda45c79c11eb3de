package session

import "context"

// A SessionStore keeps the data of sessions outside of the requests, and where
// wanted outside of the instances, that use them. [MemoryStore] and
// [RedisStore] are its forms here; package sessiontest holds both, and any
// other, to what is written below.
//
// An id is 1 to 256 bytes of any value; another is refused with
// [transparency.ErrInvalid] before anything is sent. Data is any bytes, also
// none, up to the store's size limit; it is copied in and out. A call whose
// context has ended by then changes nothing.
//
// There is no unconditional save on purpose: it is how a slow request undoes
// the write of another and how a session that was logged out comes back. There
// is no listing of sessions either.
//
// All methods are safe for concurrent use. Beside the errors they name, they
// fail in the classes of the root package: after [transparency.ErrUncertain] a
// change may have happened, after any other it has not.
type SessionStore interface {
	// Create stores data as a new session that lives as lt says. If there is
	// a session of that id, Create returns an error wrapping [ErrExists] and
	// changes nothing. Data over the size limit is refused with [ErrTooLarge], in
	// an error that names both sizes.
	Create(ctx context.Context, id string, data []byte, lt Lifetimes) (Record, error)

	// Load returns the session. If there is none, or it has expired, Load
	// returns an error wrapping [ErrNotFound]. Load changes nothing: it does
	// not extend the idle time.
	Load(ctx context.Context, id string) (Record, error)

	// Save replaces the data of the session if its version is still
	// ifVersion, gives it a new version and starts its idle time again, up to
	// the deadline. If it has another version, Save returns an error wrapping
	// [ErrConflict]; if there is no session, or it has expired, one wrapping
	// [ErrNotFound]: Save never brings back what is gone. Data over the size
	// limit is refused with [ErrTooLarge], and an empty ifVersion with
	// [transparency.ErrInvalid]. In all these cases nothing changes.
	Save(ctx context.Context, id string, data []byte, ifVersion Version) (Record, error)

	// Touch starts the idle time of the session again, up to the deadline.
	// Data and version stay, and the Data of the record that is returned is
	// nil. If there is no session, or it has expired, Touch returns an error
	// wrapping [ErrNotFound].
	Touch(ctx context.Context, id string) (Record, error)

	// Delete ends the session. There being none is no error.
	Delete(ctx context.Context, id string) error
}

// A Replacer is a [SessionStore] that can put a session in the place of
// another in one step. Both stores here are; [SaveJSON] makes use of it.
type Replacer interface {
	// Replace stores data as a new session that lives as lt says, whether or
	// not there was one of that id.
	Replace(ctx context.Context, id string, data []byte, lt Lifetimes) (Record, error)
}
