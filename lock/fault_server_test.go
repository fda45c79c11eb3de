package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/faultnet"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/lock"
)

// A connection is cut at any byte of what Lock and Unlock send and are
// answered: the error has one class, a lease whose Unlock got no answer is not
// said to be lost, and no key is left.
func TestFaultCutAnywhere(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	direct := s.Client(t)
	proxy := faultnet.New(t, s.Addr())
	l := newLocker(t, newClient(t, s.Options(), proxy.Addr()), lock.Options{TTL: time.Minute})
	oneClass := func(op string, err error) {
		t.Helper()
		n := 0
		for _, class := range []error{transparency.ErrUnavailable, transparency.ErrUncertain, transparency.ErrDenied, transparency.ErrInvalid} {
			if errors.Is(err, class) {
				n++
			}
		}
		if n != 1 || errors.Is(err, lock.ErrLost) {
			t.Errorf("%s error = %v, want one of one class", op, err)
		}
	}
	var keys []string
	uncertain := 0
	try := func(dir faultnet.Dir, n int64) {
		key := fmt.Sprint(dir, "-", n)
		keys = append(keys, key)
		// A cut may have hit a connection of the background after its reply.
		eventually(t, "a connection", func() bool {
			lease, err := l.Mutex("warm", nil).Lock(t.Context())
			return err == nil && lease.Unlock(t.Context()) == nil
		})
		proxy.CutAfter(dir, n)
		defer proxy.CutAfter(dir, -1)
		lease, err := l.Mutex(key, nil).Lock(t.Context())
		if err != nil {
			oneClass("Lock", err)
			uncertain++
			return
		}
		if err := lease.Unlock(t.Context()); err != nil {
			oneClass("Unlock", err)
			uncertain++
			eventually(t, "Unlock again", func() bool { return lease.Unlock(t.Context()) == nil })
		}
	}
	for n := int64(0); n < 700; n += 7 {
		try(faultnet.ToServer, n)
	}
	for n := range int64(50) {
		try(faultnet.ToClient, n)
	}
	if uncertain < 60 {
		t.Errorf("%d of %d cuts hit, which shows little", uncertain, len(keys))
	}
	eventually(t, "nothing to undo", func() bool { return l.Stats().Undoing == 0 })
	for _, key := range keys {
		gone(t, direct, "lock:{"+key+"}", 0)
	}
}

// A server that lost everything, by a restart or by FLUSHALL: holders are told
// by the next renewal, waiters are served, and fences go on rising.
func TestFaultAmnesia(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	a := newLocker(t, s.Client(t), lock.Options{TTL: 4 * time.Second})
	b := newLocker(t, s.Client(t), lock.Options{})
	for name, forget := range map[string]func(){
		"restart": func() { s.Restart(t) },
		"flush":   func() { s.Client(t).FlushAll(t.Context()) },
	} {
		lease := mustLock(t, a.Mutex("k", nil))
		got := make(chan *lock.Lease)
		go func() {
			next, err := b.Mutex("k", nil).Lock(t.Context())
			if err != nil {
				t.Errorf("%s: Lock error = %v", name, err)
			}
			got <- next
		}()
		eventually(t, "a waiter", func() bool { return b.Stats().Waiting == 1 })
		forget()
		testkit.Receive(t, name+": the loss", lease.Context().Done())
		wantErr(t, name+": cause", context.Cause(lease.Context()), lock.ErrLost)
		next := testkit.Receive(t, "the next lease", got)
		if next == nil {
			return
		}
		wantErr(t, name+": Unlock", lease.Unlock(t.Context()), lock.ErrLost)
		if next.Err() != nil || next.Fence() <= lease.Fence() {
			t.Errorf("%s: next lease: error %v, fence %d after %d", name, next.Err(), next.Fence(), lease.Fence())
		}
		mustUnlock(t, next)
	}
}

// The driver by itself undoes a grant that comes when its caller has gone.
func TestFaultLateGrant(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	direct := s.Client(t)
	proxy := faultnet.New(t, s.Addr())
	opts := s.Options()
	opts.ContextTimeoutEnabled = false // so that the reply is read
	d := lock.NewRedisDriver(newClient(t, opts, proxy.Addr()), nil)
	warm := lock.Claim{Key: "warm", Token: "somebody________------------------------", TTL: time.Minute}
	if _, err := d.Acquire(t.Context(), warm, false); err != nil {
		t.Fatal(err)
	}
	proxy.Delay(faultnet.ToClient, 200*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	late := warm
	late.Key = "late"
	_, err := d.Acquire(ctx, late, false)
	wantErr(t, "Acquire", err, context.DeadlineExceeded, transparency.ErrUncertain)
	if direct.Exists(t.Context(), "lock:{late}").Val() != 1 {
		t.Errorf("the attempt was not executed; the check shows nothing")
	}
	gone(t, direct, "lock:{late}", testkit.Limit)
}

// A server that stands still for a moment, while a lock is free, while it is
// waited for, and while it is handed over: it is obtained, soon after.
func TestFaultShortPause(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	a, b := newLocker(t, s.Client(t), lock.Options{}), newLocker(t, s.Client(t), lock.Options{})
	mustUnlock(t, mustLock(t, a.Mutex("k", nil)))
	mustUnlock(t, mustLock(t, b.Mutex("k", nil)))
	pause := func() (resumed <-chan struct{}) {
		done := make(chan struct{})
		s.Pause()
		time.AfterFunc(60*time.Millisecond, func() {
			s.Resume()
			close(done)
		})
		return done
	}
	soon := func(when string, start time.Time) {
		t.Helper()
		took := time.Since(start)
		t.Logf("%s: obtained after %v", when, took)
		if took > 3*time.Second { // a tenth of a second or so on a machine at rest
			t.Errorf("%s: obtained after %v", when, took)
		}
	}
	for range 3 {
		resumed, start := pause(), time.Now()
		lease := mustLock(t, a.Mutex("k", nil))
		soon("free", start)
		<-resumed

		got := make(chan *lock.Lease, 1)
		go func() {
			next, err := b.Mutex("k", nil).Lock(t.Context())
			if err != nil {
				t.Errorf("Lock error = %v", err)
			}
			got <- next
		}()
		eventually(t, "a waiter", func() bool { return b.Stats().Waiting == 1 })
		<-pause()
		resumed, start = pause(), time.Now()
		mustUnlock(t, lease)
		next := testkit.Receive(t, "the next lease", got)
		soon("waited for", start)
		<-resumed
		if next == nil {
			return
		}
		mustUnlock(t, next)
	}
}
