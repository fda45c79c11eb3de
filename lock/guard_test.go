package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/lock"
)

func TestGuard(t *testing.T) {
	var g lock.Guard
	for _, c := range []struct {
		fence  uint64
		want   error
		before uint64
	}{
		{0, transparency.ErrInvalid, 0},
		{7, nil, 0},
		{7, nil, 7},
		{6, lock.ErrStaleFence, 7},
		{8, nil, 7},
		{7, lock.ErrStaleFence, 8},
		{math.MaxUint64, nil, 8},
		{math.MaxUint64 - 1, lock.ErrStaleFence, math.MaxUint64},
	} {
		if got := g.Fence(); got != c.before {
			t.Errorf("Fence = %d, want %d", got, c.before)
		}
		if err := g.Check(c.fence); !errors.Is(err, c.want) {
			t.Errorf("Check(%d) after %d = %v, want %v", c.fence, c.before, err, c.want)
		}
	}
	err := g.Check(7)
	if want := fmt.Sprintf("lock: guard: stale fence: 7 after %d", uint64(math.MaxUint64)); err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

// Do is Check and the section in one.
func TestGuardDo(t *testing.T) {
	var g lock.Guard
	mine := errors.New("mine")
	called := 0
	fn := func(context.Context) error { called++; return mine }
	if err := g.Do(t.Context(), 8, fn); err != mine || called != 1 {
		t.Errorf("Do = %v after %d calls, want the function's own error", err, called)
	}
	wantErr(t, "Do of an older fence", g.Do(t.Context(), 7, fn), lock.ErrStaleFence)
	wantErr(t, "Do of no fence", g.Do(t.Context(), 0, fn), transparency.ErrInvalid)
	wantErr(t, "Do of nothing", g.Do(t.Context(), 9, nil), transparency.ErrInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, "Do with a context that has ended", g.Do(ctx, 9, fn), context.Canceled)
	if called != 1 || g.Fence() != 8 {
		t.Errorf("%d calls and fence %d, want one and 8: what is refused changes nothing", called, g.Fence())
	}
	var none *lock.Guard
	wantErr(t, "Do of a nil Guard", none.Do(t.Context(), 1, fn), transparency.ErrInvalid)
	wantErr(t, "Check of a nil Guard", none.Check(1), transparency.ErrInvalid)
	if got := fmt.Sprintf("%v %+v %s", none, &g, &g); got != "lock.Guard(fence 0) lock.Guard(fence 8) lock.Guard(fence 8)" {
		t.Errorf("printed as %q", got)
	}
}

// LK-26: a section that panics or exits leaves the Guard to others.
func TestGuardUnwinds(t *testing.T) {
	var g lock.Guard
	for _, unwind := range []func(){func() { panic("over") }, runtime.Goexit} {
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() { _ = recover() }()
			_ = g.Do(t.Context(), 1, func(context.Context) error { unwind(); return nil })
		})
		wg.Wait()
		if err := g.Do(t.Context(), 1, func(context.Context) error { return nil }); err != nil {
			t.Errorf("Do after that = %v", err)
		}
	}
}

// One section runs at a time, and who waits is refused when a newer fence has
// asked meanwhile. A section that has begun is not overtaken.
func TestGuardOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g lock.Guard
		var mu sync.Mutex
		var ended []uint64
		write := func(ctx context.Context, fence uint64, d time.Duration) error {
			return g.Do(ctx, fence, func(context.Context) error {
				time.Sleep(d)
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, fence)
				return nil
			})
		}
		results := make([]error, 4)
		var wg sync.WaitGroup
		for i, fence := range []uint64{7, 7, 8, 9} {
			wg.Go(func() {
				ctx, cancel := t.Context(), func() {}
				if fence == 8 {
					ctx, cancel = context.WithTimeout(ctx, time.Second/2)
				}
				defer cancel()
				results[i] = write(ctx, fence, time.Second)
			})
			synctest.Wait() // one after another
		}
		wg.Wait()
		if results[0] != nil || results[3] != nil {
			t.Errorf("the first and the newest: %v and %v, want both accepted", results[0], results[3])
		}
		wantErr(t, "waiting behind a newer fence", results[1], lock.ErrStaleFence)
		wantErr(t, "waiting too long", results[2], context.DeadlineExceeded)
		if len(ended) != 2 || ended[0] != 7 || ended[1] != 9 {
			t.Errorf("written %d, want 7 and then 9", ended)
		}
	})
}

// What is accepted never goes back, whoever comes when.
func TestGuardNeverBack(t *testing.T) {
	var g lock.Guard
	var accepted []uint64 // guarded by g
	var wg sync.WaitGroup
	for i := range uint64(8) {
		wg.Go(func() {
			for n := range uint64(200) {
				fence := n*5 + i*3 + 1
				_ = g.Do(t.Context(), fence, func(context.Context) error {
					accepted = append(accepted, fence)
					return nil
				})
			}
		})
	}
	wg.Wait()
	if why := backwards(accepted); why != "" {
		t.Error(why)
	}
}

// backwards says where a list of accepted fences goes back, or nothing.
func backwards(accepted []uint64) string {
	for i := 1; i < len(accepted); i++ {
		if accepted[i] < accepted[i-1] {
			return fmt.Sprintf("fence %d was accepted after %d", accepted[i], accepted[i-1])
		}
	}
	return ""
}

// LK-1: a holder that was paused for longer than its lease is refused by the
// resource, and by nobody else.
func TestGuardPausedHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := newMoody(t)
		var shelf lock.Guard
		sleeper := mustLock(t, m)
		gone := lock.ErrLost
		d.renew.Store(&gone) // its process stands still
		successor := mustLock(t, lockOver(t, d.Driver).Mutex("leader", nil))
		if err := shelf.Check(successor.Fence()); err != nil {
			t.Errorf("Check of the holder = %v", err)
		}
		wantErr(t, "Check of the one before", shelf.Check(sleeper.Fence()), lock.ErrStaleFence)
		wantErr(t, "its Unlock", sleeper.Unlock(t.Context()), lock.ErrLost)
		mustUnlock(t, successor)
	})
}

func lockOver(t *testing.T, d lock.Driver) *lock.Locker {
	t.Helper()
	l := lock.New(d, nil)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Errors of guards name the key and nothing that was to be written.
func quiet(t *testing.T, err error, secret string) {
	t.Helper()
	for _, verb := range []string{"%v", "%+v", "%#v", "%q"} {
		if strings.Contains(fmt.Sprintf(verb, err), secret) {
			t.Errorf("%s of the error tells what was to be written: %v", verb, err)
		}
	}
}
