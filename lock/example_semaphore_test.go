package lock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/lock"
)

// At most two at a time, in all processes together.
func ExampleSemaphore() {
	ctx := context.Background()
	client, done := redistest.Example() // a client of your own
	defer done()
	here, elsewhere := lock.NewRedis(client, nil), lock.NewRedis(client, nil)
	defer here.Close()
	defer elsewhere.Close()

	first, err := here.Semaphore("printer", 2, nil).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := elsewhere.Semaphore("printer", 2, nil).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = here.Semaphore("printer", 2, nil).TryAcquire(ctx)
	fmt.Println("a third:", errors.Is(err, lock.ErrHeld))
	fmt.Println("unlock:", first.Unlock(ctx), second.Unlock(ctx))
	// Output:
	// a third: true
	// unlock: <nil> <nil>
}

// A section under a permit.
func ExampleSemaphore_Do() {
	locker := lock.NewMemory(nil)
	defer locker.Close()
	downloads := locker.Semaphore("downloads", 4, nil)

	err := downloads.Do(context.Background(), func(ctx context.Context, _ uint64) error {
		fmt.Println("one of four at most:", ctx.Err() == nil)
		return nil
	})
	fmt.Println(err)
	// Output:
	// one of four at most: true
	// <nil>
}

// Who is refused can be told by whom.
func ExampleHeldError() {
	ctx := context.Background()
	locker := lock.NewMemory(&lock.Options{Holder: "worker-3"})
	defer locker.Close()
	report := locker.Mutex("report", nil)
	lease, _ := report.Lock(ctx)
	defer lease.Unlock(ctx)

	_, err := report.TryLock(ctx)
	var held *lock.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Holder, "for a while:", held.Remaining > 0)
	}
	// Output: held by worker-3 for a while: true
}

// An operator ends the hold of a process that hangs, and has the resource
// refuse it from then on.
func ExampleLocker_Break() {
	ctx := context.Background()
	store := lock.NewMemoryDriver() // as one Redis would be
	worker, operator := lock.New(store, nil), lock.New(store, nil)
	defer worker.Close()
	defer operator.Close()
	var shelf lock.Guard

	hanging, _ := worker.Mutex("stock:7", nil).Lock(ctx)
	fence, err := operator.Break(ctx, "stock:7")
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = shelf.Check(fence)

	fmt.Println("refused:", errors.Is(shelf.Check(hanging.Fence()), lock.ErrStaleFence))
	next, err := operator.Mutex("stock:7", nil).TryLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the next is served:", shelf.Check(next.Fence()) == nil)
	_ = next.Unlock(ctx)
	// Output:
	// refused: true
	// the next is served: true
}
