package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/lock"
)

// LK-22: the primary dies before it has told its replica of a grant. Two hold
// the lock then, as the page says. The one before is told by its next renewal,
// its Unlock leaves the other alone, and their fences are in order.
func TestSentinelLostGrant(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	a := newLocker(t, s.Client(t), lock.Options{Prefix: s.Prefix(), TTL: 12 * time.Second})
	b := newLocker(t, s.Client(t), lock.Options{Prefix: s.Prefix(), TTL: 12 * time.Second})
	mustUnlock(t, lockInTime(t, a.Mutex("k", nil)))
	s.Replica().AwaitSync(t, s.Primary())

	// What lies in the replica's socket it would read yet, so that is closed
	// while the replica cannot ask for another.
	s.Replica().Pause()
	if err := s.Primary().Client(t).Do(t.Context(), "CLIENT", "KILL", "TYPE", "replica").Err(); err != nil {
		t.Fatal(err)
	}
	first := mustLock(t, a.Mutex("k", nil))
	s.Primary().Kill()
	s.Replica().Resume()
	s.AwaitPrimary(t, s.Replica())

	second := lockInTime(t, b.Mutex("k", nil))
	t.Logf("the first knows by the time that the second has it: %v", first.Err())
	if second.Fence() <= first.Fence() {
		t.Errorf("fence %d after %d", second.Fence(), first.Fence())
	}
	select {
	case <-first.Context().Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the first was not told within its TTL")
	}
	wantErr(t, "cause", context.Cause(first.Context()), lock.ErrLost)
	wantErr(t, "Unlock of the first", first.Unlock(t.Context()), lock.ErrLost)
	if err := second.Err(); err != nil {
		t.Errorf("Err of the second = %v, want nil", err)
	}
	mustUnlock(t, second)
	gone(t, s.Replica().Client(t), s.Prefix()+"{k}", 0)
}

// A lease whose grant was replicated survives the failover, permits too, and
// who waited for it gets it after.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	opts := lock.Options{Prefix: s.Prefix(), TTL: 12 * time.Second}
	a, b := newLocker(t, s.Client(t), opts), newLocker(t, s.Client(t), opts)
	lease := lockInTime(t, a.Mutex("k", nil))
	permit, err := a.Semaphore("k", 1, nil).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *lock.Lease, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		next, err := b.Mutex("k", nil).Lock(ctx)
		if err != nil {
			t.Errorf("Lock of one who waited through a failover: %v", err)
		}
		got <- next
	}()
	eventually(t, "a waiter", func() bool { return b.Stats().Waiting == 1 })
	s.Replica().AwaitSync(t, s.Primary())
	s.Primary().Kill()
	s.AwaitPrimary(t, s.Replica())

	renewed := a.Stats().Renewed
	eventually(t, "both are renewed after the failover", func() bool { return a.Stats().Renewed >= renewed+2 })
	if lease.Err() != nil || permit.Err() != nil {
		t.Errorf("Err after the failover = %v, %v, want nil", lease.Err(), permit.Err())
	}
	mustUnlock(t, lease)
	mustUnlock(t, permit)
	next := testkit.Receive(t, "the next lease", got)
	if next == nil {
		return
	}
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}
	mustUnlock(t, next)
}

// lockInTime locks as soon as the client has found the new primary.
func lockInTime(t *testing.T, m lock.Mutex) *lock.Lease {
	t.Helper()
	var lease *lock.Lease
	eventually(t, "a lease", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var err error
		lease, err = m.Lock(ctx)
		return err == nil
	})
	return lease
}
