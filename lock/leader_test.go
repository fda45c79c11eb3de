package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/lock"
)

// moody is a driver whose answers can be replaced.
type moody struct {
	lock.Driver
	acquire atomic.Pointer[error] // of every Acquire
	renew   atomic.Pointer[error] // of every claim
	asked   atomic.Int32
}

func (d *moody) Acquire(ctx context.Context, c lock.Claim, queue bool) (lock.Grant, error) {
	d.asked.Add(1)
	if err := d.acquire.Load(); err != nil {
		return lock.Grant{}, *err
	}
	return d.Driver.Acquire(ctx, c, queue)
}

func (d *moody) Renew(ctx context.Context, claims []lock.Claim) []error {
	err := d.renew.Load()
	if err == nil {
		return d.Driver.Renew(ctx, claims)
	}
	return slices.Repeat([]error{*err}, len(claims))
}

// newMoody returns a driver over memory and a mutex of a Locker over it.
func newMoody(t *testing.T) (*moody, lock.Mutex) {
	t.Helper()
	d := &moody{Driver: lock.NewMemoryDriver()}
	l := lock.New(d, nil)
	t.Cleanup(func() { _ = l.Close() })
	return d, l.Mutex("leader", nil)
}

// free reports whether nobody has the mutex's lock.
func free(t *testing.T, m lock.Mutex) bool {
	t.Helper()
	lease, err := m.TryLock(context.WithoutCancel(t.Context()))
	if err != nil {
		return false
	}
	return lease.Unlock(context.WithoutCancel(t.Context())) == nil
}

// The function's own answer ends the call, and the lock is free at once.
func TestLeaderAnswer(t *testing.T) {
	mine := errors.New("mine")
	for _, want := range []error{nil, mine, lock.ErrHeld, context.Canceled, transparency.ErrUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			_, m := newMoody(t)
			calls := 0
			err := lock.RunLeader(t.Context(), m, nil, func(ctx context.Context, fence uint64) error {
				calls++
				if fence == 0 || ctx.Err() != nil || free(t, m) {
					t.Errorf("fence %d, context %v, want a lease that is held", fence, ctx.Err())
				}
				return want
			})
			if err != want || calls != 1 {
				t.Errorf("RunLeader = %v after %d calls, want %v itself after one", err, calls, want)
			}
			if !free(t, m) {
				t.Errorf("the lock is held after RunLeader")
			}
		})
	}
}

// A leadership that is lost is sought again, whatever the function made of it,
// and in no hurry.
func TestLeaderLoss(t *testing.T) {
	for name, answer := range map[string]func(context.Context) error{
		"nil":          func(context.Context) error { return nil },
		"the cause":    context.Cause,
		"the end":      func(ctx context.Context) error { return ctx.Err() },
		"another":      func(context.Context) error { return errors.New("connection reset") },
		"a refusal":    func(context.Context) error { return fmt.Errorf("write: %w", lock.ErrStaleFence) },
		"both of them": func(ctx context.Context) error { return errors.Join(lock.ErrStaleFence, context.Cause(ctx)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, m := newMoody(t)
				lost := lock.ErrLost
				d.renew.Store(&lost)
				var fences []uint64
				err := lock.RunLeader(t.Context(), m, nil, func(ctx context.Context, fence uint64) error {
					if fences = append(fences, fence); len(fences) == 3 {
						d.renew.Store(nil)
						return nil
					}
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), lock.ErrLost) {
						t.Errorf("cause = %v, want ErrLost", context.Cause(ctx))
					}
					return answer(ctx)
				})
				if err != nil || len(fences) != 3 || !slices.IsSorted(fences) {
					t.Errorf("RunLeader = %v with fences %d, want nil with three that rise", err, fences)
				}
			})
		})
	}
}

// A resource that refuses the fence tells of a later leader before the store
// does. Who is refused again and again asks less and less often.
func TestLeaderRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := newMoody(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		calls := 0
		err := lock.RunLeader(ctx, m, nil, func(context.Context, uint64) error {
			calls++
			return lock.ErrStaleFence
		})
		wantErr(t, "RunLeader", err, context.DeadlineExceeded, lock.ErrStaleFence)
		if calls < 30 || calls > 300 { // a second each in the mean, once the pauses have grown
			t.Errorf("%d calls in a minute, want about 60", calls)
		}
		if !free(t, m) {
			t.Errorf("the lock is held after RunLeader")
		}
	})
}

// Trouble with the store is sat out, with pauses between the campaigns; what
// can never work is returned.
func TestLeaderTrouble(t *testing.T) {
	for _, trouble := range []error{
		transparency.ErrUnavailable, transparency.ErrUncertain, transparency.ErrRejected, errors.New("of no class"),
		errors.Join(transparency.ErrUncertain, transparency.ErrInvalid),
	} {
		synctest.Test(t, func(t *testing.T) {
			d, m := newMoody(t)
			d.acquire.Store(&trouble)
			time.AfterFunc(time.Minute, func() { d.acquire.Store(nil) })
			start := time.Now()
			err := lock.RunLeader(t.Context(), m, nil, func(context.Context, uint64) error { return nil })
			if took := time.Since(start); err != nil || took > time.Minute+3*time.Second {
				t.Errorf("RunLeader = %v after %v of %v, want nil within the longest pause", err, took, trouble)
			}
			if n := d.asked.Load(); n < 30 || n > 300 {
				t.Errorf("%d attempts in a minute of %v, want about 60", n, trouble)
			}
		})
	}
	for _, trouble := range []error{transparency.ErrInvalid, transparency.ErrDenied} {
		synctest.Test(t, func(t *testing.T) {
			d, m := newMoody(t)
			d.acquire.Store(&trouble)
			err := lock.RunLeader(t.Context(), m, nil, func(context.Context, uint64) error { return nil })
			if wantErr(t, "RunLeader", err, trouble); d.asked.Load() != 1 {
				t.Errorf("%d attempts after %v, want one", d.asked.Load(), trouble)
			}
		})
	}
}

// A Locker that is closed ends the leadership and the campaigns.
func TestLeaderClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lock.NewMemory(nil)
		err := lock.RunLeader(t.Context(), l.Mutex("leader", nil), nil, func(ctx context.Context, _ uint64) error {
			go l.Close()
			<-ctx.Done()
			return nil
		})
		wantErr(t, "RunLeader", err, lock.ErrClosed)
	})
}

// The changes come in order, none is left out, and a slow reader delays nobody.
func TestLeaderChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := newMoody(t)
		trouble := transparency.ErrUnavailable
		d.acquire.Store(&trouble)
		leader := lock.NewLeader(m, &lock.LeaderOptions{Base: time.Second, Max: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()

		watch, enough := context.WithCancel(t.Context())
		defer enough()
		changes := leader.Changes(watch)
		done := make(chan error, 1)
		go func() {
			calls := 0
			done <- leader.Run(ctx, func(ctx context.Context, fence uint64) error {
				if calls++; calls == 1 {
					lost := lock.ErrLost
					d.renew.Store(&lost)
				}
				<-ctx.Done()
				d.renew.Store(nil)
				time.Sleep(time.Minute)
				return context.Cause(ctx)
			})
		}()
		var got []string
		for c := range changes {
			said := c.State.String()
			for name, err := range map[string]error{
				" unavailable": transparency.ErrUnavailable, " lost": lock.ErrLost, " canceled": context.Canceled,
			} {
				if errors.Is(c.Err, err) {
					said += name
				}
			}
			if leading := c.State == lock.LeaderLeading || c.State == lock.LeaderLeaving; leading != (c.Fence != 0) {
				t.Errorf("%v with fence %d", c.State, c.Fence)
			}
			got = append(got, said)
			switch {
			case said == "campaigning unavailable":
				d.acquire.Store(nil)
			case said == "leading" && strings.Count(strings.Join(got, ","), ",leading") == 2:
				cancel()
			case len(got) > 1 && c.State == lock.LeaderIdle:
				enough()
			}
			time.Sleep(time.Second) // slow
		}
		wantErr(t, "Run", <-done, context.Canceled)
		want := []string{
			"idle", "campaigning", "campaigning unavailable", "leading", "leaving lost",
			"campaigning lost", "leading", "leaving canceled", "idle canceled",
		}
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("changes:\n%q, want\n%q", got, want)
		}
		for c := range leader.Changes(ctx) {
			t.Errorf("with a context that has ended: %v", c)
		}
		if leader.State() != lock.LeaderIdle {
			t.Errorf("State = %v, want idle", leader.State())
		}
	})
}

func TestLeaderBadInput(t *testing.T) {
	ctx := t.Context()
	fn := func(context.Context, uint64) error { return nil }
	m := lockOver(t, lock.NewMemoryDriver()).Mutex("k", nil)
	var zero lock.Leader
	var none *lock.Leader
	for name, err := range map[string]error{
		"no mutex":    lock.RunLeader(ctx, nil, nil, fn),
		"no function": lock.RunLeader(ctx, m, nil, nil),
		"zero":        zero.Run(ctx, fn),
		"nil":         none.Run(ctx, fn),
	} {
		wantErr(t, name, err, transparency.ErrInvalid)
	}
	for range none.Changes(ctx) {
		t.Errorf("a nil Leader has changes")
	}
	if none.State() != lock.LeaderIdle || zero.State() != lock.LeaderIdle || lock.LeaderState(99).String() != "unknown" {
		t.Errorf("states: %v, %v, %v", none, &zero, lock.LeaderState(99))
	}
	leader := lock.NewLeader(m, nil)
	err := leader.Run(ctx, func(ctx context.Context, _ uint64) error {
		wantErr(t, "Run within Run", leader.Run(ctx, fn), transparency.ErrInvalid)
		return nil
	})
	if err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

// Of two processes one leads, and the other when the first has ended.
func TestLeaderRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var leading atomic.Int32
	run := func(ctx context.Context) (began <-chan struct{}, done <-chan error) {
		m := newLocker(t, s.Client(t), lock.Options{Prefix: s.Prefix()}).Mutex("leader", nil)
		started, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- lock.RunLeader(ctx, m, nil, func(ctx context.Context, _ uint64) error {
				if n := leading.Add(1); n != 1 {
					t.Errorf("%d lead", n)
				}
				defer leading.Add(-1)
				close(started)
				<-ctx.Done()
				return nil
			})
		}()
		return started, ended
	}
	firstCtx, stopFirst := context.WithCancel(t.Context())
	defer stopFirst()
	began, firstDone := run(firstCtx)
	<-began
	secondCtx, stopSecond := context.WithCancel(t.Context())
	defer stopSecond()
	began, secondDone := run(secondCtx)
	stopFirst()
	if err := <-firstDone; err != nil {
		t.Errorf("RunLeader = %v, want nil", err)
	}
	select {
	case <-began:
	case <-time.After(lock.DefaultTTL / 2):
		t.Errorf("the second does not lead")
	}
	stopSecond()
	if err := <-secondDone; err != nil {
		t.Errorf("RunLeader = %v, want nil", err)
	}
}
