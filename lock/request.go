package lock

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Mutex returns the mutex of key. It does no I/O; a key or an option that can
// never work is an error of each operation, wrapping
// [github.com/go-transparency/transparency.ErrInvalid].
func (l *Locker) Mutex(key string, opts *MutexOptions) Mutex {
	var ttl time.Duration
	if opts != nil {
		ttl = opts.TTL
	}
	return &mutex{l.request(key, ttl)}
}

// A request is what a Mutex and a Semaphore ask for.
type request struct {
	l       *Locker
	key     string
	ttl     time.Duration
	permits int   // 0 for a lock
	err     error // why it can never work
}

func (l *Locker) request(key string, ttl time.Duration) request {
	q := request{l: l, key: key, err: l.unusable()}
	switch {
	case q.err != nil:
	case key == "":
		q.err = errEmptyKey
	case ttl == 0:
		q.ttl = l.opts.TTL
	default:
		q.ttl, q.err = checkTTL(ttl)
	}
	return q
}

var errEmptyKey = invalid("the key is empty")

// acquire answers for the operation op.
func (q *request) acquire(ctx context.Context, op string, wait bool) (*Lease, error) {
	lease, err := q.l.acquire(ctx, q, wait)
	if err != nil {
		return nil, failed(op, q.key, err)
	}
	return lease, nil
}

type mutex struct{ request }

func (m *mutex) Lock(ctx context.Context) (*Lease, error)    { return m.acquire(ctx, "lock", true) }
func (m *mutex) TryLock(ctx context.Context) (*Lease, error) { return m.acquire(ctx, "trylock", false) }

func (m *mutex) String() string { return fmt.Sprintf("lock.Mutex(%q)", m.key) }

func (m *mutex) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, m.String()) }
