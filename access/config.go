package access

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-transparency/transparency"
)

// A ConfigRepository reads configuration documents, wherever they are kept.
// Implementations are safe for concurrent use.
type ConfigRepository interface {
	// Get returns the document stored under key as it is now. When there is
	// none, Get returns an error wrapping [ErrNotFound]; when key breaks the
	// grammar, one wrapping [ErrInvalidKey]. Get returns as soon as ctx ends.
	// The document's Data belongs to the caller.
	Get(ctx context.Context, key string) (Document, error)
}

// A Document is one complete state of what is stored under a key. Formatting
// one prints everything but its Data, which may hold secrets.
type Document struct {
	// Key is what the document was asked for by.
	Key string
	// Data is the document itself, byte for byte. It is never empty and
	// belongs to the caller.
	Data []byte `json:"-"`
	// Version stands for Data: equal versions mean equal bytes, on the same
	// backend or another. See [Version].
	Version string
	// FetchedAt is when the backend was asked: Data was current then or later.
	FetchedAt time.Time
	// Stale reports that the backend could not be asked and that Data is what
	// it last said, at FetchedAt. No backend of this package returns a stale
	// document on its own.
	Stale bool
}

// String returns the document without its Data.
func (d Document) String() string {
	stale := ""
	if d.Stale {
		stale = ", stale"
	}
	return fmt.Sprintf("document %q (%d bytes, version %.12s%s)", shorten(d.Key), len(d.Data), d.Version, stale)
}

// Format keeps Data out of every verb, %#v and %x included.
func (d Document) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }

// Version returns the version of a document of these bytes: their SHA-1 in
// hexadecimal. It tells contents apart; it is no protection against someone
// who forges them, nor against one who guesses a short secret and compares.
func Version(data []byte) string {
	sum := sha1.Sum(data) // what Redis can compute as well, in a script
	return hex.EncodeToString(sum[:])
}

// A Writer is a [ConfigRepository] that can be written. [Put] reaches it.
type Writer interface {
	// Put stores data under key, whole, if opts allow it, and returns its
	// version. It keeps no reference to data, and refuses empty data with
	// [transparency.ErrInvalid]. When the document is not what
	// opts ask for, Put returns an error wrapping [ErrConflict] and nothing
	// is written. When the answer was lost, it returns one wrapping
	// [transparency.ErrUncertain]: Get tells which version is stored by then.
	Put(ctx context.Context, key string, data []byte, opts *PutOptions) (version string, err error)
}

// PutOptions are the conditions of a Put. Nil and the zero value mean none;
// both at once are refused with [transparency.ErrInvalid].
type PutOptions struct {
	// IfVersion writes only over the document of this version, and so makes a
	// compare-and-set of Get and Put.
	IfVersion string
	// IfAbsent writes only when there is no document yet.
	IfAbsent bool
}

func (o *PutOptions) check() (PutOptions, error) {
	if o == nil {
		return PutOptions{}, nil
	}
	if o.IfAbsent && o.IfVersion != "" {
		return PutOptions{}, invalid("IfAbsent and IfVersion exclude each other")
	}
	return *o, nil
}

// Put stores a document through the [Writer] that repo is. When repo cannot
// write, Put returns an error wrapping [errors.ErrUnsupported], of class
// [transparency.ErrInvalid].
func Put(ctx context.Context, repo ConfigRepository, key string, data []byte, opts *PutOptions) (version string, err error) {
	if w, ok := repo.(Writer); ok {
		return w.Put(ctx, key, data, opts)
	}
	return "", opError("put", key, errReadOnly)
}

var errReadOnly = fmt.Errorf("%w: this repository cannot write: %w", transparency.ErrInvalid, errors.ErrUnsupported)
