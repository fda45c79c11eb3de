// After: the withdrawals of ../before, each inside a lock that all processes
// see. One reads, thinks and writes; the other waits, then reads what the first
// one wrote. A third process that does not want to wait is told that the
// resource is in use.
//
//	go run ./examples/lock/after
//
// If the holder dies inside, what does the TTL do? Nobody unlocks, so the lock
// frees itself when its TTL (here 5 s, renewed while the holder lives) has passed,
// and the next one gets in. Which risk remains? A holder that was only paused
// believes that it still has the lock, and so there can be two. The holder is told
// (its context ends), but the machine can stop between that and the write. For
// this each lock has a fence, a number that only grows: a resource that refuses a
// smaller fence than it has seen refuses the late writer.
//
// And unlocking removes the lock only if it is still one's own: deleting the key
// without asking would free that of the next holder.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/lock"
)

func main() { lab.Main(run) }

func run(ctx context.Context, env *lab.Env) error {
	client, err := env.Redis(ctx)
	if err != nil {
		return err
	}
	locker := lock.NewRedis(client, &lock.Options{TTL: 5 * time.Second, Prefix: env.Prefix() + "lock:"})
	defer locker.Close() //nolint:errcheck // it is always nil
	account := locker.Mutex("account", nil)

	switch args := env.Args; {
	case len(args) == 0:
		return show(ctx, env, client, account)
	case len(args) == 2 && args[0] == "withdraw":
		amount, err := strconv.Atoi(args[1])
		if err != nil {
			return lab.Usage("withdraw and a whole number")
		}
		return lock.Do(ctx, account, func(ctx context.Context, fence uint64) error {
			return withdraw(ctx, env, client, amount, fence)
		})
	case len(args) == 1 && args[0] == "try":
		return try(ctx, env, account)
	}
	return lab.Usage("withdraw and an amount, try, or nothing for everything")
}

// withdraw is what it was before, but for the fence that it notes down.
func withdraw(ctx context.Context, env *lab.Env, client *redis.Client, amount int, fence uint64) error {
	now, err := client.Get(ctx, env.Prefix()+"balance").Int()
	if err != nil {
		return env.Advise("read the balance", err)
	}
	if err := lab.Think(ctx, 50*time.Millisecond); err != nil {
		return err
	}
	pipe := client.Pipeline()
	pipe.Set(ctx, env.Prefix()+"balance", now-amount, time.Minute)
	pipe.RPush(ctx, env.Prefix()+"fences", fence)
	pipe.Expire(ctx, env.Prefix()+"fences", time.Minute)
	if _, err := pipe.Exec(ctx); err != nil {
		return env.Advise("write the balance", err)
	}
	return nil
}

// try does not wait for the lock.
func try(ctx context.Context, env *lab.Env, account lock.Mutex) error {
	lease, err := account.TryLock(ctx)
	if errors.Is(err, lock.ErrHeld) {
		fmt.Fprintln(env.Out, "Another process tries: resource in use.")
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(env.Out, "Another process tries: the lock was free.")
	return lease.Unlock(ctx)
}

func show(ctx context.Context, env *lab.Env, client *redis.Client, account lock.Mutex) error {
	if err := client.Set(ctx, env.Prefix()+"balance", 1000, time.Minute).Err(); err != nil {
		return env.Advise("write the balance", err)
	}
	fmt.Fprintln(env.Out, "The balance is 1000. Two processes withdraw 200 and 300 at the same time.")
	if err := env.Processes(ctx, "withdraw 200", "withdraw 300"); err != nil {
		return err
	}
	end, err := client.Get(ctx, env.Prefix()+"balance").Int()
	if err != nil {
		return env.Advise("read the balance", err)
	}
	var fences []uint64 // in the order of the writes
	if err := client.LRange(ctx, env.Prefix()+"fences", 0, -1).ScanSlice(&fences); err != nil {
		return env.Advise("read the fences", err)
	}
	rising := len(fences) == 2 && slices.IsSorted(fences) && fences[0] != fences[1]
	fmt.Fprintf(env.Out, "The balance is %d, and should be 500. The fences rise: %t.\n", end, rising)

	return lock.Do(ctx, account, func(ctx context.Context, _ uint64) error {
		fmt.Fprintln(env.Out, "This process has the lock.")
		return env.Processes(ctx, "try")
	})
}
