package location

import (
	"errors"
	"fmt"

	"github.com/go-transparency/transparency"
)

// The package's own answers. None of them is a failure of the registry, so
// none of them has a class of the root package.
var (
	// ErrUnknownService says that no instance of the service was ever heard
	// of, or not for so long that it is forgotten. It mostly is a wrong name.
	ErrUnknownService = errors.New("unknown service")

	// ErrNoInstances says that the service is known and has no instances.
	ErrNoInstances = errors.New("no instances")

	// ErrInstanceConflict says that another holds the instance's id: it was
	// registered before this one, or took the id over.
	ErrInstanceConflict = errors.New("the instance id is taken by another")

	// ErrLost says that a registration could not be renewed for so long that
	// the registry must have dropped it, or that the registry said so. It is
	// being made again.
	ErrLost = errors.New("registration lost")

	// ErrDeregistered says that the registration was ended by its owner.
	ErrDeregistered = errors.New("deregistered")

	// ErrClosed says that the Registry or the Balancer was closed.
	ErrClosed = errors.New("closed")
)

// An opError names the operation and the service of an error. A name that is
// not valid is left out: it can be a URL with a password.
type opError struct {
	op, service string
	err         error
}

func (e *opError) Error() string {
	if e.service == "" {
		return fmt.Sprintf("location: %s: %v", e.op, e.err)
	}
	return fmt.Sprintf("location: %s %q: %v", e.op, e.service, e.err)
}

func (e *opError) Unwrap() error { return e.err }

func failed(op, service string, err error) error {
	var inner *opError
	if errors.As(err, &inner) { // of an operation that this one is made of
		err = inner.err
	}
	return &opError{op, service, err}
}

// errNotMade is what the methods of a zero value return that needs a constructor, and of a nil pointer.
var errNotMade = invalid("it was not made by a constructor")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", transparency.ErrInvalid, fmt.Errorf(format, args...))
}
