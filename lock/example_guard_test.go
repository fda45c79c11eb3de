package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/lock"
)

// A holder that was paused for longer than its TTL wakes up, believes that it
// still holds the lock, and is refused by the resource.
func ExampleGuard() {
	ctx := context.Background()
	store := lock.NewMemoryDriver()
	brief := &lock.Options{TTL: 50 * time.Millisecond}
	here, elsewhere := lock.New(store, brief), lock.New(store, brief)
	defer elsewhere.Close()

	pieces := 10
	var shelf lock.Guard // stands at the resource
	take := func(who string, fence uint64) {
		err := shelf.Do(ctx, fence, func(context.Context) error {
			pieces--
			return nil
		})
		fmt.Println(who, "refused:", errors.Is(err, lock.ErrStaleFence), "pieces:", pieces)
	}

	sleeper, _ := here.Mutex("stock:7", nil).Lock(ctx)
	here.Close() // paused, as nothing is renewed any more

	successor, _ := elsewhere.Mutex("stock:7", nil).Lock(ctx) // after the TTL
	defer successor.Unlock(ctx)

	take("successor", successor.Fence())
	take("sleeper", sleeper.Fence()) // it has not looked at its lease
	// Output:
	// successor refused: false pieces: 9
	// sleeper refused: true pieces: 9
}

// Data in Redis: the check and the write are one script there.
func ExampleRedisGuard() {
	ctx := context.Background()
	client, done := redistest.Example() // a client of your own
	defer done()
	guard := lock.NewRedisGuard(client, nil)

	_, err := guard.Do(ctx, "stock:7", 8, "SET", []any{"nine pieces"})
	fmt.Println("fence 8:", err)
	_, err = guard.Do(ctx, "stock:7", 7, "SET", []any{"ten pieces"})
	fmt.Println("fence 7:", err)
	fmt.Println(client.Get(ctx, "stock:7").Val())
	// Output:
	// fence 8: <nil>
	// fence 7: lock: guard "stock:7": stale fence: 7 after 8
	// nine pieces
}

// Several keys are written by a script of your own.
func ExampleRedisGuard_Run() {
	ctx := context.Background()
	client, done := redistest.Example() // a client of your own
	defer done()
	guard := lock.NewRedisGuard(client, nil)

	const script = `
		redis.call('HSET', KEYS[1], 'state', ARGV[1])
		return redis.call('RPUSH', KEYS[2], ARGV[1])`
	n, err := guard.Run(ctx, "{order:1}", 8, script, []string{"{order:1}:log"}, []any{"paid"})
	fmt.Println(n, err)
	// Output: 1 <nil>
}

// Data in an SQL database: the row remembers the fence.
func ExampleCheckFenced() {
	ctx := context.Background()
	db := openStock() // a *sql.DB of your own
	defer db.Close()

	write := func(fence uint64, pieces int) error {
		return lock.CheckFenced(db.ExecContext(ctx,
			`UPDATE stock SET pieces = $1, fence = $2 WHERE id = $3 AND fence <= $2`,
			pieces, lock.SQLFence(fence), 7))
	}
	fmt.Println("fence 8:", write(8, 9))
	fmt.Println("fence 7:", write(7, 10))
	// Output:
	// fence 8: <nil>
	// fence 7: lock: guard: stale fence: no row with this fence or a smaller one
}
