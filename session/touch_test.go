package session_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/session"
)

// TestTouchThrottle (SE-10): reading costs one write per interval, however
// much is read, and keeps the session alive.
func TestTouchThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &spy{SessionStore: session.NewMemoryStore(nil)}
		m := session.NewManager[int](store, nil)
		made := must[*session.Session[int]](t)(m.New(t.Context(), 1))
		token := made.Token().Reveal()
		const minutes = 60 // twice the idle time
		for range minutes * 10 {
			time.Sleep(6 * time.Second)
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					if _, err := m.Get(t.Context(), token); err != nil {
						t.Errorf("Get error = %v", err)
					}
				})
			}
			wg.Wait()
		}
		if n := store.touches.Load(); n == 0 || n > minutes {
			t.Errorf("%d touches in %d min, want at most one a minute", n, minutes)
		}
		got := must[*session.Session[int]](t)(m.Get(t.Context(), token))
		if left := time.Until(got.Expires()); left < 29*time.Minute {
			t.Errorf("%v are left of it, want at least 29 min", left)
		}
	})
}

// TestTouchInterval: Get touches when TouchEvery has passed, not before, and
// not when the deadline leaves nothing to gain.
func TestTouchInterval(t *testing.T) {
	inBubble(t, func(t *testing.T, inner session.SessionStore) {
		store := &spy{SessionStore: inner}
		m := session.NewManager[int](store, &session.ManagerOptions{
			Lifetimes:  session.Lifetimes{Idle: time.Minute, Absolute: 3 * time.Minute},
			TouchEvery: 10 * time.Second,
		})
		token := must[*session.Session[int]](t)(m.New(t.Context(), 1)).Token().Reveal()
		for _, step := range []struct {
			wait    time.Duration
			touches int64
		}{
			{9 * time.Second, 0}, {time.Second, 1}, {time.Second, 1}, {9 * time.Second, 2},
			{50 * time.Second, 3}, {50 * time.Second, 4}, {30 * time.Second, 4}, {29 * time.Second, 4},
		} {
			time.Sleep(step.wait)
			got := must[*session.Session[int]](t)(m.Get(t.Context(), token))
			if n := store.touches.Load(); n != step.touches {
				t.Errorf("%v after: %d touches, want %d", step.wait, n, step.touches)
			}
			again := must[*session.Session[int]](t)(m.Peek(t.Context(), token))
			if !again.Expires().Equal(got.Expires()) {
				t.Errorf("Get says it expires %v, the store %v", got.Expires(), again.Expires())
			}
		}
		time.Sleep(time.Second)
		if _, err := m.Get(t.Context(), token); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Get at the deadline: error = %v, want ErrNotFound", err)
		}
	})
}

// TestNoTouch (SE-11): a poll in the background does not keep a session alive,
// nor does any Get of a manager that is told not to.
func TestNoTouch(t *testing.T) {
	inBubble(t, func(t *testing.T, store session.SessionStore) {
		m := session.NewManager[int](store, nil)
		off := session.NewManager[int](store, &session.ManagerOptions{TouchEvery: -1})
		token := must[*session.Session[int]](t)(m.New(t.Context(), 1)).Token().Reveal()
		for range 29 {
			time.Sleep(time.Minute)
			must[*session.Session[int]](t)(m.Peek(t.Context(), token))
			must[*session.Session[int]](t)(off.Get(t.Context(), token))
		}
		time.Sleep(time.Minute)
		if _, err := m.Peek(t.Context(), token); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Peek after 30 min of polling: error = %v, want ErrNotFound", err)
		}
	})
}

// TestTouchFails: a touch that fails is logged and made up for, but not with
// each read; it does not cost the caller the session.
func TestTouchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := &spy{SessionStore: session.NewMemoryStore(nil)}
		m := session.NewManager[int](store, &session.ManagerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		s := must[*session.Session[int]](t)(m.New(t.Context(), 7))
		token := s.Token().Reveal()
		time.Sleep(2 * time.Minute)
		store.touch = func(context.Context, string) (session.Record, error) {
			return session.Record{}, transparency.ErrUnavailable
		}
		for range 100 {
			if got, err := m.Get(t.Context(), token); err != nil || got.Value != 7 {
				t.Errorf("Get = %v, %v, want the session", got, err)
			}
			time.Sleep(time.Minute / 10 / 100)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d lines in the log, want 1", n)
		}
		if line := log.String(); !strings.Contains(line, "touch") || strings.Contains(line, idOf(s)) {
			t.Errorf("the log has %q, want the touch and no id", line)
		}
		store.touch = nil
		must[*session.Session[int]](t)(m.Get(t.Context(), token))
		if n := store.touches.Load(); n != 2 {
			t.Errorf("%d touches, want the one that failed and one more", n)
		}
		time.Sleep(2 * time.Minute)
		store.touch = func(ctx context.Context, id string) (session.Record, error) {
			_ = store.Delete(ctx, id) // a logout in between
			return store.SessionStore.Touch(ctx, id)
		}
		if _, err := m.Get(t.Context(), token); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Get during a logout: error = %v, want ErrNotFound", err)
		}
	})
}

// TestTouchShortIdle: reading keeps a session whose maker gave it a shorter
// idle time than this manager's TouchEvery, as before a change of both.
func TestTouchShortIdle(t *testing.T) {
	inBubble(t, func(t *testing.T, inner session.SessionStore) {
		store := &spy{SessionStore: inner}
		for _, idle := range []time.Duration{time.Minute, 30 * time.Second} {
			old := session.NewManager[int](store, &session.ManagerOptions{Lifetimes: session.Lifetimes{Idle: idle}})
			m := session.NewManager[int](store, nil)
			token := must[*session.Session[int]](t)(old.New(t.Context(), 1)).Token().Reveal()
			before := store.touches.Load()
			for range 300 {
				time.Sleep(time.Second)
				must[*session.Session[int]](t)(m.Get(t.Context(), token))
			}
			if n := time.Duration(store.touches.Load() - before); n != 300*time.Second/(idle/10) {
				t.Errorf("with an idle time of %v: %d touches in 300 s, want one every %v", idle, n, idle/10)
			}
		}
	})
}

// TestTouchLost: a touch that the store answered and then lost, as in a
// failover, is made again.
func TestTouchLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &spy{SessionStore: session.NewMemoryStore(nil)}
		store.touch = store.SessionStore.Load
		m := session.NewManager[int](store, nil)
		token := must[*session.Session[int]](t)(m.New(t.Context(), 1)).Token().Reveal()
		time.Sleep(2 * time.Minute)
		for _, want := range []int64{1, 1, 2} {
			must[*session.Session[int]](t)(m.Get(t.Context(), token))
			if n := store.touches.Load(); n != want {
				t.Errorf("%d touches, want %d", n, want)
			}
			time.Sleep(30 * time.Second)
		}
	})
}

// ahead is a store whose clock is off by some time.
type ahead struct {
	session.SessionStore
	by time.Duration
}

func (a ahead) shift(rec session.Record, err error) (session.Record, error) {
	for _, t := range []*time.Time{&rec.Created, &rec.LastSeen, &rec.Expires, &rec.Deadline, &rec.AsOf} {
		*t = t.Add(a.by)
	}
	return rec, err
}

func (a ahead) Create(ctx context.Context, id string, data []byte, lt session.Lifetimes) (session.Record, error) {
	return a.shift(a.SessionStore.Create(ctx, id, data, lt))
}

func (a ahead) Load(ctx context.Context, id string) (session.Record, error) {
	return a.shift(a.SessionStore.Load(ctx, id))
}

func (a ahead) Touch(ctx context.Context, id string) (session.Record, error) {
	return a.shift(a.SessionStore.Touch(ctx, id))
}

// TestClockSkew (SE-22): a Manager goes by the store's clock, not by its own.
func TestClockSkew(t *testing.T) {
	for _, by := range []time.Duration{-5 * time.Minute, 5 * time.Minute, 1000 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			store := &spy{SessionStore: ahead{session.NewMemoryStore(nil), by}}
			m := session.NewManager[int](store, nil)
			token := must[*session.Session[int]](t)(m.New(t.Context(), 1)).Token().Reveal()
			for _, want := range []int64{0, 1, 2} {
				s := must[*session.Session[int]](t)(m.Get(t.Context(), token))
				if n := store.touches.Load(); n != want {
					t.Errorf("with a clock off by %v: %d touches, want %d", by, n, want)
				}
				if left := s.Expires().Sub(time.Now().Add(by)); left != 30*time.Minute {
					t.Errorf("with a clock off by %v: %v are left, want 30 min", by, left)
				}
				time.Sleep(time.Minute)
			}
		})
	}
}
