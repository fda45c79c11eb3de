package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/rediskit"
)

// What zero fields of [Options] mean.
const (
	DefaultMaxBytes = 1 << 20
	DefaultTimeout  = 3 * time.Second
)

// A Driver is what a backend has to be able to do; [New] makes a repository of
// it. All that is the same for every backend (keys, limits, time, copies,
// versions, the form of errors) is done there, once.
//
// The methods are called concurrently, with keys that obey the grammar, and
// may run on when the caller has gone.
type Driver interface {
	// Fetch returns the bytes stored under key, or an error wrapping
	// [ErrNotFound]. It needs to read no more than limit+1 of them: that is
	// enough to refuse the document as too large. The engine copies what
	// Fetch returns.
	//
	// Other errors wrap the class they belong to; one without a class counts
	// as [transparency.ErrUnavailable]. Their text holds no secret.
	Fetch(ctx context.Context, key string, limit int64) ([]byte, error)
}

// A WriteDriver is a [Driver] whose documents can be written.
type WriteDriver interface {
	Driver
	// Store writes data, which is its to keep, under key, or returns an error
	// wrapping [ErrConflict] when cond does not hold; both in one atomic
	// step. cond compares with [Version]. An error without a class counts as
	// [transparency.ErrUncertain].
	Store(ctx context.Context, key string, data []byte, cond PutOptions) error
}

// Options are what every repository has. Nil and zero fields mean the
// defaults.
type Options struct {
	// MaxBytes is the size of the largest document. Zero means
	// [DefaultMaxBytes]; negative means no limit.
	MaxBytes int64
	// Timeout bounds each operation, beside its context. Zero means
	// [DefaultTimeout]; negative means none.
	Timeout time.Duration
}

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	switch {
	case opts.MaxBytes == 0:
		opts.MaxBytes = DefaultMaxBytes
	case opts.MaxBytes < 0, opts.MaxBytes == math.MaxInt64:
		opts.MaxBytes = math.MaxInt64 - 1 // so that one more can be asked for
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	return opts
}

// A Repository is the [ConfigRepository], and [Writer], that every backend of
// this package is. It is safe for concurrent use, and a copy of it is the same
// repository. The constructors make one; the zero Repository only returns
// errors, of class [transparency.ErrInvalid]. Formatting one shows the type of
// its driver and nothing else.
type Repository struct{ engine *engine }

// An engine is behind a pointer, so that package fmt does not get at headers
// and documents through a Repository in another struct, where it asks nobody.
type engine struct {
	driver Driver
	broken error // what its constructor was told can never work
	opts   Options
	gate   *rediskit.Gate

	closed  atomic.Bool
	closing func() error // called once
}

var _ interface {
	ConfigRepository
	Writer
	io.Closer
} = (*Repository)(nil)

// New returns a repository over driver. Close closes the driver, if that is an
// [io.Closer].
func New(driver Driver, opts *Options) *Repository {
	if driver == nil {
		return newRepository(nil, invalid("the driver is nil"), opts)
	}
	return newRepository(driver, nil, opts)
}

func newRepository(driver Driver, broken error, opts *Options) *Repository {
	e := &engine{driver: driver, broken: broken, opts: opts.withDefaults()}
	e.gate = rediskit.NewGate(e.opts.Timeout)
	e.closing = sync.OnceValue(func() error {
		if c, ok := driver.(io.Closer); ok {
			return c.Close()
		}
		return nil
	})
	return &Repository{e}
}

// Format keeps what the repository holds out of every verb.
func (r Repository) Format(f fmt.State, _ rune) {
	if r.engine == nil {
		_, _ = io.WriteString(f, "configuration repository (none)")
		return
	}
	fmt.Fprintf(f, "configuration repository (%T)", r.engine.driver)
}

// Get returns the document stored under key as it is now; nothing is cached.
// It returns as soon as ctx ends or the time is up.
//
// The error wraps [ErrNotFound] when there is no such document,
// [ErrInvalidKey] when there never can be, [ErrTooLarge] when it exceeds
// MaxBytes, [ErrClosed] after Close, and else a class:
// [transparency.ErrUnavailable] when the backend gave no answer,
// [transparency.ErrDenied] when it refused the caller,
// [transparency.ErrInvalid] when what it has is no document, an empty one
// included. A Get changes nothing: its outcome is never unknown.
func (r *Repository) Get(ctx context.Context, key string) (Document, error) {
	doc, err := r.get(ctx, key)
	if err != nil {
		return Document{}, opError("get", key, err)
	}
	return doc, nil
}

func (r *Repository) get(ctx context.Context, key string) (Document, error) {
	if err := r.check(key); err != nil {
		return Document{}, err
	}
	e := r.engine
	asked := time.Now()
	data, err := ask(ctx, e.gate, rediskit.Reads, func(ctx context.Context) ([]byte, error) {
		data, err := e.driver.Fetch(ctx, key, e.opts.MaxBytes)
		if errors.Is(err, transparency.ErrUncertain) { // about nothing that changed
			err = fmt.Errorf("%w: %s", transparency.ErrUnavailable, err.Error())
		}
		return data, err
	})
	if err == nil {
		err = e.checkData(data)
	}
	if err != nil {
		return Document{}, err
	}
	data = bytes.Clone(data)
	return Document{Key: key, Data: data, Version: Version(data), FetchedAt: asked}, nil
}

// Put stores data under key, as [Writer] says, where the backend can: memory,
// Redis, and drivers that are a [WriteDriver]. Elsewhere the error wraps
// [errors.ErrUnsupported].
//
// A condition compares what is stored at that moment, so of several writers
// that read the same version and change it one wins, and the others get
// [ErrConflict], even if all write the same bytes. Besides the errors of Get,
// the error can wrap [transparency.ErrUncertain]: no answer came, and the data
// may be stored, or still be going to be.
func (r *Repository) Put(ctx context.Context, key string, data []byte, opts *PutOptions) (version string, err error) {
	version, err = r.put(ctx, key, data, opts)
	if err != nil {
		return "", opError("put", key, err)
	}
	return version, nil
}

func (r *Repository) put(ctx context.Context, key string, data []byte, opts *PutOptions) (string, error) {
	if err := r.check(key); err != nil {
		return "", err
	}
	cond, err := opts.check()
	if err != nil {
		return "", err
	}
	e := r.engine
	driver, ok := e.driver.(WriteDriver)
	if !ok {
		return "", errReadOnly
	}
	if err := e.checkData(data); err != nil {
		return "", err
	}
	data = bytes.Clone(data) // the driver may keep it, or still run when the caller has gone
	version := Version(data)
	_, err = ask(ctx, e.gate, rediskit.Writes, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, driver.Store(ctx, key, data, cond)
	})
	if err != nil {
		return "", err
	}
	return version, nil
}

// Close ends the repository: later calls return [ErrClosed], those under way
// may still succeed. It closes the client that [Open] made, and nothing that
// was given. Closing again is fine.
func (r *Repository) Close() error {
	if r == nil || r.engine == nil {
		return nil
	}
	r.engine.closed.Store(true)
	if err := r.engine.closing(); err != nil {
		return fmt.Errorf("access: close: %w", rediskit.Classify(rediskit.Writes, err))
	}
	return nil
}

func (r *Repository) check(key string) error {
	switch {
	case r == nil || r.engine == nil:
		return invalid("the repository was not made by a constructor")
	case r.engine.closed.Load():
		return ErrClosed
	case r.engine.broken != nil:
		return r.engine.broken
	}
	return checkKey(key)
}

func (e *engine) checkData(data []byte) error {
	if len(data) == 0 {
		return invalid("the document is empty")
	}
	return checkSize(int64(len(data)), e.opts.MaxBytes)
}

// checkSize does not tell size: what was read may be only the beginning.
func checkSize(size, limit int64) error {
	if size > limit {
		return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return nil
}

// ask runs one call of a driver beside its caller. The driver's "no" is an
// answer, which must not be classed as a failure.
func ask[T any](ctx context.Context, gate *rediskit.Gate, effect rediskit.Effect, call func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		no    error
	}
	got, err := rediskit.Do(ctx, gate, effect, func(ctx context.Context) (answer, error) {
		value, err := call(ctx)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) {
			return answer{no: err}, nil
		}
		return answer{value: value}, err
	}, nil)
	if err != nil {
		return got.value, err
	}
	return got.value, got.no
}
