package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/lock"
)

// Who has the lock gets a lease; who comes second is told so.
func ExampleNewMemory() {
	ctx := context.Background()
	locker := lock.NewMemory(nil)
	defer locker.Close()
	stock := locker.Mutex("stock:7", nil)

	lease, err := stock.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = stock.TryLock(ctx)
	fmt.Println("second:", errors.Is(err, lock.ErrHeld))
	fmt.Println("unlock:", lease.Unlock(ctx))
	// Output:
	// second: true
	// unlock: <nil>
}

// Do covers a section, whatever becomes of it.
func ExampleDo() {
	ctx := context.Background()
	locker := lock.NewMemory(nil)
	defer locker.Close()

	balance := 1000
	account := locker.Mutex("account:1", nil)
	for _, amount := range []int{200, 300} {
		err := lock.Do(ctx, account, func(ctx context.Context, fence uint64) error {
			balance -= amount
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(balance)
	// Output: 500
}

// The same lock in Redis: two Lockers, as two processes would have.
func ExampleNewRedis() {
	ctx := context.Background()
	client, done := redistest.Example() // a client of your own
	defer done()

	here := lock.NewRedis(client, nil)
	defer here.Close()
	elsewhere := lock.NewRedis(client, nil)
	defer elsewhere.Close()

	lease, err := here.Mutex("stock:7", nil).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = elsewhere.Mutex("stock:7", nil).TryLock(ctx)
	fmt.Println("elsewhere:", errors.Is(err, lock.ErrHeld))

	fmt.Println("unlock:", lease.Unlock(ctx))
	lease, err = elsewhere.Mutex("stock:7", nil).TryLock(ctx)
	if err == nil {
		fmt.Println("elsewhere: granted")
		_ = lease.Unlock(ctx)
	}
	// Output:
	// elsewhere: true
	// unlock: <nil>
	// elsewhere: granted
}

// A resource that remembers the greatest fence refuses a holder that slept
// through the end of its lease.
func ExampleLease_Fence() {
	ctx := context.Background()
	locker := lock.NewMemory(nil)
	defer locker.Close()
	stock := locker.Mutex("stock:7", nil)

	var seen uint64 // kept by the resource, with the data
	write := func(who string, fence uint64) {
		if fence < seen {
			fmt.Println(who, "is refused")
			return
		}
		seen = fence
		fmt.Println(who, "writes")
	}

	sleeper, _ := stock.Lock(ctx)
	_ = sleeper.Unlock(ctx) // or its TTL passes while it sleeps
	successor, _ := stock.Lock(ctx)
	defer successor.Unlock(ctx)

	write("the successor", successor.Fence())
	write("the sleeper", sleeper.Fence())
	// Output:
	// the successor writes
	// the sleeper is refused
}

// A context bounds the wait. What was waited for is in the error too.
func ExampleMutex() {
	locker := lock.NewMemory(nil)
	defer locker.Close()
	report := locker.Mutex("report", nil)

	lease, _ := report.Lock(context.Background())
	defer lease.Unlock(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := report.Lock(ctx)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, lock.ErrHeld))

	_, err = report.TryLock(context.Background())
	var held *lock.HeldError
	fmt.Println(errors.As(err, &held), held.Remaining > 0)
	// Output:
	// true true
	// true true
}

// A lease is watched by its context.
func ExampleLease_Context() {
	locker := lock.NewMemory(nil)
	lease, _ := locker.Mutex("leader", nil).Lock(context.Background())
	work := lease.Context()
	fmt.Println(work.Err())

	locker.Close() // or renewals fail for too long, or the key is taken away
	<-work.Done()
	fmt.Println(errors.Is(context.Cause(work), lock.ErrLost))
	// Output:
	// <nil>
	// true
}
