package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency"
)

// A Lease is a lock, or a permit of a [Semaphore], that was granted. Its Locker
// renews it until it is unlocked or lost. Its methods are safe for concurrent
// use. The zero Lease was never held, and says so with
// [transparency.ErrInvalid].
type Lease struct {
	_     noCopy
	l     *Locker
	claim Claim
	fence uint64
	slot  *slot // the place in line; passed on when the lease ends

	// Guarded by l.mu.
	parent   context.Context // of Lock, for its values
	ctx      *watched        // made on first use
	cancel   context.CancelCauseFunc
	state    state
	cause    error   // why it is lost
	valid    instant // exclusive until then
	due      instant // the next event: a renewal, or the end of validity
	index    int     // in l.leases; -1 when not there
	renewing bool    // in an exchange with the store
	retrying bool    // due is a time to try again
	failures int     // renewals that failed in a row
	releases int     // that were sent
	freed    bool    // a release was answered
}

type state uint8

const (
	held state = iota
	lost
	released
)

// Key returns the key as it was given to [Locker.Mutex] or [Locker.Semaphore].
func (s *Lease) Key() string {
	if s == nil {
		return ""
	}
	return s.claim.Key
}

// Fence returns the lease's fencing token. It is never zero, and greater than
// that of every lease of the key before. A resource that remembers the
// greatest fence it has seen, and refuses a smaller one, is safe from a holder
// that was paused and does not know yet that its lease has ended.
func (s *Lease) Fence() uint64 {
	if s == nil {
		return 0
	}
	return s.fence
}

// unusable returns why the lease was never held, or nil.
func (s *Lease) unusable() error {
	if s == nil || s.l == nil {
		return errNoLease
	}
	return nil
}

var errNoLease = failed("hold", "", invalid("the Lease is not from a Locker"))

// ValidUntil returns until when nobody else can have the lock, by this
// machine's clock and with a margin. Each renewal moves it on. When the lease
// has ended it is the time of the end.
func (s *Lease) ValidUntil() time.Time {
	if s.unusable() != nil {
		return time.Time{}
	}
	s.l.mu.Lock()
	defer s.l.unlock()
	s.check(s.l.now())
	return s.valid.at
}

// Err returns nil while the lease is held, then an error wrapping [ErrLost] or
// [ErrReleased]. It looks at the clock itself, wall and monotonic, so that it
// is right at once after the machine was suspended.
func (s *Lease) Err() error {
	if err := s.unusable(); err != nil {
		return err
	}
	s.l.mu.Lock()
	defer s.l.unlock()
	s.check(s.l.now())
	return s.err()
}

// err requires s.l.mu.
func (s *Lease) err() error {
	switch s.state {
	case lost:
		return failed("hold", s.claim.Key, s.cause)
	case released:
		return failed("hold", s.claim.Key, ErrReleased)
	default:
		return nil
	}
}

// Context returns a context with the values of the context that Lock was
// called with, but not its end. It ends when the lease does, with a
// [context.Cause] that wraps [ErrLost] or [ErrReleased]: when it is lost, no
// later than another may have the lock.
//
// Loss is told by a local timer, not by a reply. After the machine was
// suspended, the context's Err and the methods of the Lease know at once; its
// Done channel follows within a third of the TTL.
func (s *Lease) Context() context.Context {
	if err := s.unusable(); err != nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(err)
		return ctx
	}
	s.l.mu.Lock()
	defer s.l.unlock()
	s.check(s.l.now())
	if s.ctx == nil {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(s.parent))
		s.ctx, s.cancel = &watched{ctx, s}, cancel
		if err := s.err(); err != nil {
			cancel(err)
		}
	}
	return s.ctx
}

// Unlock ends the lease and frees the lock, or hands it to whoever has waited
// longest. It frees only what is this lease's: once the lease is lost, a
// successor's lock is left alone.
//
// It returns nil when the lock was held until now and is free. It returns an
// error wrapping [ErrLost] when exclusivity had ended before. Any other error
// is about the release alone: the lease has ended, the Locker goes on trying
// to free the key unless it was refused for good, and the TTL frees it at
// last. With [transparency.ErrUncertain] it may be free already.
//
// Unlock returns when ctx ends. With a ctx that has ended already it still
// releases, for at most 100 ms. It may be called again, after success with
// the same answer, after an error as another try, and after Close.
func (s *Lease) Unlock(ctx context.Context) error {
	if err := s.unusable(); err != nil {
		return err
	}
	l := s.l
	l.mu.Lock()
	s.check(l.now())
	valid := s.valid // which is over when Unlock was called before
	if s.state == held {
		l.end(s, released, nil)
	}
	if s.freed {
		defer l.unlock()
		return s.unlocked()
	}
	s.releases++
	first := s.releases == 1
	l.unlock()

	owned, err := l.release(ctx, s.claim)

	l.mu.Lock()
	defer l.unlock()
	defer l.leave(s)
	if err != nil {
		if first {
			l.undo(&undoing{claim: s.claim, lease: s})
		}
		if s.state == lost {
			return s.unlocked()
		}
		return failed("unlock", s.claim.Key, err)
	}
	if s.state == released && !owned && s.releases == 1 && !l.now().reached(valid) {
		// The key cannot have expired yet, and no other call has freed it: it
		// was taken away.
		s.state, s.cause = lost, fmt.Errorf("%w: the key was not its own any more", ErrLost)
		l.stats.Lost++
	}
	s.freed = true
	return s.unlocked()
}

// unlocked is what Unlock answers, release aside. It requires s.l.mu.
func (s *Lease) unlocked() error {
	if s.state == lost {
		return failed("unlock", s.claim.Key, s.cause)
	}
	return nil
}

// check ends the lease if its time is over by either clock. It requires
// s.l.mu.
func (s *Lease) check(now instant) {
	if s.state == held && now.reached(s.valid) {
		s.l.lose(s, fmt.Errorf("%w: not renewed in time", ErrLost))
	}
}

// watched is a context whose Err looks at the clocks first.
type watched struct {
	context.Context
	lease *Lease
}

func (c *watched) Err() error {
	_ = c.lease.Err()
	return c.Context.Err()
}

// release bounds one release by ctx, or by deadGrace when ctx has ended.
func (l *Locker) release(ctx context.Context, c Claim) (bool, error) {
	err := ctx.Err()
	if err == nil {
		owned, err := l.driver.Release(ctx, c)
		return owned, classed(err)
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(deadGrace, l.opts.Timeout))
	defer cancel()
	owned, releaseErr := l.driver.Release(detached, c)
	if errors.Is(releaseErr, context.DeadlineExceeded) {
		// That bound was ours. The caller is told of its own context.
		class := transparency.ErrUncertain
		if errors.Is(releaseErr, transparency.ErrUnavailable) {
			class = transparency.ErrUnavailable
		}
		releaseErr = fmt.Errorf("%w: no answer in %v: %w", class, deadGrace, err)
	}
	return owned, classed(releaseErr)
}

// deadGrace is how long Unlock works on when its context has ended before.
const deadGrace = 100 * time.Millisecond
