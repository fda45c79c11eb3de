package session_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/session"
)

// TestUpdateErrors (SE-25): the error of fn is returned as it is and nothing is
// written; conflicts are retried with fresh data, ten times in all.
func TestUpdateErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		store := &spy{SessionStore: session.NewMemoryStore(nil)}
		m := session.NewManager[int](store, nil)
		other := session.NewManager[int](store.SessionStore, nil)
		s := must[*session.Session[int]](t)(m.New(ctx, 0))
		token := s.Token().Reveal()

		mine := errors.New("mine")
		if _, err := m.Update(ctx, s, func(n *int) error { *n = 99; return mine }); err != mine {
			t.Errorf("Update error = %v, want that of fn itself", err)
		}
		if n := store.saves.Load(); n != 0 {
			t.Errorf("%d saves although fn failed", n)
		}

		var seen []int
		_, err := m.Update(ctx, s, func(n *int) error {
			seen = append(seen, *n)
			*n += 1000
			cur := must[*session.Session[int]](t)(other.Peek(ctx, token))
			must[*session.Session[int]](t)(other.Update(ctx, cur, func(n *int) error { *n++; return nil }))
			return nil
		})
		if !errors.Is(err, session.ErrConflict) || transparency.Retryable(err) {
			t.Errorf("Update error = %v, want ErrConflict", err)
		}
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(seen, want) {
			t.Errorf("fn saw %v, want %v", seen, want)
		}
		if got := must[*session.Session[int]](t)(m.Peek(ctx, token)); got.Value != 10 {
			t.Errorf("the value is %d, want 10", got.Value)
		}

		// The wait between two tries ends with the context.
		ctx, cancel := context.WithCancel(ctx)
		store.save = func(context.Context, string, []byte, session.Version) (session.Record, error) {
			time.AfterFunc(1, cancel)
			return session.Record{}, session.ErrConflict
		}
		start := time.Now()
		_, err = m.Update(ctx, s, func(*int) error { return nil })
		if !errors.Is(err, session.ErrConflict) || !errors.Is(err, context.Canceled) || time.Since(start) != 1 {
			t.Errorf("Update error = %v after %v, want ErrConflict and Canceled at once", err, time.Since(start))
		}
	})
}

// TestCallerGone (SE-19): what a caller asks for after its context has ended
// is still done, conflicts included.
func TestCallerGone(t *testing.T) {
	inBubble(t, func(t *testing.T, store session.SessionStore) {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		m := session.NewManager[int](store, nil)
		set := func(to int) func(*int) error { return func(n *int) error { *n = to; return nil } }
		first := must[*session.Session[int]](t)(m.New(t.Context(), 1))
		token := first.Token().Reveal()
		is := func(want int) {
			t.Helper()
			if got := must[*session.Session[int]](t)(m.Peek(t.Context(), token)); got.Value != want {
				t.Errorf("the value is %d, want %d", got.Value, want)
			}
		}
		s := must[*session.Session[int]](t)(m.Update(gone, first, set(2)))
		is(2)
		must[*session.Session[int]](t)(m.Update(gone, first, set(3))) // from an old version
		is(3)
		mid, leave := context.WithCancel(t.Context())
		must[*session.Session[int]](t)(m.Update(mid, s, func(n *int) error { leave(); *n = 4; return nil }))
		is(4)
		s = must[*session.Session[int]](t)(m.Renew(gone, s))
		if _, err := m.Peek(t.Context(), token); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Peek after Renew: error = %v, want ErrNotFound", err)
		}
		if err := m.Destroy(gone, s); err != nil {
			t.Errorf("Destroy error = %v", err)
		}
		if _, err := m.Peek(t.Context(), s.Token().Reveal()); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Peek after Destroy: error = %v, want ErrNotFound", err)
		}

		// What nobody waits for any more is not begun.
		if _, err := m.New(gone, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("New error = %v, want Canceled", err)
		}
		if _, err := m.Get(gone, s.Token().Reveal()); !errors.Is(err, context.Canceled) {
			t.Errorf("Get error = %v, want Canceled", err)
		}
	})
}

// TestCallerGoneBound (SE-19): a caller whose context has ended is kept for no
// longer than 50 ms, however long the store takes.
func TestCallerGoneBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		store := &spy{SessionStore: session.NewMemoryStore(nil)}
		store.del = func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}
		store.save = func(ctx context.Context, _ string, _ []byte, _ session.Version) (session.Record, error) {
			time.Sleep(time.Millisecond)
			return session.Record{}, cmp.Or(ctx.Err(), session.ErrConflict)
		}
		m := session.NewManager[int](store, nil)
		s := must[*session.Session[int]](t)(m.New(t.Context(), 1))
		for op, call := range map[string]func() error{
			"Destroy": func() error { return m.Destroy(gone, s) },
			"Update":  func() error { return errOf(m.Update(gone, s, func(*int) error { return nil })) },
			"Renew":   func() error { return errOf(m.Renew(gone, s)) },
		} {
			start := time.Now()
			err := call()
			if took := time.Since(start); !errors.Is(err, context.Canceled) || took > 51*time.Millisecond {
				t.Errorf("%s error = %v after %v, want Canceled within 50 ms", op, err, took)
			}
		}
	})
}

// TestCallerGoneEnds: the context that stands in for one that has ended does
// not outlive the call.
func TestCallerGoneEnds(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var lent context.Context
	store := &spy{SessionStore: session.NewMemoryStore(nil)}
	store.save = func(ctx context.Context, id string, data []byte, v session.Version) (session.Record, error) {
		lent = ctx
		return store.SessionStore.Save(ctx, id, data, v)
	}
	store.del = func(ctx context.Context, id string) error {
		lent = ctx
		return store.SessionStore.Delete(ctx, id)
	}
	m := session.NewManager[int](store, nil)
	s := must[*session.Session[int]](t)(m.New(t.Context(), 1))
	s = must[*session.Session[int]](t)(m.Renew(gone, s))
	if !errors.Is(lent.Err(), context.Canceled) {
		t.Errorf("after Renew the context's error is %v, want Canceled", lent.Err())
	}
	if err := m.Destroy(gone, s); err != nil || !errors.Is(lent.Err(), context.Canceled) {
		t.Errorf("Destroy error = %v; after it the context's is %v, want Canceled", err, lent.Err())
	}
}

// TestManagerRefusals: what cannot be is refused before anything is sent.
func TestManagerRefusals(t *testing.T) {
	ctx := t.Context()
	store := &spy{SessionStore: session.NewMemoryStore(nil)}
	refuse := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("%s: error = %v, want ErrInvalid", what, err)
		}
	}
	fine := session.NewManager[any](store, nil)
	for name, m := range map[string]*session.Manager[any]{
		"no store":           session.NewManager[any](nil, nil),
		"a nil store":        session.NewManager[any]((*session.RedisStore)(nil), nil),
		"no constructor":     new(session.Manager[any]),
		"negative lifetimes": session.NewManager[any](store, &session.ManagerOptions{Lifetimes: session.Lifetimes{Idle: -1, Absolute: -1}}),
		"touches too rare":   session.NewManager[any](store, &session.ManagerOptions{Lifetimes: session.Lifetimes{Idle: time.Hour}, TouchEvery: time.Hour}),
		"idle over absolute": session.NewManager[any](store, &session.ManagerOptions{Lifetimes: session.Lifetimes{Idle: 2, Absolute: 1}}),
	} {
		refuse("New with "+name, errOf(m.New(ctx, 1)))
		refuse("Get with "+name, errOf(m.Get(ctx, "x")))
		refuse("Peek with "+name, errOf(m.Peek(ctx, "x")))
	}
	for name, s := range map[string]*session.Session[any]{"nil": nil, "zero": new(session.Session[any])} {
		refuse("Update of a session that is "+name, errOf(fine.Update(ctx, s, nil)))
		refuse("Renew of a session that is "+name, errOf(fine.Renew(ctx, s)))
		refuse("Destroy of a session that is "+name, fine.Destroy(ctx, s))
		_ = text(s)
	}
	refuse("New of a func", errOf(fine.New(ctx, func() {})))
	unread := errOf(session.NewManager[fmt.Stringer](store, nil).New(ctx, time.Second))
	refuse("New of what cannot be read back", unread)
	if errors.Is(unread, session.ErrCorrupt) {
		t.Errorf("New of what cannot be read back: error = %v, want none that speaks of the store", unread)
	}
	if n := store.calls(); n != 0 {
		t.Errorf("the store was called %d times, want never", n)
	}
	s := must[*session.Session[any]](t)(fine.New(ctx, 1))
	refuse("Update by nil", errOf(fine.Update(ctx, s, nil)))
	refuse("Update to a func", errOf(fine.Update(ctx, s, func(v *any) error { *v = func() {}; return nil })))

	// SE-14: the old data stays.
	_, err := fine.Update(ctx, s, func(v *any) error { *v = strings.Repeat("x", 1<<16); return nil })
	if !errors.Is(err, session.ErrTooLarge) {
		t.Errorf("Update to 64 KiB: error = %v, want ErrTooLarge", err)
	}
	if got := must[*session.Session[any]](t)(fine.Get(ctx, s.Token().Reveal())); got.Value != 1.0 {
		t.Errorf("the value is %v, want 1", got.Value)
	}

	for _, lt := range []session.Lifetimes{{Idle: 24 * time.Hour}, {Absolute: time.Minute}} {
		m := session.NewManager[any](store, &session.ManagerOptions{Lifetimes: lt})
		s := must[*session.Session[any]](t)(m.New(ctx, 1))
		if got, want := s.Deadline().Sub(s.Created()), max(lt.Idle, lt.Absolute); got != want || !s.Expires().Equal(s.Deadline()) {
			t.Errorf("with %+v: deadline after %v, expires %v, want both after %v", lt, got, s.Expires(), want)
		}
	}
}
