package locktest

import (
	"context"
	"sync"
	"time"

	"github.com/go-transparency/transparency/lock"
)

// What a driver does for one token at a time.
var driverChecks = []check{
	{name: "one token at a time", fn: func(r *run) {
		d, e := r.connect(), r.connect()
		a, b := r.claim(key), r.claim(key)
		r.granted(d, a)
		g := r.acquire(e, b, false)
		if g.Fence != 0 {
			r.Fatalf("Acquire of a held key = fence %d, want none", g.Fence)
		}
		if g.Remaining <= 0 || g.Remaining > r.ttl {
			r.Errorf("Acquire of a held key: %v remain, want up to %v", g.Remaining, r.ttl)
		}
		r.release(d, a, true)
		r.granted(e, b)
	}},
	{name: "a token is granted its key anew", fn: func(r *run) {
		d, a := r.connect(), r.claim(key)
		first := r.granted(d, a)
		time.Sleep(r.ttl / 2)
		if second := r.granted(d, a); second <= first {
			r.Errorf("second fence %d, want more than %d", second, first)
		}
		if g := r.acquire(d, r.claim(key), false); g.Remaining <= r.ttl*2/3 {
			r.Errorf("%v remain after the second grant, want close to %v", g.Remaining, r.ttl)
		}
	}},
	{name: "LK-21 fences rise over release and expiry", fn: func(r *run) {
		d, e := r.connect(), r.connect()
		var last uint64
		for i := range 20 {
			c := r.claim(key)
			f := r.granted(d, c)
			if f <= last {
				r.Fatalf("fence %d after %d, want a greater one", f, last)
			}
			last = f
			if i == 10 {
				time.Sleep(r.ttl + r.slack())
				continue
			}
			r.release(d, c, true)
			d, e = e, d
		}
	}},
	{name: "a claim expires, and not before its TTL", fn: func(r *run) {
		d, a, b := r.connect(), r.claim(key), r.claim(key)
		start := time.Now()
		r.granted(d, a)
		r.eventually("the key expires", r.ttl+2*r.slack(), func() bool { return r.acquire(d, b, false).Fence != 0 })
		if took := time.Since(start); took < r.ttl-2*time.Millisecond {
			r.Errorf("the key was free after %v, want not before %v", took, r.ttl)
		}
		r.release(d, a, false) // LK-6
		if r.acquire(d, r.claim(key), false).Fence != 0 {
			r.Errorf("Acquire after a late Release was granted, want the successor unharmed")
		}
	}},
	{name: "renewing extends", fn: func(r *run) {
		d, a := r.connect(), r.claim(key)
		r.granted(d, a)
		for range 3 {
			time.Sleep(r.ttl / 2)
			r.wantErr("Renew", r.renew(d, a), nil)
		}
		if g := r.acquire(d, r.claim(key), false); g.Fence != 0 || g.Remaining <= r.ttl*2/3 {
			r.Errorf("Acquire after renewals = %v, want close to %v remaining", g, r.ttl)
		}
	}},
	{name: "LK-11 renewing makes nothing", fn: func(r *run) {
		d, a, b := r.connect(), r.claim(key), r.claim(key)
		r.wantErr("Renew of what never was", r.renew(d, a), lock.ErrLost)
		r.granted(d, a)
		r.wantErr("Renew by another token", r.renew(d, b), lock.ErrLost)
		r.release(d, a, true)
		r.wantErr("Renew after Release", r.renew(d, a), lock.ErrLost)
		r.granted(d, b)
		time.Sleep(r.ttl + r.slack())
		r.wantErr("Renew after expiry", r.renew(d, b), lock.ErrLost)
		r.granted(d, r.claim(key))
	}},
	{name: "renewals have their results in order", fn: func(r *run) {
		d := r.connect()
		claims := make([]lock.Claim, 12)
		for i := range claims {
			claims[i] = r.claim(key + string(rune('a'+i)))
			if i%3 != 0 {
				r.granted(d, claims[i])
			}
		}
		for i, err := range d.Renew(r.Context(), claims) {
			if i%3 != 0 && err != nil {
				r.Errorf("Renew: result %d = %v, want nil", i, err)
			} else if i%3 == 0 {
				r.wantErr("Renew of a claim without a key", err, lock.ErrLost)
			}
		}
	}},
	{name: "LK-6 releasing frees only the token's own", fn: func(r *run) {
		d, a, b := r.connect(), r.claim(key), r.claim(key)
		r.granted(d, a)
		r.release(d, b, false)
		if r.acquire(d, b, false).Fence != 0 {
			r.Fatalf("Acquire was granted after another's Release")
		}
		r.release(d, a, true)
		r.release(d, a, false)
		r.granted(d, b)
		r.release(d, a, false)
		if r.acquire(d, r.claim(key), false).Fence != 0 {
			r.Errorf("Acquire was granted after a second Release of the one before")
		}
	}},
	{name: "LK-20 keys of any bytes are apart", fn: func(r *run) {
		d := r.connect()
		seen := map[string]uint64{}
		for _, k := range []string{
			"job", "job:fence", "job:line", "a{b}c", "{", "}", "{}", "{}x", "}{", "%7B", "%", "a b", "\x00\xff\r\n", "ключ",
		} {
			c := r.claim(k)
			f := r.granted(d, c)
			if seen[k] = f; f == 0 {
				r.Errorf("Acquire(%q) has no fence", k)
			}
			if r.acquire(d, r.claim(k), false).Fence != 0 {
				r.Errorf("Acquire(%q) was granted twice", k)
			}
			r.wantErr("Renew", r.renew(d, c), nil)
			r.release(d, c, true)
		}
	}},
	{name: "an ended context acquires nothing", fn: func(r *run) {
		d := r.connect()
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		if _, err := d.Acquire(ctx, r.claim(key), true); err == nil {
			r.Errorf("Acquire with an ended context was answered")
		}
		r.granted(d, r.claim(key))
	}},
}

// What a driver does for those who wait.
var lineChecks = []check{
	{name: "a release hands over in order", fn: func(r *run) {
		d, e := r.connect(), r.connect()
		a, b, c := r.claim(key), r.claim(key), r.claim(key)
		b.Token, c.Token = r.token(owner("b")), r.token(owner("c"))
		r.hears(d, owner("b"))
		r.hears(e, owner("c"))
		r.granted(d, a)
		r.acquire(d, b, true)
		time.Sleep(time.Millisecond) // Redis orders by the microsecond
		r.acquire(e, c, true)
		r.acquire(d, b, true) // its place stays
		r.release(d, a, true)
		if g := r.acquire(e, c, true); g.Fence != 0 {
			r.Errorf("the second in line was granted the key before the first")
		}
		if g := r.acquire(e, r.claim(key), false); g.Fence != 0 || !g.Passing {
			r.Errorf("Acquire by one who does not stand in line = %+v, want that the key is passing", g)
		}
		r.granted(d, b)
		if g := r.acquire(e, r.claim(key), false); g.Fence != 0 || g.Passing {
			r.Errorf("Acquire of what was taken up = %+v, want that it is held", g)
		}
		r.release(d, b, true)
		r.granted(e, c)
		r.release(e, c, true)
		r.granted(d, r.claim(key))
	}},
	{name: "LK-17 a token that left the line is handed nothing", fn: func(r *run) {
		d := r.connect()
		a, b, c := r.claim(key), r.claim(key), r.claim(key)
		b.Token, c.Token = r.token(owner("b")), r.token(owner("c"))
		r.hears(d, owner("b"))
		r.hears(d, owner("c"))
		r.granted(d, a)
		r.acquire(d, b, true)
		time.Sleep(time.Millisecond)
		r.acquire(d, c, true)
		r.release(d, b, false)
		r.release(d, a, true)
		r.granted(d, c)
	}},
	{name: "who was handed the key can pass it on", fn: func(r *run) {
		d := r.connect()
		a, b, c := r.claim(key), r.claim(key), r.claim(key)
		b.Token, c.Token = r.token(owner("b")), r.token(owner("c"))
		r.hears(d, owner("b"))
		r.hears(d, owner("c"))
		r.granted(d, a)
		r.acquire(d, b, true)
		time.Sleep(time.Millisecond)
		r.acquire(d, c, true)
		r.release(d, a, true)
		r.release(d, b, true) // it has given up meanwhile
		r.granted(d, c)
	}},
	{name: "what is handed over waits for a grace only", fn: func(r *run) {
		d := r.connect()
		a, b := r.claim(key), r.claim(key)
		b.Token = r.token(owner("b"))
		r.hears(d, owner("b"))
		r.granted(d, a)
		r.acquire(d, b, true)
		r.release(d, a, true)
		other := r.claim(key)
		r.eventually("the key is free", 50*time.Millisecond+r.slack(), func() bool { return r.acquire(d, other, false).Fence != 0 })
	}},
	{name: "the owner is woken, with the key", fn: func(r *run) {
		d, e := r.connect(), r.connect()
		a, b := r.claim("k{ey}"), r.claim("k{ey}")
		b.Token = r.token(owner("b"))
		mine, others := r.hears(e, owner("b")), r.hears(d, owner("somebody"))
		r.granted(d, a)
		r.acquire(e, b, true)
		r.release(d, a, true)
		r.eventually("the wake-up", r.slack(), func() bool { return mine.heard("k{ey}") == 1 })
		if n := others.heard("k{ey}"); n != 0 {
			r.Errorf("another owner was woken %d times", n)
		}
	}},
	{name: "a token out of turn leaves the line", fn: func(r *run) {
		d := r.connect()
		a, b := r.claim(key), r.claim(key)
		b.Token = r.token(owner("b"))
		r.hears(d, owner("b"))
		r.granted(d, a)
		r.acquire(d, b, true)
		time.Sleep(r.ttl + r.slack()) // a crashed
		if g := r.acquire(d, b, true); g.Fence == 0 {
			r.Fatalf("Acquire of an expired key = held")
		}
		r.release(d, b, true)
		r.granted(d, r.claim(key)) // and not kept for b
	}},
}

// ears notes wake-ups.
type ears struct {
	mu   sync.Mutex
	keys map[string]int
}

func (e *ears) heard(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.keys[key]
}

// hears listens for owner until the check is over, and has begun to hear when
// it returns.
func (r *run) hears(d lock.Driver, owner string) *ears {
	r.Helper()
	e := &ears{keys: map[string]int{}}
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Listen(ctx, owner, func(key string) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.keys[key]++
		})
	}()
	r.Cleanup(func() {
		cancel()
		<-ended
	})
	r.eventually("Listen begins to hear", 10*time.Second, func() bool { return e.heard("") > 0 })
	return e
}
