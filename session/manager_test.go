package session_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency/session"
)

func TestManager(t *testing.T) {
	inBubble(t, func(t *testing.T, store session.SessionStore) {
		ctx := t.Context()
		m := session.NewManager[cart](store, nil)
		made := must[*session.Session[cart]](t)(m.New(ctx, cart{User: "ada"}))
		if got := made.Expires().Sub(made.Created()); got != 30*time.Minute {
			t.Errorf("New: expires after %v, want 30 min", got)
		}
		if got := made.Deadline().Sub(made.Created()); got != 8*time.Hour {
			t.Errorf("New: a deadline after %v, want 8 h", got)
		}
		got := must[*session.Session[cart]](t)(m.Get(ctx, made.Token().Reveal()))
		if got.Value.User != "ada" || got.Token().Reveal() != made.Token().Reveal() {
			t.Errorf("Get = %+v, want the session of ada", got.Value)
		}
		// What is done to Value is not saved, and does not show in Update.
		got.Value.User = "eve"
		next := must[*session.Session[cart]](t)(m.Update(ctx, got, add("book")))
		if next.Value.User != "ada" || !slices.Equal(next.Value.Items, []string{"book"}) {
			t.Errorf("Update returned %+v, want ada with a book", next.Value)
		}
		again := must[*session.Session[cart]](t)(m.Peek(ctx, made.Token().Reveal()))
		if again.Value.User != "ada" || len(again.Value.Items) != 1 || len(made.Value.Items) != 0 {
			t.Errorf("Peek = %+v, want ada with a book, and the first session as it was: %+v", again.Value, made.Value)
		}
		for range 2 {
			if err := m.Destroy(ctx, made); err != nil {
				t.Errorf("Destroy error = %v", err)
			}
		}
		if _, err := m.Get(ctx, made.Token().Reveal()); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Get after Destroy: error = %v, want ErrNotFound", err)
		}
	})
}

// TestParallelUpdates (SE-1).
func TestParallelUpdates(t *testing.T) {
	inBubble(t, func(t *testing.T, store session.SessionStore) {
		m := session.NewManager[int](store, nil)
		s := must[*session.Session[int]](t)(m.New(t.Context(), 0))
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := m.Update(t.Context(), s, func(n *int) error { *n++; return nil }); err != nil {
					t.Errorf("Update error = %v", err)
				}
			})
		}
		wg.Wait()
		if got := must[*session.Session[int]](t)(m.Get(t.Context(), s.Token().Reveal())); got.Value != 50 {
			t.Errorf("after 50 increments: %d", got.Value)
		}
	})
}

// TestSlowRequest: a request that began before others finished undoes
// neither their writes (SE-2) nor a logout (SE-3).
func TestSlowRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, store session.SessionStore) {
		ctx := t.Context()
		m := session.NewManager[cart](store, nil)
		made := must[*session.Session[cart]](t)(m.New(ctx, cart{}))
		token := made.Token().Reveal()
		slow := must[*session.Session[cart]](t)(m.Get(ctx, token))

		time.Sleep(5 * time.Minute)
		must[*session.Session[cart]](t)(m.Update(ctx, made, add("book")))
		must[*session.Session[cart]](t)(m.Get(ctx, token)) // the slow one ends with another read
		after := must[*session.Session[cart]](t)(m.Update(ctx, slow, add("pen")))
		if !slices.Equal(after.Value.Items, []string{"book", "pen"}) {
			t.Errorf("the cart holds %q, want book and pen", after.Value.Items)
		}

		if err := m.Destroy(ctx, made); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Update(ctx, after, add("cup")); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Update after the logout: error = %v, want ErrNotFound", err)
		}
		if _, err := m.Renew(ctx, after); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Renew after the logout: error = %v, want ErrNotFound", err)
		}
		if _, err := m.Get(ctx, token); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Get after the logout: error = %v, want ErrNotFound", err)
		}
	})
}

// TestRenew (SE-4): whichever of a renewal and a save comes first, the old
// token is invalid from the renewal on, and no write that was answered is lost.
func TestRenew(t *testing.T) {
	inBubble(t, func(t *testing.T, store session.SessionStore) {
		ctx := t.Context()
		m := session.NewManager[cart](store, nil)
		made := must[*session.Session[cart]](t)(m.New(ctx, cart{User: "guest"}))
		old := made.Token().Reveal()

		// The save was first: the renewal carries it on.
		must[*session.Session[cart]](t)(m.Update(ctx, made, add("book")))
		time.Sleep(time.Minute)
		renewed := must[*session.Session[cart]](t)(m.Renew(ctx, made))
		if !slices.Equal(renewed.Value.Items, []string{"book"}) || !renewed.Deadline().Equal(made.Deadline()) {
			t.Errorf("Renew = %+v until %v, want the book and the deadline %v", renewed.Value, renewed.Deadline(), made.Deadline())
		}
		if renewed.Token().Reveal() == old || idOf(renewed) != idOf(made) {
			t.Errorf("Renew: want another secret under the same id")
		}
		for what, err := range map[string]error{
			"Get":    errOf(m.Get(ctx, old)),
			"Update": errOf(m.Update(ctx, made, add("late"))), // the renewal was first
			"Renew":  errOf(m.Renew(ctx, made)),
		} {
			if !errors.Is(err, session.ErrNotFound) {
				t.Errorf("%s with the old token: error = %v, want ErrNotFound", what, err)
			}
		}
		got := must[*session.Session[cart]](t)(m.Get(ctx, renewed.Token().Reveal()))
		if !slices.Equal(got.Value.Items, []string{"book"}) {
			t.Errorf("the cart holds %q, want the book alone", got.Value.Items)
		}
	})
}

// TestRenewRace (SE-4): of many renewals one wins, and what raced with them is
// in the data exactly if it was answered.
func TestRenewRace(t *testing.T) {
	inBubble(t, func(t *testing.T, store session.SessionStore) {
		ctx := t.Context()
		m := session.NewManager[cart](store, nil)
		made := must[*session.Session[cart]](t)(m.New(ctx, cart{}))
		var (
			wg   sync.WaitGroup
			mu   sync.Mutex // guards won and done
			won  []*session.Session[cart]
			done int
		)
		for i := range 20 {
			wg.Go(func() {
				var s *session.Session[cart]
				var err error
				if i%2 == 0 {
					s, err = m.Renew(ctx, made)
				} else {
					s, err = m.Update(ctx, made, add("x"))
				}
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil && !errors.Is(err, session.ErrNotFound):
					t.Errorf("error = %v, want nil or ErrNotFound", err)
				case err == nil && i%2 == 0:
					won = append(won, s)
				case err == nil:
					done++
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d renewals won, want 1", len(won))
		}
		got := must[*session.Session[cart]](t)(m.Get(ctx, won[0].Token().Reveal()))
		if len(got.Value.Items) != done {
			t.Errorf("%d updates are in the session, %d were answered", len(got.Value.Items), done)
		}
	})
}

func errOf[T any](_ T, err error) error { return err }

// TestTokensThatCannotBe (SE-6): what is no token is no session, is not looked
// up and creates nothing.
func TestTokensThatCannotBe(t *testing.T) {
	store := &spy{SessionStore: session.NewMemoryStore(nil)}
	m := session.NewManager[int](store, nil)
	good := must[*session.Session[int]](t)(m.New(t.Context(), 1)).Token().Reveal()
	before := store.calls()
	for _, token := range []string{
		"", ".", "../../etc/passwd", "session:x", strings.Repeat("x", 1<<20), good[:56], good + "A", " " + good, good + "\n",
		good[:24] + "-" + good[25:], good[:10] + "." + good[11:], good[:56] + "=", good[:56] + "+", good[:56] + "\x00", good[:55] + "é",
	} {
		for name, get := range map[string]func(context.Context, string) (*session.Session[int], error){"Get": m.Get, "Peek": m.Peek} {
			if s, err := get(t.Context(), token); !errors.Is(err, session.ErrNotFound) || s != nil {
				t.Errorf("%s(%.20q) = %v, %v, want ErrNotFound", name, token, s, err)
			}
		}
	}
	if n := store.calls() - before; n != 0 {
		t.Errorf("the store was called %d times, want never", n)
	}
}

// TestWrongSecret (SE-7): a known id with a wrong secret is answered as an
// unknown id is, with one look and no touch.
func TestWrongSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &spy{SessionStore: session.NewMemoryStore(nil)}
		m := session.NewManager[int](store, nil)
		good := must[*session.Session[int]](t)(m.New(t.Context(), 1)).Token().Reveal()
		time.Sleep(10 * time.Minute) // a touch is due
		_, wrong := m.Get(t.Context(), good[:56]+string('A'+(good[56]-'A'+1)%2))
		_, unknown := m.Get(t.Context(), strings.Repeat("A", 24)+good[24:])
		if !errors.Is(wrong, session.ErrNotFound) || wrong.Error() != unknown.Error() {
			t.Errorf("Get with a wrong secret: %v, with an unknown id: %v, want the same", wrong, unknown)
		}
		if store.loads.Load() != 2 || store.touches.Load() != 0 {
			t.Errorf("%d loads and %d touches, want 2 and 0", store.loads.Load(), store.touches.Load())
		}
	})
}
