// Before: two processes withdraw from one balance without concurrency
// transparency. Both read 1000, both think for 50 ms, one writes 800 and the
// other 700, and whichever writes last wins: the other withdrawal is lost.
//
//	go run ./examples/lock/before
//
// Why processes and not threads? Because a sync.Mutex would make goroutines
// behave and so hide the question. In Go two goroutines do run in parallel and
// lose the update just the same, but the mutex that mends them lives in the
// memory of one process and says nothing to the other process, whose memory has
// a mutex of its own, unlocked. What both can see is the Redis where the balance
// is; ../after keeps the lock there.
package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/examples/internal/lab"
)

func main() { lab.Main(run) }

func run(ctx context.Context, env *lab.Env) error {
	client, err := env.Redis(ctx)
	if err != nil {
		return err
	}
	balance := env.Prefix() + "balance"
	switch {
	case len(env.Args) == 0:
		return race(ctx, env, client, balance)
	case len(env.Args) == 2 && env.Args[0] == "withdraw":
		amount, err := strconv.Atoi(env.Args[1])
		if err != nil {
			return lab.Usage("withdraw and a whole number")
		}
		return withdraw(ctx, env, client, balance, amount)
	}
	return lab.Usage("withdraw and an amount, or nothing for the race")
}

func race(ctx context.Context, env *lab.Env, client *redis.Client, balance string) error {
	if err := client.Set(ctx, balance, 1000, time.Minute).Err(); err != nil {
		return env.Advise("write the balance", err)
	}
	fmt.Fprintln(env.Out, "The balance is 1000. Two processes withdraw 200 and 300 at the same time.")
	if err := env.Processes(ctx, "withdraw 200", "withdraw 300"); err != nil {
		return err
	}
	end, err := client.Get(ctx, balance).Int()
	if err != nil {
		return env.Advise("read the balance", err)
	}
	fmt.Fprintf(env.Out, "The balance is %d, and should be 500.\n", end)
	return nil
}

// withdraw reads, thinks and writes. It is right as long as nobody else does.
func withdraw(ctx context.Context, env *lab.Env, client *redis.Client, balance string, amount int) error {
	now, err := client.Get(ctx, balance).Int()
	if err != nil {
		return env.Advise("read the balance", err)
	}
	// Both have read before either goes on, so that what can happen does happen.
	if err := env.Meet(ctx, "read", 2); err != nil {
		return err
	}
	if err := lab.Think(ctx, 50*time.Millisecond); err != nil {
		return err
	}
	if err := client.Set(ctx, balance, now-amount, time.Minute).Err(); err != nil {
		return env.Advise("write the balance", err)
	}
	fmt.Fprintf(env.Out, "- %d: read %d, wrote %d\n", amount, now, now-amount)
	return nil
}
