package locktest

import (
	"context"
	"sync"

	"github.com/go-transparency/transparency/lock"
)

// Faults in what is told of holders, in Break, and of semaphores.
var moreMutants = []mutant{
	{"does not say that a key is passing", "a release hands over in order", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			g, err := good.Acquire(ctx, c, queue)
			g.Passing = false
			return g, err
		}
	}},
	{"does not say who holds", "who is kept waiting is told by whom", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			g, err := good.Acquire(ctx, c, queue)
			g.Holder = ""
			return g, err
		}
	}},
	{"the asker is the holder", "a driver tells who has the key", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			g, err := good.Acquire(ctx, c, queue)
			g.Holder = c.Holder
			return g, err
		}
	}},
	{"breaking takes nothing away", "breaking takes the key from whoever has it", func(f *faulty, good lock.Driver) {
		f.breaks = func(context.Context, string) (uint64, error) { return 1 << 62, nil }
	}},
	{"breaking gives an old fence", "breaking takes the key from whoever has it", func(f *faulty, good lock.Driver) {
		f.breaks = func(ctx context.Context, key string) (uint64, error) {
			_, err := good.Break(ctx, key)
			return 1, err
		}
	}},
	{"breaking gives a fence that is used again", "an operator breaks a lock", func(f *faulty, good lock.Driver) {
		f.breaks = func(ctx context.Context, key string) (uint64, error) {
			fence, err := good.Break(ctx, key)
			return fence + 1, err
		}
	}},
	{"breaking frees the key for anybody", "breaking takes the key from whoever has it", func(f *faulty, good lock.Driver) {
		f.breaks = func(ctx context.Context, key string) (uint64, error) {
			_, _ = good.Break(ctx, key)
			return good.Break(ctx, key)
		}
	}},
	{"a semaphore is a lock", "as many tokens as permits, with rising fences", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			c.Permits = min(c.Permits, 1)
			return good.Acquire(ctx, c, queue)
		}
	}},
	{"a semaphore has one permit more", "a semaphore is full and not fuller", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			if c.Permits > 0 {
				c.Permits++
			}
			return good.Acquire(ctx, c, queue)
		}
	}},
	{"a lock and a semaphore share their key", "a semaphore and a lock of one key are apart", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			c.Permits = 1
			return good.Acquire(ctx, c, queue)
		}
	}},
	{"one permit's renewal is all permits'", "permits expire one by one, and are renewed so", func(f *faulty, good lock.Driver) {
		var mu sync.Mutex
		var given []lock.Claim
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			g, err := good.Acquire(ctx, c, queue)
			if mu.Lock(); g.Fence != 0 {
				given = append(given, c)
			}
			mu.Unlock()
			return g, err
		}
		f.renew = func(ctx context.Context, claims []lock.Claim) []error {
			mu.Lock()
			defer mu.Unlock()
			good.Renew(ctx, given)
			return good.Renew(ctx, claims)
		}
	}},
	{"the number of permits is whatever was said last", "each is judged by the number of permits that it knows of", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			c.Permits = max(c.Permits, 3)
			return good.Acquire(ctx, c, queue)
		}
	}},
	{"any permit's end will do", "a refusal tells of the permit that ends in time", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			g, err := good.Acquire(ctx, c, queue)
			if g.Fence == 0 {
				c.Permits = 3
				g, err = good.Acquire(ctx, c, queue)
			}
			return g, err
		}
	}},
	{"permits are not handed over", "a released permit is handed over in order", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			return good.Acquire(ctx, c, queue && c.Permits == 0)
		}
	}},
}
