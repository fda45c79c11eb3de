package session

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/go-transparency/transparency"
)

// The answers of this package. The first three are no failures: the store was
// reached and said no. The others can never work as they stand, and wrap
// [transparency.ErrInvalid].
var (
	// ErrNotFound says that there is no such session: it never was, has been
	// deleted, has expired, or the token is malformed, forged or no longer
	// valid. Which of these is not told, because it helps only who guesses.
	ErrNotFound = errors.New("not found")

	// ErrExists says that the id is in use.
	ErrExists = errors.New("exists")

	// ErrConflict says that the session has been written since the version
	// that the caller had. Nothing was written; load, decide again, and save.
	ErrConflict = errors.New("conflict")

	// ErrTooLarge says that data is larger than the store's MaxBytes. Nothing
	// was written.
	ErrTooLarge = fmt.Errorf("%w: too large", transparency.ErrInvalid)

	// ErrCorrupt says that what is stored cannot be read as what was asked
	// for. It is left as it is.
	ErrCorrupt = fmt.Errorf("%w: corrupt", transparency.ErrInvalid)

	// ErrTooNew says that a later version of this package or program wrote the
	// session in a form that this one does not know. It is left as it is, for
	// those who do.
	ErrTooNew = fmt.Errorf("%w: written by a newer version", transparency.ErrInvalid)
)

// opError names the operation that failed. Ids are secrets and stay out.
func opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("session: %s: %w", op, err)
}

// checkStore refuses what would panic.
func checkStore(store SessionStore) error {
	if v := reflect.ValueOf(store); store == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return invalid("the store is nil")
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{transparency.ErrInvalid}, args...)...)
}
