package locktest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-transparency/transparency/lock"
)

// A mutant is a memory driver with a fault that such drivers have had, and
// the check that has to find it.
type mutant struct {
	name  string
	finds string
	spoil func(f *faulty, good lock.Driver)
}

// Faults of locks.
var lockMutants = []mutant{
	{"two holders", "one token at a time", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			g, err := good.Acquire(ctx, c, queue)
			g.Fence = max(g.Fence, 1)
			return g, err
		}
	}},
	{"says nothing of the time left", "one token at a time", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			g, err := good.Acquire(ctx, c, queue)
			g.Remaining = 0
			return g, err
		}
	}},
	{"a token is held off by itself", "a token is granted its key anew", func(f *faulty, good lock.Driver) {
		last := lock.Claim{}
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			if c == last {
				c.Token = strings.Repeat("x", len(c.Token))
			}
			last = c
			return good.Acquire(ctx, c, queue)
		}
	}},
	{"the fence is lost with the key", "LK-21 fences rise over release and expiry", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			g, err := good.Acquire(ctx, c, queue)
			if g.Fence != 0 {
				g.Fence = 1
			}
			return g, err
		}
	}},
	{"keys expire late", "a claim expires, and not before its TTL", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			c.TTL *= 2
			return good.Acquire(ctx, c, queue)
		}
	}},
	{"keys expire early", "a claim expires, and not before its TTL", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			c.TTL -= c.TTL / 20
			return good.Acquire(ctx, c, queue)
		}
	}},
	{"renewing does not extend", "renewing extends", func(f *faulty, good lock.Driver) {
		f.renew = func(ctx context.Context, claims []lock.Claim) []error { return all(claims, nil) }
	}},
	{"renewing makes the key again", "LK-11 renewing makes nothing", func(f *faulty, good lock.Driver) {
		f.renew = func(ctx context.Context, claims []lock.Claim) []error {
			results := good.Renew(ctx, claims)
			for i, c := range claims {
				if g, err := good.Acquire(ctx, c, false); results[i] != nil && err == nil && g.Fence != 0 {
					results[i] = nil
				}
			}
			return results
		}
	}},
	{"a lost claim is trouble like any other", "LK-10 LK-11 one definite no", func(f *faulty, good lock.Driver) {
		f.renew = func(ctx context.Context, claims []lock.Claim) []error {
			results := good.Renew(ctx, claims)
			for i, err := range results {
				if err != nil {
					results[i] = errGone
				}
			}
			return results
		}
	}},
	{"results out of order", "renewals have their results in order", func(f *faulty, good lock.Driver) {
		f.renew = func(ctx context.Context, claims []lock.Claim) []error {
			results := good.Renew(ctx, claims)
			slices.Reverse(results)
			return results
		}
	}},
	{"release frees whoever holds", "LK-6 releasing frees only the token's own", func(f *faulty, good lock.Driver) {
		var mu sync.Mutex
		holders := map[string]string{}
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			g, err := good.Acquire(ctx, c, queue)
			if g.Fence != 0 {
				mu.Lock()
				holders[c.Key] = c.Token
				mu.Unlock()
			}
			return g, err
		}
		f.release = func(ctx context.Context, c lock.Claim) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			c.Token = holders[c.Key]
			return good.Release(ctx, c)
		}
	}},
	{"release always says yes", "LK-6 releasing frees only the token's own", func(f *faulty, good lock.Driver) {
		f.release = func(ctx context.Context, c lock.Claim) (bool, error) {
			_, err := good.Release(ctx, c)
			return true, err
		}
	}},
	{"keys that look alike are one", "LK-20 keys of any bytes are apart", func(f *faulty, good lock.Driver) {
		hash := func(key string) string {
			if _, rest, ok := strings.Cut(key, "{"); ok {
				if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
					return tag
				}
			}
			return strings.Trim(key, "{}")
		}
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			c.Key = hash(c.Key)
			return good.Acquire(ctx, c, queue)
		}
		f.renew = func(ctx context.Context, claims []lock.Claim) []error {
			claims = slices.Clone(claims)
			for i := range claims {
				claims[i].Key = hash(claims[i].Key)
			}
			return good.Renew(ctx, claims)
		}
		f.release = func(ctx context.Context, c lock.Claim) (bool, error) {
			if c.Key == "{}" {
				return true, nil // as a second empty key would not be free
			}
			c.Key = hash(c.Key)
			return good.Release(ctx, c)
		}
	}},
	{"contexts are ignored", "an ended context acquires nothing", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			return good.Acquire(context.WithoutCancel(ctx), c, queue)
		}
	}},
	{"nobody stands in line", "a release hands over in order", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			return good.Acquire(ctx, c, false)
		}
	}},
	{"everybody stands in line", "a waiter that gave up leaves nothing", func(f *faulty, good lock.Driver) {
		f.release = func(ctx context.Context, c lock.Claim) (bool, error) {
			g, _ := good.Acquire(ctx, lock.Claim{Key: c.Key, Token: c.Token, TTL: 1}, true)
			if g.Fence == 0 {
				return false, nil
			}
			return good.Release(ctx, c)
		}
	}},
	{"asking again goes to the end", "a release hands over in order", func(f *faulty, good lock.Driver) {
		f.acquire = func(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
			g, err := good.Acquire(ctx, c, false)
			if g.Fence == 0 && queue {
				_, _ = good.Release(ctx, c)
				g, err = good.Acquire(ctx, c, true)
			}
			return g, err
		}
	}},
	{"nobody leaves the line", "LK-17 a token that left the line is handed nothing", func(f *faulty, good lock.Driver) {
		f.release = func(ctx context.Context, c lock.Claim) (bool, error) {
			if g, _ := good.Acquire(ctx, lock.Claim{Key: c.Key, Token: c.Token + "?", TTL: 1}, false); g.Fence == 0 {
				if errs := good.Renew(ctx, []lock.Claim{{Key: c.Key, Token: c.Token, TTL: 1e9}}); errs[0] != nil {
					return false, nil
				}
			}
			return good.Release(ctx, c)
		}
	}},
	{"nobody is woken", "a release wakes a waiter of another process", func(f *faulty, good lock.Driver) {
		f.listen = func(ctx context.Context, owner string, wake func(string)) error {
			return good.Listen(ctx, owner, func(key string) {
				if key == "" {
					wake(key)
				}
			})
		}
	}},
	{"woken without the key", "the owner is woken, with the key", func(f *faulty, good lock.Driver) {
		f.listen = func(ctx context.Context, owner string, wake func(string)) error {
			return good.Listen(ctx, owner, func(string) { wake("") })
		}
	}},
	{"does not say when it begins to hear", "LK-14 a release before the waiter can hear", func(f *faulty, good lock.Driver) {
		f.listen = func(ctx context.Context, owner string, wake func(string)) error {
			return good.Listen(ctx, owner, func(key string) {
				if key != "" {
					wake(key)
				}
			})
		}
	}},
}
