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

const inUse = "resource in use"

var concurrencyRow = row{
	name: "concurrency",
	done: "two processes withdrew 200 and 300 from 1000 at the same time",

	without: func(ctx context.Context, env *lab.Env) (string, error) {
		client, err := env.Redis(ctx)
		if err != nil {
			return "", err
		}
		end, err := withdrawals(ctx, env, client, "concurrency withdraw")
		if err == nil && end != 700 && end != 800 {
			err = fmt.Errorf("the balance was %d: no withdrawal was lost", end)
		}
		return fmt.Sprintf("a balance of %d, not 500: one of the two was lost", end), err
	},
	with: func(ctx context.Context, env *lab.Env) (string, error) {
		client, err := env.Redis(ctx)
		if err != nil {
			return "", err
		}
		end, err := withdrawals(ctx, env, client, "concurrency withdraw-locked")
		if err == nil && end != 500 {
			err = fmt.Errorf("the balance was %d", end)
		}
		if err == nil {
			err = checkFences(ctx, env, client)
		}
		if err == nil {
			err = checkInUse(ctx, env, client)
		}
		return fmt.Sprintf("a balance of %d; a third that would not wait: %s", end, inUse), err
	},
	parts: map[string]func(context.Context, *lab.Env) error{
		"withdraw": withClient(func(ctx context.Context, env *lab.Env, client *redis.Client) error {
			return withdraw(ctx, env, client, func() error { return env.Meet(ctx, "both have read", 2) })
		}),
		"withdraw-locked": withClient(func(ctx context.Context, env *lab.Env, client *redis.Client) error {
			return locked(env, client, func(m lock.Mutex) error {
				if err := env.Meet(ctx, "both want the lock", 2); err != nil {
					return err
				}
				return lock.Do(ctx, m, func(ctx context.Context, fence uint64) error {
					return withdraw(ctx, env, client, func() error {
						return noteFence(ctx, env, client, fence)
					})
				})
			})
		}),
		"try": withClient(func(ctx context.Context, env *lab.Env, client *redis.Client) error {
			return locked(env, client, func(m lock.Mutex) error {
				lease, err := m.TryLock(ctx)
				if errors.Is(err, lock.ErrHeld) {
					fmt.Fprintln(env.Out, inUse)
					return nil
				}
				if err != nil {
					return err
				}
				return lease.Unlock(ctx)
			})
		}),
	},
}

func withClient(f func(context.Context, *lab.Env, *redis.Client) error) func(context.Context, *lab.Env) error {
	return func(ctx context.Context, env *lab.Env) error {
		client, err := env.Redis(ctx)
		if err != nil {
			return err
		}
		return f(ctx, env, client)
	}
}

func locked(env *lab.Env, client *redis.Client, f func(lock.Mutex) error) error {
	locker := lock.NewRedis(client, &lock.Options{TTL: 5 * time.Second, Prefix: env.Prefix() + "lock:"})
	defer locker.Close() //nolint:errcheck // it is always nil
	return f(locker.Mutex("account", nil))
}

// withdrawals runs two processes at once and returns the balance after them.
func withdrawals(ctx context.Context, env *lab.Env, client *redis.Client, part string) (int, error) {
	if err := client.Set(ctx, env.Prefix()+"balance", 1000, time.Minute).Err(); err != nil {
		return 0, env.Advise("write the balance", err)
	}
	if err := env.Processes(ctx, part+" 200", part+" 300"); err != nil {
		return 0, err
	}
	return client.Get(ctx, env.Prefix()+"balance").Int()
}

// withdraw reads, thinks for 50 ms, and writes. Between reading and thinking it
// calls meanwhile.
func withdraw(ctx context.Context, env *lab.Env, client *redis.Client, meanwhile func() error) error {
	if len(env.Args) != 3 {
		return errArguments
	}
	amount, err := strconv.Atoi(env.Args[2])
	if err != nil {
		return errArguments
	}
	now, err := client.Get(ctx, env.Prefix()+"balance").Int()
	if err != nil {
		return env.Advise("read the balance", err)
	}
	if err := meanwhile(); err != nil {
		return err
	}
	if err := lab.Think(ctx, 50*time.Millisecond); err != nil {
		return err
	}
	return client.Set(ctx, env.Prefix()+"balance", now-amount, time.Minute).Err()
}

// noteFence is called inside the lock, so the list has the order of the holders.
func noteFence(ctx context.Context, env *lab.Env, client *redis.Client, fence uint64) error {
	pipe := client.Pipeline()
	pipe.RPush(ctx, env.Prefix()+"fences", fence)
	pipe.Expire(ctx, env.Prefix()+"fences", time.Minute)
	_, err := pipe.Exec(ctx)
	return err
}

// checkFences checks that whoever had the lock later had the greater fence.
func checkFences(ctx context.Context, env *lab.Env, client *redis.Client) error {
	var fences []uint64
	if err := client.LRange(ctx, env.Prefix()+"fences", 0, -1).ScanSlice(&fences); err != nil {
		return env.Advise("read the fences", err)
	}
	if len(fences) != 2 || !slices.IsSorted(fences) || fences[0] == fences[1] {
		return errors.New("the fences do not rise")
	}
	return nil
}

// checkInUse checks what another process is told while this one has the lock.
func checkInUse(ctx context.Context, env *lab.Env, client *redis.Client) error {
	return locked(env, client, func(m lock.Mutex) error {
		return lock.Do(ctx, m, func(ctx context.Context, _ uint64) error {
			told, err := env.Output(ctx, "concurrency try")
			if err == nil && told != inUse {
				err = errors.New("a third process got the lock too")
			}
			return err
		})
	})
}
