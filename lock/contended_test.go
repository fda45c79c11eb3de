package lock_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/lock"
)

// Clients that want one lock all the time cost as much for each turn whether
// they are few or many, and have as many turns each.
func TestContendedCost(t *testing.T) {
	for _, clients := range []int{8, 32} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			t.Parallel()
			s := redistest.StartServer(t)
			var h trips
			lockers := make([]*lock.Locker, clients)
			for i := range lockers {
				client := s.Client(t)
				client.AddHook(&h)
				lockers[i] = newLocker(t, client, lock.Options{})
			}
			contend(t, lockers, clients) // all are connected, and hear
			const turns = 600
			before, ran := h.n.Load(), s.Commands(t)
			each := contend(t, lockers, turns)
			sent, after := h.n.Load()-before, s.Commands(t)

			n := int64(0)
			for _, turns := range each {
				n += int64(turns)
			}
			scripts := after["evalsha"] - ran["evalsha"]
			t.Logf("%d turns: %d round trips, %d scripts, turns %v", n, sent, scripts, each)
			// A machine that is busy elsewhere can make a wait last longer than
			// a poll, and the one that polls ask once more.
			if most := 3*n + n/10; sent > most {
				t.Errorf("%d round trips for %d turns, want 3 each", sent, n)
			}
			if most := 6 * n; scripts > most {
				t.Errorf("%d scripts for %d turns, want 5 each", scripts, n)
			}
			if after["publish"]-ran["publish"] > n+n/10 {
				t.Errorf("%d wake-ups for %d turns, want one each", after["publish"]-ran["publish"], n)
			}
			if most := slices.Max(each); most-slices.Min(each) > 3 {
				t.Errorf("turns of each client: %v, want about as many", each)
			}
		})
	}
}

// contend has every Locker take the lock all the time, until it was taken so
// often or a little more, and returns how often each had it.
func contend(t *testing.T, lockers []*lock.Locker, turns int) []int {
	t.Helper()
	each := make([]int, len(lockers))
	var done atomic.Int32
	var wg sync.WaitGroup
	holder := mustLock(t, lockers[0].Mutex("k", nil))
	for i, l := range lockers {
		m := l.Mutex("k", nil)
		wg.Go(func() {
			for int(done.Load()) < turns {
				lease, err := m.Lock(t.Context())
				if err != nil {
					t.Errorf("Lock error = %v", err)
					return
				}
				time.Sleep(time.Millisecond) // the section
				done.Add(1)
				each[i]++
				if err := lease.Unlock(t.Context()); err != nil {
					t.Errorf("Unlock error = %v", err)
				}
			}
		})
		eventually(t, "it waits", func() bool { return l.Stats().Waiting == 1 })
	}
	mustUnlock(t, holder)
	wg.Wait()
	return each
}
