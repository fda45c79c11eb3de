package locktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/lock"
)

type contextKey struct{}

// What a lease is, when nothing goes wrong.
var leaseChecks = []check{
	{name: "exclusion, and fences in the order of holding", fn: func(r *run) {
		var inside, count int // guarded by the lock alone
		var last uint64
		var wg sync.WaitGroup
		const each = 15
		for range 3 {
			m := r.locker(r.connect()).Mutex(key, nil)
			for range 2 {
				wg.Go(func() {
					for range each {
						err := lock.Do(r.Context(), m, func(ctx context.Context, fence uint64) error {
							inside++
							runtime.Gosched()
							if inside != 1 || fence <= last {
								return fmt.Errorf("%d inside, fence %d after %d", inside, fence, last)
							}
							inside, last = inside-1, fence
							count++
							return nil
						})
						if err != nil {
							r.Errorf("Do error = %v", err)
							return
						}
					}
				})
			}
		}
		wg.Wait()
		if count != 6*each {
			r.Errorf("%d sections, want %d", count, 6*each)
		}
	}},
	{name: "TryLock does not wait", fn: func(r *run) {
		a, b := r.locker(r.connect()), r.locker(r.connect())
		lease := r.lock(a.Mutex(key, nil))
		for name, l := range map[string]*lock.Locker{"same process": a, "another process": b} {
			got, err := l.Mutex(key, nil).TryLock(r.Context())
			var held *lock.HeldError
			if got != nil || !errors.Is(err, lock.ErrHeld) || !errors.As(err, &held) {
				r.Fatalf("TryLock (%s) = %v, %v, want a HeldError", name, got, err)
			}
			if held.Remaining <= 0 || held.Remaining > r.ttl {
				r.Errorf("TryLock (%s): %v remaining, want up to %v", name, held.Remaining, r.ttl)
			}
			if !strings.Contains(err.Error(), fmt.Sprintf("%q", key)) {
				r.Errorf("TryLock (%s) error = %q, want it to name the key", name, err)
			}
		}
		r.unlock(lease)
		r.free(0)
	}},
	{name: "a lease is renewed while it is held", fn: func(r *run) {
		lease := r.lock(r.locker(r.connect()).Mutex(key, nil))
		first := lease.ValidUntil()
		for range 6 {
			time.Sleep(r.ttl / 2)
			if err := lease.Err(); err != nil {
				r.Fatalf("Err of a lease that is held = %v", err)
			}
			r.taken()
		}
		if !lease.ValidUntil().After(first.Add(2 * r.ttl)) {
			r.Errorf("ValidUntil moved by %v in 3 TTLs", lease.ValidUntil().Sub(first))
		}
		r.unlock(lease)
		r.free(0)
	}},
	{name: "a lease's context has the values and not the end of Lock's", fn: func(r *run) {
		ctx, cancel := context.WithCancel(context.WithValue(r.Context(), contextKey{}, "value"))
		lease, err := r.locker(r.connect()).Mutex(key, nil).Lock(ctx)
		if err != nil {
			r.Fatalf("Lock error = %v", err)
		}
		cancel()
		got := lease.Context()
		if got.Value(contextKey{}) != "value" || got.Err() != nil {
			r.Errorf("Context: value %v, error %v, want the value and no error", got.Value(contextKey{}), got.Err())
		}
		r.unlock(lease)
		if !errors.Is(context.Cause(got), lock.ErrReleased) || got.Err() == nil {
			r.Errorf("Context after Unlock: cause %v, want ErrReleased", context.Cause(got))
		}
		r.wantErr("Err after Unlock", lease.Err(), lock.ErrReleased)
		if lease.ValidUntil().After(time.Now()) {
			r.Errorf("ValidUntil after Unlock lies ahead")
		}
		if !errors.Is(context.Cause(lease.Context()), lock.ErrReleased) {
			r.Errorf("Context of an unlocked lease: cause %v", context.Cause(lease.Context()))
		}
	}},
	{name: "LK-6 Unlock again", fn: func(r *run) {
		a, b := r.locker(r.connect()), r.locker(r.connect())
		lease := r.lock(a.Mutex(key, nil))
		r.unlock(lease)
		other := r.lock(b.Mutex(key, nil))
		r.unlock(lease)
		r.taken()
		r.unlock(other)
	}},
	{name: "LK-12 Do keeps the lock while its section runs", fn: func(r *run) {
		ctx, cancel := context.WithCancel(r.Context())
		err := lock.Do(ctx, r.locker(r.connect()).Mutex(key, nil), func(ctx context.Context, _ uint64) error {
			cancel()
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) || errors.Is(cause, lock.ErrLost) {
				r.Errorf("cause of the section's end = %v, want the caller's", cause)
			}
			time.Sleep(r.ttl * 3 / 2)
			r.taken()
			return context.Cause(ctx)
		})
		r.wantErr("Do", err, context.Canceled)
		r.free(r.slack())
	}},
	{name: "Do passes the caller's deadline on", fn: func(r *run) {
		ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), contextKey{}, "value"), r.ttl/4)
		defer cancel()
		err := lock.Do(ctx, r.locker(r.connect()).Mutex(key, nil), func(section context.Context, fence uint64) error {
			want, _ := ctx.Deadline()
			if got, ok := section.Deadline(); !ok || !got.Equal(want) || section.Value(contextKey{}) != "value" {
				r.Errorf("section's deadline = %v, value %v, want the caller's", got, section.Value(contextKey{}))
			}
			if fence == 0 || section.Err() != nil {
				r.Errorf("fence %d, error %v at the start of a section", fence, section.Err())
			}
			<-section.Done()
			return section.Err()
		})
		r.wantErr("Do", err, context.DeadlineExceeded)
		if errors.Is(err, lock.ErrLost) {
			r.Errorf("Do = %v, want no loss", err)
		}
		r.free(r.slack())
	}},
	{name: "LK-13 Unlock with an ended context", fn: func(r *run) {
		ctx, cancel := context.WithCancel(r.Context())
		lease := r.lock(r.locker(r.connect()).Mutex(key, nil))
		cancel()
		if err := lease.Unlock(ctx); err != nil {
			r.Errorf("Unlock with an ended context = %v, want nil", err)
		}
		r.free(0)
	}},
	{name: "LK-26 Do when its section panics or exits", fn: func(r *run) {
		l := r.locker(r.connect())
		leave := map[string]func(){"panic": func() { panic("mine") }, "Goexit": runtime.Goexit}
		for name, leave := range leave {
			done := make(chan any, 1)
			go func() {
				var recovered any
				defer func() { done <- recovered }()
				defer func() { recovered = recover() }()
				_ = lock.Do(r.Context(), l.Mutex(key, nil), func(context.Context, uint64) error {
					leave()
					return nil
				})
			}()
			if got := <-done; name == "panic" && got != "mine" {
				r.Errorf("Do recovered the panic, or changed it: %v", got)
			}
			r.free(0)
		}
		if n := l.Stats().Held; n != 0 {
			r.Errorf("%d leases are still renewed", n)
		}
	}},
	{name: "Do returns the error of its section", fn: func(r *run) {
		m, mine := r.locker(r.connect()).Mutex(key, nil), errors.New("mine")
		if err := lock.Do(r.Context(), m, func(context.Context, uint64) error { return mine }); !errors.Is(err, mine) || err.Error() != mine.Error() {
			r.Errorf("Do error = %v, want the section's own", err)
		}
		if err := lock.Do(r.Context(), m, func(context.Context, uint64) error { return nil }); err != nil {
			r.Errorf("Do error = %v, want nil", err)
		}
	}},
	{name: "keys do not meet", fn: func(r *run) {
		l := r.locker(r.connect())
		for i := range 20 {
			lease := r.lock(l.Mutex(fmt.Sprint("key", i), nil))
			defer r.unlock(lease)
		}
		if s := l.Stats(); s.Held != 20 || s.Acquired != 20 {
			r.Errorf("Stats = %+v, want 20 held and acquired", s)
		}
	}},
	{name: "a TTL of a millisecond is held or refused, and ends", fn: func(r *run) {
		l := r.locker(r.connect())
		lease, err := l.Mutex(key, &lock.MutexOptions{TTL: time.Millisecond}).Lock(r.Context())
		switch {
		case err != nil:
			r.wantErr("Lock", err, transparency.ErrUnavailable)
		case lease.ValidUntil().After(time.Now().Add(time.Millisecond)):
			r.Errorf("valid until %v, with a TTL of 1ms", lease.ValidUntil())
		default:
			_ = lease.Unlock(r.Context()) // in time or too late
		}
		r.free(r.slack())
	}},
	{name: "Close", fn: func(r *run) {
		d := r.connect()
		l := r.locker(d)
		lease := r.lock(l.Mutex(key, nil))
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Mutex(key, nil).Lock(r.Context())
			waiting <- err
		}()
		r.eventually("a waiter", time.Second, func() bool { return l.Stats().Waiting == 1 })
		if err := l.Close(); err != nil {
			r.Errorf("Close = %v, want nil", err)
		}
		r.wantErr("Lock under Close", <-waiting, lock.ErrClosed)
		r.wantErr("Err after Close", lease.Err(), lock.ErrLost, lock.ErrClosed)
		r.taken() // its section may be running
		_, err := l.Mutex("other", nil).Lock(r.Context())
		r.wantErr("Lock after Close", err, lock.ErrClosed)
		_, err = l.Mutex("other", nil).TryLock(r.Context())
		r.wantErr("TryLock after Close", err, lock.ErrClosed)
		r.wantErr("Unlock after Close", lease.Unlock(r.Context()), lock.ErrLost)
		r.free(0)
		if err := l.Close(); err != nil {
			r.Errorf("second Close = %v, want nil", err)
		}
	}},
	{name: "Close of a Locker that waits for another process", fn: func(r *run) {
		lease := r.lock(r.locker(r.connect()).Mutex(key, nil))
		l := r.locker(r.connect())
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Mutex(key, nil).Lock(r.Context())
			waiting <- err
		}()
		r.eventually("a waiter", time.Second, func() bool { return l.Stats().Waiting == 1 })
		_ = l.Close()
		err := <-waiting
		r.wantErr("Lock under Close", err, lock.ErrClosed)
		if errors.Is(err, lock.ErrHeld) {
			r.Errorf("Lock under Close = %v, want ErrClosed alone", err)
		}
		r.unlock(lease)
		r.granted(r.connect(), r.claim(key)) // it left the line
	}},
	{name: "bad input is refused before any I/O", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		d.acquire = func(context.Context, lock.Claim, bool) (lock.Grant, error) {
			r.Errorf("the driver was asked")
			return lock.Grant{}, nil
		}
		l := r.locker(d)
		bad := map[string]lock.Mutex{
			"empty key":          l.Mutex("", nil),
			"negative TTL":       l.Mutex(key, &lock.MutexOptions{TTL: -time.Second}),
			"TTL under 1ms":      l.Mutex(key, &lock.MutexOptions{TTL: time.Millisecond - 1}),
			"absurd TTL":         l.Mutex(key, &lock.MutexOptions{TTL: lock.MaxTTL + 1}),
			"Locker's TTL":       lock.New(d, &lock.Options{TTL: -1}).Mutex(key, nil),
			"Locker's timeout":   lock.New(d, &lock.Options{Timeout: -1}).Mutex(key, nil),
			"no driver":          lock.New(nil, nil).Mutex(key, nil),
			"no driver, own TTL": lock.New(nil, nil).Mutex(key, &lock.MutexOptions{TTL: time.Second}),
		}
		for name, m := range bad {
			lease, err := m.Lock(r.Context())
			if lease != nil || !errors.Is(err, transparency.ErrInvalid) {
				r.Errorf("Lock (%s) = %v, %v, want ErrInvalid", name, lease, err)
			}
			lease, err = m.TryLock(r.Context())
			if lease != nil || !errors.Is(err, transparency.ErrInvalid) {
				r.Errorf("TryLock (%s) = %v, %v, want ErrInvalid", name, lease, err)
			}
			r.wantErr("Do", lock.Do(r.Context(), m, nil), transparency.ErrInvalid)
		}
	}},
	{name: "a lease does not print its token", fn: func(r *run) {
		d := &faulty{Driver: r.connect()}
		lease := r.lock(r.locker(d).Mutex(key, nil))
		defer r.unlock(lease)
		c := *d.last.Load()
		for _, v := range []any{lease, lease.Context(), []lock.Claim{c}, struct{ C *lock.Claim }{&c}} {
			for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				text := fmt.Sprintf(format, v)
				if strings.Contains(text, c.Token) || strings.Contains(text, fmt.Sprintf("%x", c.Token)) {
					r.Errorf("%s prints the token: %s", format, text)
				}
			}
			if text, _ := json.Marshal(v); strings.Contains(string(text), c.Token) {
				r.Errorf("the JSON of %T holds the token: %s", v, text)
			}
		}
	}},
}
