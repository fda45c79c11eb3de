package lock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/lock"
	"github.com/go-transparency/transparency/lock/locktest"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	t.Run("suite", func(t *testing.T) {
		t.Parallel()
		locktest.Run(t, func(t *testing.T) func() lock.Driver {
			client, prefix := c.Client(t), t.Name()+":"
			return func() lock.Driver { return lock.NewRedisDriver(client, &lock.Options{Prefix: prefix}) }
		})
	})

	// LK-20: the keys of a lock share a slot, whatever the key.
	t.Run("one slot", func(t *testing.T) {
		t.Parallel()
		client := c.Client(t)
		a := newLocker(t, client, lock.Options{})
		b := newLocker(t, client, lock.Options{})
		for _, key := range []string{"job", "a{b}c", "{", "}{", "{}", "{}x", "%"} {
			lease := mustLock(t, a.Mutex(key, nil))
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := b.Mutex(key, nil).Lock(ctx)
			wantErr(t, "Lock", err, lock.ErrHeld, context.DeadlineExceeded)
			cancel()
			mustUnlock(t, lease)
		}
	})

	// LK-19: every node forgets the scripts, between the renewals of a pipeline
	// that goes to all of them.
	t.Run("scripts flushed", func(t *testing.T) {
		t.Parallel()
		client, ctx := c.Client(t), t.Context()
		l := newLocker(t, client, lock.Options{TTL: 9 * time.Second, Prefix: "flushed:"})
		var leases []*lock.Lease
		for i := range 12 {
			leases = append(leases, mustLock(t, l.Mutex(fmt.Sprint(i), nil)))
		}
		err := client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return node.ScriptFlush(ctx).Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "all are renewed", func() bool { return l.Stats().Renewed >= 12 })
		if s := l.Stats(); s.RenewalsFailed != 0 {
			t.Errorf("Stats = %+v, want no failure", s)
		}
		for _, lease := range leases {
			mustUnlock(t, lease)
		}
	})

	// LK-20: a slot moves away under a lease.
	t.Run("moving slot", func(t *testing.T) {
		t.Parallel()
		const key = "moving" // no other check has keys in its slot, which would have to move too
		client, ctx := c.Client(t), t.Context()
		l := newLocker(t, client, lock.Options{TTL: 6 * time.Second})
		lease := mustLock(t, l.Mutex(key, nil))
		slot := client.ClusterKeySlot(ctx, key).Val()
		ids := map[string]string{} // by address
		for line := range strings.Lines(client.ClusterNodes(ctx).Val()) {
			f := strings.Fields(line)
			addr, _, _ := strings.Cut(f[1], "@")
			ids[addr] = f[0]
		}
		from, err := client.MasterForKey(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		source := from.Options().Addr
		var target string
		for _, addr := range c.Addrs() {
			if addr != source {
				target = addr
			}
		}
		node := func(addr string, args ...any) {
			t.Helper()
			one := newClient(t, from.Options(), addr)
			if err := one.Do(ctx, args...).Err(); err != nil {
				t.Fatalf("%v: %v", args, err)
			}
		}
		if ids[target] == "" || ids[source] == "" {
			t.Fatalf("no ids of %q and %q in %v", source, target, ids)
		}
		node(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
		node(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
		host, port, _ := strings.Cut(target, ":")
		node(source, "MIGRATE", host, port, "lock:{"+key+"}", 0, 5000) // and not its fence
		renewed := l.Stats().Renewed
		eventually(t, "a renewal by ASK", func() bool { return l.Stats().Renewed > renewed })
		node(source, "MIGRATE", host, port, "lock:{"+key+"}:fence", 0, 5000)
		for _, addr := range []string{target, source} {
			node(addr, "CLUSTER", "SETSLOT", slot, "NODE", ids[target])
		}
		renewed = l.Stats().Renewed
		eventually(t, "a renewal by MOVED", func() bool { return l.Stats().Renewed > renewed })
		if err := lease.Err(); err != nil {
			t.Errorf("Err after the move = %v, want nil", err)
		}
		mustUnlock(t, lease)
		next := mustLock(t, l.Mutex(key, nil))
		if next.Fence() <= lease.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
		}
		mustUnlock(t, next)
	})
}

// A node that hangs costs the leases of its own keys, and no others, although
// all are renewed together.
func TestClusterHungNode(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	client, ctx := c.Client(t), t.Context()
	l := newLocker(t, client, lock.Options{TTL: 6 * time.Second})
	var there, elsewhere []*lock.Lease
	var node *redis.Client
	for i := range 12 {
		key := fmt.Sprint(i)
		of, err := client.MasterForKey(ctx, "lock:{"+key+"}")
		if err != nil {
			t.Fatal(err)
		}
		if node == nil {
			node = of
		}
		lease := mustLock(t, l.Mutex(key, nil))
		if of == node {
			there = append(there, lease)
		} else {
			elsewhere = append(elsewhere, lease)
		}
	}
	if err := node.Do(ctx, "CLIENT", "PAUSE", "12000", "ALL").Err(); err != nil {
		t.Fatal(err)
	}
	for _, lease := range there {
		testkit.Receive(t, "the loss of a lease there", lease.Context().Done())
	}
	for _, lease := range elsewhere {
		if err := lease.Err(); err != nil {
			t.Errorf("Err of a lease of another node = %v, want nil", err)
		}
		mustUnlock(t, lease)
	}
}
