package location

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"
)

// A Driver is the store behind a [Registry]: five operations that the engine
// builds supervision, last known good and watching on. It must be safe for
// concurrent use. Package locationtest holds the checks that every Driver
// passes.
//
// Leases are judged by the store's clock: one of a TTL that was granted at an
// instant of the store ends that long after it, unless renewed. The engine
// never sends a time of day. Names of services come clean, endpoints checked
// and with an ID.
//
// A method returns soon after its ctx ends, and after a bounded time in any
// case. Its errors are those of this package that are named below, or wrap a class of the
// root package; an error without one counts as [transparency.ErrUncertain], or
// for List as ErrUnavailable.
type Driver interface {
	// Register puts in into the service for in.TTL. When its ID is registered
	// with another token, and the lease has not run out, it returns
	// [ErrInstanceConflict], or, if takeover is set, takes the ID away from
	// that token for good. A token that was deregistered, or from which the ID
	// was taken, gets ErrInstanceConflict whenever its call is executed, for at
	// least ten minutes. Registering again with the same token renews.
	Register(ctx context.Context, service string, in Instance, takeover bool) error

	// Renew makes the lease last for in.TTL from now. When it has run out, or
	// there is none, it returns [ErrLost], and does not make it again; when the
	// ID is another token's, or was taken from this one, ErrInstanceConflict.
	Renew(ctx context.Context, service string, in Instance) error

	// Deregister ends the lease of in.ID if it is in.Token's, and else leaves
	// it alone. Doing so again is no error. When no lease is left, the service
	// is empty on purpose.
	Deregister(ctx context.Context, service string, in Instance) error

	// List returns the endpoints whose leases last. known is the Version of
	// the Listing that the caller has, or empty; the driver may answer Same.
	// It changes nothing.
	List(ctx context.Context, service, known string) (Listing, error)

	// Listen calls wake with the name of a service whenever its endpoints may
	// have changed, until ctx ends or the source of news fails, and returns
	// why. It calls wake("") each time it has begun to hear. It may miss news;
	// the engine looks in any case. wake does not block.
	Listen(ctx context.Context, wake func(service string)) error
}

// An Instance is one registration of an endpoint.
type Instance struct {
	Endpoint Endpoint

	// Token is unique to one call of [Registry.Register]: letters, digits, "-"
	// and "_".
	Token string `json:"-"`

	// TTL is in whole milliseconds.
	TTL time.Duration
}

// Format prints the instance, for every verb, without the token and Meta.
func (in Instance) Format(s fmt.State, _ rune) {
	fmt.Fprintf(s, "location.Instance{%q %v for %v}", in.Endpoint.ID, in.Endpoint, in.TTL)
}

// A Listing is what a [Driver] knows of a service.
type Listing struct {
	// Version changes whenever the endpoints or their number do.
	Version string

	// Same says that this is the version that the caller knows. Endpoints and
	// Broken are then not given.
	Same bool

	// Known says that the service is known, with or without endpoints.
	Known bool

	// Epoch changes when the store has lost what it knew, and with that alone.
	Epoch string

	// Emptied says that there are no endpoints because the last one was
	// deregistered, and not because leases ran out.
	Emptied bool

	// SinceVoid is how long ago an instance was registered at a time when all
	// leases had run out. Zero means that this is not known to have happened.
	SinceVoid time.Duration

	Endpoints []Endpoint

	// Broken counts endpoints that could not be decoded.
	Broken int
}

const tokenBytes = 18

// randomText returns 144 random bits in base64url.
func randomText() string {
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
