package lock

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"time"
)

// A Driver is the store behind a [Locker]: five operations that the engine
// builds renewal, validity, waiting and undoing on. It must be safe for
// concurrent use. Package locktest holds the checks that every Driver passes.
//
// Expiry is relative and judged by the store's clock: a claim of a TTL that
// was executed at an instant of the store ends that long after it, unless
// renewed. The engine never sends a time of day.
//
// A method returns soon after its ctx ends. Its errors wrap a class of the
// root package; an error without one counts as
// [transparency.ErrUncertain].
type Driver interface {
	// Acquire tries once to give c.Key to c.Token for c.TTL. When the key is
	// free, or already given to that very token, it is granted, anew and for
	// the whole TTL, with a fence greater than every fence given for the key
	// before. Else the Grant has no fence, says who has the key and how long
	// that claim lasts, and if queue is set the token stands in line: an
	// orderly release then hands the key to the token that has stood there
	// longest. Asking again does not change its place.
	//
	// With c.Permits the key is a semaphore, apart from the lock of the same
	// key: it is free as long as fewer than c.Permits other tokens have it, and
	// a release hands it to the first in line for whose own number of permits
	// that is so.
	//
	// A grant that comes too late to be returned is undone by the Driver.
	Acquire(ctx context.Context, c Claim, queue bool) (Grant, error)

	// Renew makes each claim last for its TTL from now, and returns one result
	// for each, in order: nil, an error wrapping [ErrLost] when the key is
	// not given to that token, or why it is not known. It never gives a key to
	// a token that had lost it.
	Renew(ctx context.Context, claims []Claim) []error

	// Release takes c.Key away from c.Token, and the token out of the line,
	// and reports whether the key had been given to it. A key that is given to
	// another is left alone, so that a repeated Release does no harm. When
	// tokens stand in line the key is handed to the first, for a grace that is
	// long enough for one Acquire, and its owner is woken.
	Release(ctx context.Context, c Claim) (bool, error)

	// Break takes the lock of key away from whatever token has it, as that
	// token's Release would, and returns a fence that is greater than every
	// fence given for the key before, and smaller than those given after. That
	// nobody has the lock is no error.
	Break(ctx context.Context, key string) (uint64, error)

	// Listen calls wake with the key whenever one is handed to a token of this
	// owner, until ctx ends or the source of news fails, and returns why. It
	// calls wake("") each time it has begun to hear: what happened before was
	// missed. It may miss news later too; the engine asks again in any case.
	// wake does not block.
	Listen(ctx context.Context, owner string, wake func(key string)) error
}

// A Claim is a token's claim on a key.
type Claim struct {
	Key string

	// Token is unique to one acquisition, and all tokens have one length. It
	// starts with the [Owner].
	Token string `json:"-"`

	// TTL is in whole milliseconds, at least one.
	TTL time.Duration

	// Permits is how many tokens may have the key at once. Zero means that the
	// key is a lock, and not a semaphore.
	Permits int

	// Holder is what those who ask for the key in vain are told of this claim;
	// it may be empty.
	Holder string
}

// A Grant is the answer to an attempt.
type Grant struct {
	// Fence is zero when the key is given to another, and else greater than
	// every fence given for the key before.
	Fence uint64

	// Remaining is how long the other's claim lasts; of several, the one whose
	// end makes the key free. Zero means that the key may be free by now.
	Remaining time.Duration

	// Holder is what that claim says of itself.
	Holder string

	// Passing says that the key was handed over, to a token that has not taken
	// it up yet: Remaining is the grace, and there will be more.
	Passing bool
}

const (
	ownerBytes = 12
	nonceBytes = 18
	ownerLen   = ownerBytes / 3 * 4
)

// Owner returns the part of a token that names its Locker, the owner that
// [Driver.Listen] is called with.
func Owner(token string) string {
	return token[:min(ownerLen, len(token))]
}

func newOwner() string {
	var b [ownerBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// newToken returns the owner's name followed by 144 random bits.
func newToken(owner string) string {
	var nonce [nonceBytes]byte
	_, _ = rand.Read(nonce[:])
	b := make([]byte, 0, ownerLen+nonceBytes/3*4)
	b = append(b, owner...)
	return string(base64.RawURLEncoding.AppendEncode(b, nonce[:]))
}
