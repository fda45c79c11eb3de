package lock

import (
	"context"
	"fmt"
)

// Break takes the lock of key away from whoever has it, in whatever process:
// for an operator who knows that a holder hangs, or has gone and left a long
// TTL. The next in line gets the lock at once. That nobody has it is no error.
//
// The holder is not asked. A lease of this Locker ends at once; another process
// learns of its loss by its next renewal, within a third of its TTL, and works
// on until then. So Break returns a fence, greater than the holder's and
// smaller than those to come: a resource that has seen it refuses the holder
// from then on.
//
// Errors wrap a class of the root package. With ErrUncertain the lock may have
// been broken and have a new holder, whom a second Break would break too: look
// first.
func (l *Locker) Break(ctx context.Context, key string) (fence uint64, err error) {
	fence, err = l.breakLock(ctx, key)
	if err != nil {
		return 0, failed("break", key, err)
	}
	return fence, nil
}

func (l *Locker) breakLock(ctx context.Context, key string) (uint64, error) {
	if err := l.unusable(); err != nil {
		return 0, err
	}
	if key == "" {
		return 0, errEmptyKey
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	if l.closed {
		l.unlock()
		return 0, ErrClosed
	}
	l.calls.Add(1)
	defer l.calls.Done()
	l.unlock()

	fence, err := l.driver.Break(ctx, key)
	if err != nil {
		return 0, classed(err)
	}
	l.mu.Lock()
	defer l.unlock()
	if s, ok := l.slots.get(slotName{key: key}); ok && s.lease != nil && s.lease.state == held && s.lease.fence < fence {
		l.lose(s.lease, fmt.Errorf("%w: broken", ErrLost))
	}
	return fence, nil
}
