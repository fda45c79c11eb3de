package lock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
)

func wantInvalid(t *testing.T, op string, err error) {
	t.Helper()
	if !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("%s = %v, want ErrInvalid", op, err)
	}
}

// Zero values and nil pointers refuse to work, and do not panic.
func TestZeroLocker(t *testing.T) {
	for _, l := range []*Locker{nil, new(Locker), New(nil, nil), New((*MemoryDriver)(nil), nil), New((*RedisDriver)(nil), nil)} {
		ctx, nothing := t.Context(), func(context.Context, uint64) error { return nil }
		m := l.Mutex("k", &MutexOptions{TTL: time.Second})
		_, err := m.Lock(ctx)
		wantInvalid(t, "Lock", err)
		_, err = l.Mutex("k", nil).TryLock(ctx)
		wantInvalid(t, "TryLock", err)
		wantInvalid(t, "Do", Do(ctx, m, nothing))
		s := l.Semaphore("k", 1, nil)
		_, err = s.Acquire(ctx)
		wantInvalid(t, "Acquire", err)
		wantInvalid(t, "Do", s.Do(ctx, nothing))
		_, err = l.Break(ctx, "k")
		wantInvalid(t, "Break", err)
		if l.String() == "" || fmt.Sprint(l, m, s) == "" || l.Stats().Held != 0 {
			t.Errorf("a Locker without a store prints nothing, or holds something")
		}
		if err := l.Close(); err != nil || l.Close() != nil {
			t.Errorf("Close = %v", err)
		}
	}
	wantInvalid(t, "Do without a Mutex", Do(t.Context(), nil, func(context.Context, uint64) error { return nil }))
	l := NewMemory(nil)
	defer l.Close()
	wantInvalid(t, "Do without a function", Do(t.Context(), l.Mutex("k", nil), nil))
	if n := l.Stats().Attempts; n != 0 {
		t.Errorf("Do without a function made %d attempts", n)
	}
}

func TestZeroLease(t *testing.T) {
	for _, s := range []*Lease{nil, new(Lease)} {
		wantInvalid(t, "Err", s.Err())
		wantInvalid(t, "Unlock", s.Unlock(t.Context()))
		if ctx := s.Context(); ctx.Err() == nil {
			t.Errorf("the context of a lease that never was is alive")
		} else {
			wantInvalid(t, "cause", context.Cause(ctx))
		}
		if s.Key() != "" || s.Fence() != 0 || !s.ValidUntil().IsZero() || fmt.Sprint(s) == "" {
			t.Errorf("a lease that never was says %q, %d, %v", s.Key(), s.Fence(), s.ValidUntil())
		}
	}
}

func TestZeroDrivers(t *testing.T) {
	ctx, c := t.Context(), Claim{Key: "k", Token: "t", TTL: time.Second}
	for _, d := range []Driver{(*MemoryDriver)(nil), (*RedisDriver)(nil), new(RedisDriver)} {
		_, err := d.Acquire(ctx, c, true)
		wantInvalid(t, "Acquire", err)
		_, err = d.Release(ctx, c)
		wantInvalid(t, "Release", err)
		_, err = d.Break(ctx, "k")
		wantInvalid(t, "Break", err)
		wantInvalid(t, "Renew", d.Renew(ctx, []Claim{c})[0])
		wantInvalid(t, "Listen", d.Listen(ctx, "o", nil))
		_ = fmt.Sprint(d)
	}
	var e *HeldError
	if e.Error() == "" || !errors.Is(e, ErrHeld) {
		t.Errorf("a nil HeldError = %q", e.Error())
	}
}

// What a HeldError says, and what it does not know.
func TestHeldError(t *testing.T) {
	for want, e := range map[string]*HeldError{
		"held by another": {},
		"held by another for up to 1.5s unless renewed":            {Remaining: 1500 * time.Millisecond},
		"held by another for up to 1ms unless renewed":             {Remaining: 1},
		`held by another, "worker-3"`:                              {Holder: "worker-3"},
		`held by another, "worker-3", for up to 2s unless renewed`: {Holder: "worker-3", Remaining: 2 * time.Second},
		`held by another, "a\n\x00"`:                               {Holder: "a\n\x00"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("Error = %q, want %q", got, want)
		}
	}
}
