package session

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/go-transparency/transparency/internal/rediskit"
)

// What zero fields of options mean.
const (
	DefaultMaxBytes = 64 << 10
	DefaultTimeout  = rediskit.DefaultTimeout
)

const maxID = 256

// A driver keeps sessions. Its methods are called with valid arguments, give
// each change the version next, and answer with this package's sentinels or an
// error in a class of the root package. Run twice with the same arguments, a
// method gives the same answer as long as nobody wrote in between: a session
// whose version is next already was changed by this very call.
//
// It is not exported: [SessionStore] is the port for stores written elsewhere,
// and they are held to it by the same suite.
type driver interface {
	// create answers ErrExists when there is a session, unless replace is set.
	// The record's Data is left to the engine.
	create(ctx context.Context, id string, data []byte, next Version, lt Lifetimes, replace bool) (Record, error)
	load(ctx context.Context, id string) (Record, error)
	// save leaves the record's Data to the engine.
	save(ctx context.Context, id string, data []byte, ifVersion, next Version) (Record, error)
	touch(ctx context.Context, id string) (Record, error)
	delete(ctx context.Context, id string) error
}

// An engine is a [SessionStore] over a driver. What both forms promise alike
// (what an id is, sizes, lifetimes, versions, the text of errors) is here.
type engine struct {
	driver   driver
	maxBytes int64
}

func newEngine(d driver, maxBytes int64) engine {
	if maxBytes == 0 {
		maxBytes = DefaultMaxBytes
	}
	return engine{driver: d, maxBytes: maxBytes}
}

// Create stores data as a new session; see [SessionStore].
func (e *engine) Create(ctx context.Context, id string, data []byte, lt Lifetimes) (Record, error) {
	rec, err := e.put(ctx, id, data, lt, false)
	return rec, opError("create", err)
}

// Replace stores data as a new session in place of any that is there; see
// [Replacer].
func (e *engine) Replace(ctx context.Context, id string, data []byte, lt Lifetimes) (Record, error) {
	rec, err := e.put(ctx, id, data, lt, true)
	return rec, opError("replace", err)
}

func (e *engine) put(ctx context.Context, id string, data []byte, lt Lifetimes, replace bool) (Record, error) {
	if err := e.check(ctx, id); err != nil {
		return Record{}, err
	}
	if err := lt.check(); err != nil {
		return Record{}, err
	}
	if err := e.checkSize(data); err != nil {
		return Record{}, err
	}
	rec, err := e.driver.create(ctx, id, data, Version(rand.Text()), lt, replace)
	if err != nil {
		return Record{}, err
	}
	rec.Data = clone(data)
	return rec, nil
}

// Load returns the session; see [SessionStore].
func (e *engine) Load(ctx context.Context, id string) (Record, error) {
	if err := e.check(ctx, id); err != nil {
		return Record{}, opError("load", err)
	}
	rec, err := e.driver.load(ctx, id)
	if err != nil {
		return Record{}, opError("load", err)
	}
	return rec, nil
}

// Save replaces the data of a session; see [SessionStore].
func (e *engine) Save(ctx context.Context, id string, data []byte, ifVersion Version) (Record, error) {
	rec, err := e.save(ctx, id, data, ifVersion)
	return rec, opError("save", err)
}

func (e *engine) save(ctx context.Context, id string, data []byte, ifVersion Version) (Record, error) {
	if err := e.check(ctx, id); err != nil {
		return Record{}, err
	}
	if ifVersion == "" {
		return Record{}, invalid("the version is empty")
	}
	if err := e.checkSize(data); err != nil {
		return Record{}, err
	}
	rec, err := e.driver.save(ctx, id, data, ifVersion, Version(rand.Text()))
	if err != nil {
		return Record{}, err
	}
	rec.Data = clone(data)
	return rec, nil
}

// Touch extends the idle time of a session; see [SessionStore].
func (e *engine) Touch(ctx context.Context, id string) (Record, error) {
	if err := e.check(ctx, id); err != nil {
		return Record{}, opError("touch", err)
	}
	rec, err := e.driver.touch(ctx, id)
	if err != nil {
		return Record{}, opError("touch", err)
	}
	return rec, nil
}

// Delete ends a session; see [SessionStore].
func (e *engine) Delete(ctx context.Context, id string) error {
	if err := e.check(ctx, id); err != nil {
		return opError("delete", err)
	}
	return opError("delete", e.driver.delete(ctx, id))
}

// check refuses what no driver need see.
func (e *engine) check(ctx context.Context, id string) error {
	switch {
	case e.driver == nil:
		return invalid("a store that was not made by its constructor")
	case id == "":
		return invalid("the id is empty")
	case len(id) > maxID:
		return invalid("the id has %d bytes, the limit is %d", len(id), maxID)
	}
	return ctx.Err()
}

func (e *engine) checkSize(data []byte) error {
	if e.maxBytes > 0 && int64(len(data)) > e.maxBytes {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(data), e.maxBytes)
	}
	return nil
}

// clone is never nil: data that is empty was still stored.
func clone(data []byte) []byte {
	return append(make([]byte, 0, len(data)), data...)
}
