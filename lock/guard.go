package lock

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// A Guard stands before a resource in this process and refuses who comes with
// an older fence than was seen there before. There is one for each resource. It
// is safe for concurrent use; the zero value has seen no fence.
//
// A guard stands at the resource, not at the lock: it needs no clock and no
// store, and is right whatever has become of the lease. [RedisGuard] and
// [CheckFenced] are the same for data in Redis and in SQL databases.
//
// Who has a new lease and begins by reading should call Check before that. It
// keeps the holder before it from writing between the reading and the first
// write.
type Guard struct {
	mu   sync.Mutex // guards what follows
	seen uint64
	busy chan struct{} // closed when the section of Do that runs has ended; nil when none does
}

// Check accepts fence if none greater was seen, and has every smaller one
// refused from now on. Else it returns an error wrapping [ErrStaleFence]; of a
// fence of zero, which no lease has, or a nil Guard, one wrapping
// [transparency.ErrInvalid].
//
// Before a write, it is for a caller who keeps others from the resource between
// the check and the end of the write. Do does both. Check does not wait for a
// section of Do that runs.
func (g *Guard) Check(fence uint64) error {
	if err := g.usable(fence); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.check(fence)
}

// Do calls fn if Check accepts fence, and lets no other call of Do in
// before fn has returned, so that what an older fence does cannot end after
// what a newer one does. It returns the error of fn, or that of Check, and then
// fn was not called. ctx bounds the wait for another's fn; when it ends first
// the error wraps that of ctx. fn, which is passed ctx, must not call Do of the
// same Guard. When it panics or calls runtime.Goexit, the Guard goes on.
func (g *Guard) Do(ctx context.Context, fence uint64, fn func(ctx context.Context) error) error {
	err := g.usable(fence)
	if err == nil && fn == nil {
		err = refused("", invalid("there is no function to call"))
	}
	if err == nil {
		err = g.enter(ctx, fence)
	}
	if err != nil {
		return err
	}
	defer g.leave()
	return fn(ctx)
}

// Fence returns the greatest fence that was accepted, or zero.
func (g *Guard) Fence() uint64 {
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}

func (g *Guard) usable(fence uint64) error {
	if g == nil {
		return refused("", invalid("the Guard is nil"))
	}
	return checkFence("", fence)
}

// check requires g.mu.
func (g *Guard) check(fence uint64) error {
	if fence < g.seen {
		return stale("", fence, fmt.Sprint(g.seen))
	}
	g.seen = fence
	return nil
}

// enter waits until no section runs, and begins one if fence is accepted then
// too.
func (g *Guard) enter(ctx context.Context, fence uint64) error {
	for {
		if err := ctx.Err(); err != nil {
			return refused("", err)
		}
		busy, err := g.tryEnter(fence)
		if err != nil || busy == nil {
			return err
		}
		select {
		case <-busy:
		case <-ctx.Done():
		}
	}
}

// tryEnter begins a section, or returns what is closed at the end of the one
// that runs.
func (g *Guard) tryEnter(fence uint64) (busy <-chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.check(fence); err != nil || g.busy != nil {
		return g.busy, err
	}
	g.busy = make(chan struct{})
	return nil, nil
}

func (g *Guard) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.busy)
	g.busy = nil
}

// String says which fence was seen last.
func (g *Guard) String() string { return fmt.Sprintf("lock.Guard(fence %d)", g.Fence()) }

// Format is String for every verb.
func (g *Guard) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, g.String()) }

func checkFence(key string, fence uint64) error {
	if fence == 0 {
		return refused(key, invalid("the fence is zero, which no lease has"))
	}
	return nil
}

func stale(key string, fence uint64, seen string) error {
	return refused(key, fmt.Errorf("%w: %d after %s", ErrStaleFence, fence, seen))
}

// refused names the key of a guard's error, if it has one.
func refused(key string, err error) error {
	if key == "" {
		return fmt.Errorf("lock: guard: %w", err)
	}
	return failed("guard", key, err)
}
