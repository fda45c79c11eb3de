package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Mutex is the right to ask for one lock. It is safe for concurrent use, and
// unlike a sync.Mutex it is not locked itself: each [Lease] is. There is no
// reentrancy; see the package page.
type Mutex interface {
	// Lock waits until the lock is granted. ctx bounds the wait and nothing
	// else: it may end while the lease lives on. When ctx ends first, Lock
	// returns at once an error that wraps the error of ctx, and [ErrHeld] if
	// that is what the wait was for; no lease is returned after ctx has ended,
	// and what the attempt may have left in the store is undone.
	//
	// Every other error is [ErrClosed] or wraps a class of the root package.
	// With ErrUncertain the key may be taken for a while, by nobody, until it
	// has been freed or its TTL has passed; Lock can be called again at once.
	Lock(ctx context.Context) (*Lease, error)

	// TryLock asks once, without waiting. It returns an error wrapping
	// [ErrHeld] when another has the lock, or waits for it in this process.
	TryLock(ctx context.Context) (*Lease, error)
}

// MutexOptions changes what a Mutex takes from its Locker. Nil is fine.
type MutexOptions struct {
	// TTL is how long the lock outlives a holder that crashed, from one
	// millisecond to [MaxTTL]. Zero means the Locker's.
	TTL time.Duration
}

// Do locks m, calls fn and unlocks, whatever becomes of fn: also when it
// panics or calls runtime.Goexit, which pass through. ctx bounds the wait. The
// context that fn gets ends when ctx ends, or when the lease is lost
// ([context.Cause] then wraps [ErrLost]); it is for fn to stop, and until it has
// the lock stays held and renewed, for a lock freed under a running section
// guards nothing. fence is the lease's; pass it to the resource.
//
// Do returns the error of fn. When the lease was lost before fn returned, the
// error wraps [ErrLost] too, even if fn returned nil: another may have been
// inside at the same time. A release that failed is no error of Do, because
// the section was covered; the Locker goes on trying.
func Do(ctx context.Context, m Mutex, fn func(ctx context.Context, fence uint64) error) error {
	if m == nil {
		return fmt.Errorf("lock: do: %w", invalid("the Mutex is nil"))
	}
	return cover(ctx, m.Lock, fn)
}

// cover calls fn under a lease that acquire gives.
func cover(ctx context.Context, acquire func(context.Context) (*Lease, error), fn func(ctx context.Context, fence uint64) error) (err error) {
	if fn == nil {
		return fmt.Errorf("lock: do: %w", invalid("the function is nil"))
	}
	lease, err := acquire(ctx)
	if err != nil {
		return err
	}
	section, unlink := link(lease.Context(), ctx)
	// Deferred, and nothing is recovered: a panic keeps its stack, and Goexit
	// is served too.
	defer func() {
		unlockErr := lease.Unlock(ctx)
		unlink()
		if !errors.Is(unlockErr, ErrLost) {
			return
		}
		if err == nil {
			err = unlockErr
		} else {
			err = fmt.Errorf("%w: %w", unlockErr, err)
		}
	}()
	return fn(&watched{section, lease}, lease.Fence())
}

// link returns a child of section that ends when ctx does too, with its
// deadline, its error and, unless that is the deadline, its cause.
func link(section, ctx context.Context) (context.Context, func()) {
	stopTimer := func() {}
	deadline, bounded := ctx.Deadline()
	if bounded {
		section, stopTimer = context.WithDeadline(section, deadline)
	}
	section, cancel := context.WithCancelCause(section)
	stop := context.AfterFunc(ctx, func() {
		if bounded && ctx.Err() == context.DeadlineExceeded {
			return // the section's own timer says so
		}
		cancel(context.Cause(ctx))
	})
	return section, func() {
		stop()
		stopTimer()
		cancel(nil)
	}
}
