package lock

import (
	"context"
	"fmt"
	"io"
	"time"
)

// A Semaphore is the right to ask for one of a number of permits. It is safe
// for concurrent use. It comes from [Locker.Semaphore]; the zero value has no
// store, and grants nothing.
//
// A permit is a [Lease], with all that a lock's lease has: it is renewed, its
// loss is told in time, and its fence is greater than those of all permits of
// the key before. Several are held at once, though, so a resource that refuses
// every fence but the greatest is no match for a Semaphore: there the fence
// tells permits apart, and says which is younger.
type Semaphore struct{ request request }

// SemaphoreOptions changes what a Semaphore takes from its Locker. Nil is fine.
type SemaphoreOptions struct {
	// TTL is how long a permit outlives a holder that crashed, from one
	// millisecond to [MaxTTL]. Zero means the Locker's.
	TTL time.Duration
}

// Semaphore returns the semaphore of key, of which at most permits are held at
// a time, in all processes together. It has nothing to do with the Mutex of the
// same key. It does no I/O; a key, a number of permits below one, or an option
// that can never work is an error of each operation, wrapping
// [github.com/go-transparency/transparency.ErrInvalid].
//
// The number is not kept in the store: each call is judged by its own. Where
// processes differ, as while a new number is rolled out, a call is granted a
// permit when fewer permits are held than it knows of, whoever holds them. So
// never more are held than the greatest number, and who knows of fewer waits
// for longer; nothing that is held is taken away.
func (l *Locker) Semaphore(key string, permits int, opts *SemaphoreOptions) *Semaphore {
	var ttl time.Duration
	if opts != nil {
		ttl = opts.TTL
	}
	s := &Semaphore{l.request(key, ttl)}
	if s.request.permits = permits; permits < 1 && s.request.err == nil {
		s.request.err = invalid("there are %d permits, and a semaphore has one at least", permits)
	}
	return s
}

// Acquire waits until a permit is granted. What [Mutex].Lock says of its
// context, its errors and what they leave behind is true here too. In one
// process the calls for a key are served in turn, and so, in about the order
// in which they began to wait, are the processes that know of the same number
// of permits.
func (s *Semaphore) Acquire(ctx context.Context) (*Lease, error) {
	return s.acquire(ctx, "acquire", true)
}

// TryAcquire asks once, without waiting. It returns an error wrapping
// [ErrHeld] when all permits are held, or somebody waits for one in this
// process.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Lease, error) {
	return s.acquire(ctx, "tryacquire", false)
}

// Do calls fn under a permit, as the function [Do] calls it under a lock.
func (s *Semaphore) Do(ctx context.Context, fn func(ctx context.Context, fence uint64) error) error {
	return cover(ctx, s.Acquire, fn)
}

func (s *Semaphore) acquire(ctx context.Context, op string, wait bool) (*Lease, error) {
	if s == nil || s.request.l == nil && s.request.err == nil {
		return nil, failed(op, "", invalid("the Semaphore is not from a Locker"))
	}
	return s.request.acquire(ctx, op, wait)
}

// String names the key and the number of permits.
func (s *Semaphore) String() string {
	if s == nil {
		return "lock.Semaphore(nil)"
	}
	return fmt.Sprintf("lock.Semaphore(%q, %d)", s.request.key, s.request.permits)
}

// Format is String for every verb.
func (s *Semaphore) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }
