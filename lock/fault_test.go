package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/faultnet"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/lock"
)

// The faults of a network between a Locker and a real server.

// LK-2: all packets are dropped before the first renewal, and the holder knows
// before the server lets the key expire.
func TestFaultBlackHole(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	direct := s.Client(t)
	proxy := faultnet.New(t, s.Addr())
	l := newLocker(t, newClient(t, s.Options(), proxy.Addr()), lock.Options{TTL: 4 * time.Second})
	lease := mustLock(t, l.Mutex("k", nil))
	proxy.Drop(faultnet.Both, true)
	until := lease.ValidUntil()
	testkit.Receive(t, "the loss", lease.Context().Done())
	left := direct.PTTL(t.Context(), "lock:{k}").Val()
	late := time.Since(until)
	t.Logf("told within %v of the end of validity, and %v before the key expires", late, left)
	if left <= 0 && late < 200*time.Millisecond { // half the margin; later is this machine's affair
		t.Errorf("the holder was told after the key had expired")
	}
	wantErr(t, "cause", context.Cause(lease.Context()), lock.ErrLost)
	b := mustLock(t, newLocker(t, direct, lock.Options{}).Mutex("k", nil))
	if b.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", b.Fence(), lease.Fence())
	}
	proxy.Drop(faultnet.Both, false)
	proxy.Reset()
	wantErr(t, "Unlock", lease.Unlock(t.Context()), lock.ErrLost)
	if b.Err() != nil || direct.Exists(t.Context(), "lock:{k}").Val() != 1 {
		t.Errorf("the late Unlock hurt the successor")
	}
	mustUnlock(t, b)
}

// LK-3, LK-4: the server grants, the reply is late, the caller has gone.
func TestFaultLateReply(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	direct := s.Client(t)
	proxy := faultnet.New(t, s.Addr())
	client := newClient(t, s.Options(), proxy.Addr())
	l := newLocker(t, client, lock.Options{})
	for name, start := range map[string]func() (context.Context, context.CancelFunc){
		"deadline": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 50*time.Millisecond)
		},
		"cancel": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			return ctx, cancel
		},
	} {
		mustUnlock(t, mustLock(t, l.Mutex("warm", nil))) // a connection is there
		proxy.Delay(faultnet.ToClient, 300*time.Millisecond)
		ctx, cancel := start()
		lease, err := l.Mutex("k", nil).Lock(ctx)
		if lease != nil {
			t.Errorf("%s: Lock = a lease", name)
		}
		wantErr(t, name+": Lock", err, ctx.Err(), transparency.ErrUncertain)
		gone(t, direct, "lock:{k}", testkit.Limit)
		proxy.Delay(faultnet.ToClient, 0)
		cancel()
		eventually(t, "nothing to undo", func() bool { return l.Stats().Undoing == 0 })
		gone(t, direct, "lock:{k}", 0)
	}
}

// LK-5: a reply later than the TTL is no lease.
func TestFaultReplyLaterThanTTL(t *testing.T) {
	t.Parallel()
	var err error
	for range 4 {
		// On a machine that is busy elsewhere the second reply can be late too.
		if err = lateReply(t); !transparency.Retryable(err) {
			break
		}
	}
	if err != nil {
		t.Errorf("Lock error = %v", err)
	}
}

// lateReply has a reply come after the TTL, and returns the error of Lock.
func lateReply(t *testing.T) error {
	s := redistest.StartServer(t)
	proxy := faultnet.New(t, s.Addr())
	l := newLocker(t, newClient(t, s.Options(), proxy.Addr()), lock.Options{Timeout: 10 * time.Second})
	mustUnlock(t, mustLock(t, l.Mutex("warm", nil)))
	proxy.Freeze(faultnet.ToClient)
	thaw := time.AfterFunc(1700*time.Millisecond, func() { proxy.Thaw(faultnet.ToClient) })
	defer thaw.Stop()
	began := time.Now()
	const ttl = 1500 * time.Millisecond
	lease, err := l.Mutex("k", &lock.MutexOptions{TTL: ttl}).Lock(t.Context())
	if err != nil {
		return err
	}
	if time.Since(began) < ttl {
		t.Fatalf("the reply was not late")
	}
	if err := lease.Err(); err != nil {
		t.Errorf("Err of a new lease = %v", err)
	}
	if n := l.Stats().Attempts; n != 3 {
		t.Errorf("%d attempts, want 3: the first was too old to return", n)
	}
	mustUnlock(t, lease)
	return nil
}

// LK-7: the release is executed and its reply lost.
func TestFaultLostReplyOfUnlock(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	direct := s.Client(t)
	proxy := faultnet.New(t, s.Addr())
	l := newLocker(t, newClient(t, s.Options(), proxy.Addr()), lock.Options{})
	lease := mustLock(t, l.Mutex("k", nil))
	proxy.CutAfter(faultnet.ToClient, 0)
	err := lease.Unlock(t.Context())
	wantErr(t, "Unlock", err, transparency.ErrUncertain)
	if errors.Is(err, lock.ErrLost) {
		t.Errorf("Unlock = %v, want no claim of a loss", err)
	}
	c := mustLock(t, newLocker(t, direct, lock.Options{}).Mutex("k", nil))
	mustUnlock(t, lease)
	if direct.Exists(t.Context(), "lock:{k}").Val() != 1 {
		t.Errorf("the second Unlock freed the successor's key")
	}
	mustUnlock(t, c)
}

// An attempt whose request is held up, and arrives when all believe it dead.
func TestFaultLateRequest(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	direct := s.Client(t)
	proxy := faultnet.New(t, s.Addr())
	l := newLocker(t, newClient(t, s.Options(), proxy.Addr()), lock.Options{})
	mustUnlock(t, mustLock(t, l.Mutex("k", nil)))
	proxy.Freeze(faultnet.ToServer)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := l.Mutex("k", nil).Lock(ctx)
	wantErr(t, "Lock", err, context.DeadlineExceeded)
	time.Sleep(50 * time.Millisecond)
	proxy.Thaw(faultnet.ToServer)
	eventually(t, "nothing to undo", func() bool { return l.Stats().Undoing == 0 })
	gone(t, direct, "lock:{k}", 0)
}

// LK-10: a failover's worth of errors, shorter and longer than the lease.
func TestFaultReadOnly(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	direct := s.Client(t)
	ctx := t.Context()
	l := newLocker(t, s.Client(t), lock.Options{TTL: 6 * time.Second})
	lease := mustLock(t, l.Mutex("k", nil))
	if err := direct.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two failed renewals", func() bool { return l.Stats().RenewalsFailed >= 2 })
	if err := direct.Do(ctx, "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a renewal", func() bool { return l.Stats().Renewed >= 1 })
	if err := lease.Err(); err != nil {
		t.Errorf("Err after READONLY for a while = %v, want nil", err)
	}
	if err := direct.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	until := lease.ValidUntil()
	testkit.Receive(t, "the loss", lease.Context().Done())
	if late := time.Since(until); late > 10*time.Second {
		t.Errorf("told %v after the bound", late)
	}
	wantErr(t, "Err", lease.Err(), lock.ErrLost)
	_, err := l.Mutex("other", nil).Lock(ctx)
	wantErr(t, "Lock on a replica", err, transparency.ErrUnavailable)
}

// LK-10: no connection at all for a while.
func TestFaultRefused(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	proxy := faultnet.New(t, s.Addr())
	l := newLocker(t, newClient(t, s.Options(), proxy.Addr()), lock.Options{TTL: 6 * time.Second})
	lease := mustLock(t, l.Mutex("k", nil))
	proxy.Refuse(true)
	proxy.Reset()
	eventually(t, "failed renewals", func() bool { return l.Stats().RenewalsFailed >= 2 })
	_, err := l.Mutex("other", nil).Lock(t.Context())
	if !transparency.Retryable(err) {
		t.Errorf("Lock while connections are refused = %v, want a retryable error", err)
	}
	proxy.Refuse(false)
	eventually(t, "a renewal", func() bool { return l.Stats().Renewed >= 1 })
	mustUnlock(t, lease)
}

// LK-14: the subscription breaks and comes back.
func TestFaultSubscription(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	proxy := faultnet.New(t, s.Addr())
	a := newLocker(t, s.Client(t), lock.Options{})
	b := newLocker(t, newClient(t, s.Options(), proxy.Addr()), lock.Options{})
	for range 3 {
		lease := mustLock(t, a.Mutex("k", nil))
		got := make(chan *lock.Lease)
		go func() {
			next, err := b.Mutex("k", nil).Lock(t.Context())
			if err != nil {
				t.Errorf("Lock error = %v", err)
			}
			got <- next
		}()
		eventually(t, "a waiter", func() bool { return b.Stats().Waiting == 1 })
		proxy.Reset()
		mustUnlock(t, lease)
		next := testkit.Receive(t, "the next lease", got)
		if next == nil {
			return
		}
		mustUnlock(t, next)
	}
}
