package access

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-transparency/transparency"
)

// The answers of a repository that are no documents. The first three are this
// package's own "no"; the others wrap [transparency.ErrInvalid]: what was asked
// for, or what is stored, can never work.
var (
	// ErrNotFound says that the backend was asked and has no such document.
	ErrNotFound = errors.New("not found")

	// ErrConflict says that the document is not what [PutOptions] asked for,
	// and that nothing was written.
	ErrConflict = errors.New("conflict")

	// ErrClosed says that [Repository.Close] was called.
	ErrClosed = errors.New("closed")

	// ErrInvalidKey says that the key breaks the grammar, which is the same on
	// every backend. Nothing was asked of the backend.
	ErrInvalidKey = fmt.Errorf("%w key", transparency.ErrInvalid)

	// ErrTooLarge says that the document has more than MaxBytes.
	ErrTooLarge = fmt.Errorf("%w: too large", transparency.ErrInvalid)

	// ErrRedirect says that an HTTP server sent the request to another origin,
	// or on and on, and that it was not followed: credentials never leave
	// their origin.
	ErrRedirect = fmt.Errorf("%w: redirect refused", transparency.ErrInvalid)
)

// StatusError is the status with which an HTTP server refused. It stands
// beside its class in the tree of an error; reach it with [errors.As].
type StatusError struct {
	// Code is the HTTP status code.
	Code int
	// RetryAfter is how long the server asked to be left alone, at most five
	// minutes. Zero means that it did not say.
	RetryAfter time.Duration
}

// Error returns the status, like "HTTP status 503 Service Unavailable".
func (e *StatusError) Error() string {
	if text := http.StatusText(e.Code); text != "" {
		return fmt.Sprintf("HTTP status %d %s", e.Code, text)
	}
	return fmt.Sprintf("HTTP status %d", e.Code)
}

// opError says what was asked for and what came of it.
func opError(op, key string, err error) error {
	return fmt.Errorf("access: %s %q: %w", op, shorten(key), err)
}

// invalid returns an error of class [transparency.ErrInvalid].
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", transparency.ErrInvalid, fmt.Sprintf(format, args...))
}
