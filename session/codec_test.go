package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/session"
)

type profileV1 struct {
	Name  string `json:"name"`
	Promo string `json:"promo,omitempty"`
	Prefs struct {
		Theme string `json:"theme"`
	} `json:"prefs"`
}

type profileV2 struct {
	Name  string `json:"name"`
	Promo string `json:"promo,omitempty"`
	Since int64  `json:"since"`
	Prefs struct {
		Theme string `json:"theme"`
		Font  string `json:"font"`
	} `json:"prefs"`
}

// TestRollingDeploy (SE-12): an old and a new version of a program take turns
// on one session, and the old one drops nothing of the new one's.
func TestRollingDeploy(t *testing.T) {
	inBubble(t, func(t *testing.T, store session.SessionStore) {
		ctx := t.Context()
		v1 := session.NewManager[profileV1](store, nil)
		v2 := session.NewManager[profileV2](store, nil)
		s1 := must[*session.Session[profileV1]](t)(v1.New(ctx, profileV1{Name: "ada", Promo: "TEN"}))
		token := s1.Token().Reveal()
		for range 3 {
			s2 := must[*session.Session[profileV2]](t)(v2.Get(ctx, token))
			must[*session.Session[profileV2]](t)(v2.Update(ctx, s2, func(p *profileV2) error {
				p.Since++
				p.Prefs.Font += "mono "
				p.Promo = "TEN"
				return nil
			}))
			s1 := must[*session.Session[profileV1]](t)(v1.Get(ctx, token))
			must[*session.Session[profileV1]](t)(v1.Update(ctx, s1, func(p *profileV1) error {
				p.Name += "!"
				p.Promo = "" // what the old version does know can go
				p.Prefs.Theme += "dark "
				return nil
			}))
		}
		got := must[*session.Session[profileV2]](t)(v2.Get(ctx, token)).Value
		if got.Since != 3 || got.Name != "ada!!!" || got.Promo != "" ||
			got.Prefs.Font != "mono mono mono " || got.Prefs.Theme != "dark dark dark " {
			t.Errorf("after three rounds: %+v", got)
		}
	})
}

// TestOtherFormats: what a later version wrote (SE-12) or what makes no sense
// (SE-13) is an error of its own, and stays as it is.
func TestOtherFormats(t *testing.T) {
	inBubble(t, func(t *testing.T, store session.SessionStore) {
		ctx := t.Context()
		m := session.NewManager[cart](store, nil)
		for name, tt := range map[string]struct {
			damage func(data []byte) []byte
			want   error
		}{
			"a later format":      {func(d []byte) []byte { d[1] = 2; return d }, session.ErrTooNew},
			"a later format, cut": {func(d []byte) []byte { d[1] = 200; return d[:2] }, session.ErrTooNew},
			"a later schema":      {func(d []byte) []byte { d[3] = 1; return d }, session.ErrTooNew},
			"format zero":         {func(d []byte) []byte { d[1] = 0; return d }, session.ErrCorrupt},
			"nothing":             {func([]byte) []byte { return nil }, session.ErrCorrupt},
			"one byte":            {func(d []byte) []byte { return d[:1] }, session.ErrCorrupt},
			"half a header":       {func(d []byte) []byte { return d[:20] }, session.ErrCorrupt},
			"no payload":          {func(d []byte) []byte { return d[:36] }, session.ErrCorrupt},
			"half a payload":      {func(d []byte) []byte { return d[:len(d)-1] }, session.ErrCorrupt},
			"a payload and more":  {func(d []byte) []byte { return append(d, '1') }, session.ErrCorrupt},
			"another type":        {func(d []byte) []byte { return append(d[:36], `["secret-stuff"]`...) }, session.ErrCorrupt},
			"not a Manager's":     {func([]byte) []byte { return []byte(`{"user":"secret-stuff"}`) }, session.ErrCorrupt},
		} {
			s := must[*session.Session[cart]](t)(m.New(ctx, cart{User: "secret-stuff"}))
			rec := must[session.Record](t)(store.Load(ctx, idOf(s)))
			rec = must[session.Record](t)(store.Save(ctx, idOf(s), tt.damage(rec.Data), rec.Version))
			time.Sleep(2 * time.Minute) // a touch would be due
			for op, err := range map[string]error{
				"Get":    errOf(m.Get(ctx, s.Token().Reveal())),
				"Update": errOf(m.Update(ctx, s, add("book"))), // conflicts, then reads
				"Renew":  errOf(m.Renew(ctx, s)),
			} {
				if !errors.Is(err, tt.want) || !errors.Is(err, transparency.ErrInvalid) {
					t.Errorf("%s of %s: error = %v, want %v", op, name, err, tt.want)
				}
				if err != nil && (strings.Contains(err.Error(), "secret-stuff") || strings.Contains(err.Error(), idOf(s))) {
					t.Errorf("%s of %s: error = %v, which gives data away", op, name, err)
				}
			}
			after := must[session.Record](t)(store.Load(ctx, idOf(s)))
			if after.Version != rec.Version || !after.LastSeen.Equal(rec.LastSeen) {
				t.Errorf("%s: the record was written", name)
			}
			if err := m.Destroy(ctx, s); err != nil {
				t.Errorf("Destroy of %s: error = %v", name, err)
			}
		}
	})
}

// onlyStore hides that a store is a Replacer.
type onlyStore struct{ session.SessionStore }

func TestJSON(t *testing.T) {
	inBubble(t, func(t *testing.T, store session.SessionStore) {
		ctx := t.Context()
		for name, store := range map[string]session.SessionStore{"a Replacer": store, "a plain store": onlyStore{store}} {
			save := func(c cart) {
				t.Helper()
				if err := session.SaveJSON(ctx, store, "user_42", c, time.Hour); err != nil {
					t.Fatalf("SaveJSON in %s: error = %v", name, err)
				}
			}
			save(cart{User: "ada", Items: []string{"book"}})
			time.Sleep(59 * time.Minute)
			save(cart{User: "bob"}) // in its place, for another hour
			time.Sleep(time.Hour - time.Millisecond)
			got, err := session.LoadJSON[cart](ctx, store, "user_42")
			if err != nil || got.User != "bob" || got.Items != nil {
				t.Errorf("LoadJSON from %s = %+v, %v, want bob alone", name, got, err)
			}
			time.Sleep(time.Millisecond)
			if got, err := session.LoadJSON[cart](ctx, store, "user_42"); !errors.Is(err, session.ErrNotFound) || got.User != "" {
				t.Errorf("LoadJSON from %s after an hour = %+v, %v, want ErrNotFound", name, got, err)
			}
		}
	})
}

// TestJSONRefused: what SaveJSON refuses leaves what is there, in any store.
func TestJSONRefused(t *testing.T) {
	ctx := t.Context()
	memory := session.NewMemoryStore(nil)
	for name, store := range map[string]session.SessionStore{"a Replacer": memory, "a plain store": onlyStore{memory}} {
		if err := session.SaveJSON(ctx, store, "id", "old", time.Hour); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"too much":    session.SaveJSON(ctx, store, "id", strings.Repeat("x", 1<<16), time.Hour),
			"no time":     session.SaveJSON(ctx, store, "id", "new", 0),
			"a nil":       session.SaveJSON(ctx, store, "id", nil, time.Hour),
			"a func":      session.SaveJSON(ctx, store, "id", func() {}, time.Hour),
			"a nil store": session.SaveJSON(ctx, (*session.MemoryStore)(nil), "id", "new", time.Hour),
		} {
			if !errors.Is(err, transparency.ErrInvalid) {
				t.Errorf("SaveJSON of %s in %s: error = %v, want ErrInvalid", what, name, err)
			}
		}
		if got, err := session.LoadJSON[string](ctx, store, "id"); err != nil || got != "old" {
			t.Errorf("LoadJSON from %s = %q, %v, want it as it was", name, got, err)
		}
	}
	stuck := &spy{SessionStore: memory, del: func(context.Context, string) error { return transparency.ErrUnavailable }}
	if err := session.SaveJSON(ctx, stuck, "id", "new", time.Hour); !errors.Is(err, transparency.ErrUnavailable) {
		t.Errorf("SaveJSON where nothing can be deleted: error = %v, want ErrUnavailable", err)
	}
	if _, err := session.LoadJSON[string](ctx, (*session.RedisStore)(nil), "id"); !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("LoadJSON from a nil store: error = %v, want ErrInvalid", err)
	}
}

func TestJSONStrict(t *testing.T) {
	ctx := t.Context()
	store := session.NewMemoryStore(nil)
	for _, stored := range []string{
		"", " ", "null", " null ", "{", `{"user":"hush"`, `{"user":"hush"} x`, `{"user":"hush"}{}`, `{"user":12345}`, `["hush"]`, `"hush"`,
		"\xff", "{\"user\":\"hush\"}\x00", `{"items":[1]}`, `{"count":{"hush":"x"}}`,
	} {
		must[session.Record](t)(store.Replace(ctx, "id", []byte(stored), hour))
		got, err := session.LoadJSON[cart](ctx, store, "id")
		if !errors.Is(err, session.ErrCorrupt) || !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("LoadJSON of %q: error = %v, want ErrCorrupt", stored, err)
		}
		if got.User != "" || got.Items != nil || got.Count != nil {
			t.Errorf("LoadJSON of %q = %+v, want the zero value", stored, got)
		}
		if err != nil && (strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "12345") || strings.Contains(err.Error(), "user")) {
			t.Errorf("LoadJSON of %q: error = %v, which quotes it", stored, err)
		}
	}
	must[session.Record](t)(store.Replace(ctx, "id", []byte(" {\"user\":\"ada\"}\n"), hour))
	if got, err := session.LoadJSON[cart](ctx, store, "id"); err != nil || got.User != "ada" {
		t.Errorf("LoadJSON = %+v, %v, want ada", got, err)
	}

	var none *cart
	for _, v := range []any{nil, none, func() {}, map[string]any{"hush": make(chan int)}, json.RawMessage("hush")} {
		err := session.SaveJSON(ctx, store, "id", v, time.Hour)
		if !errors.Is(err, transparency.ErrInvalid) || strings.Contains(err.Error(), "hush") {
			t.Errorf("SaveJSON(%T) error = %v, want ErrInvalid", v, err)
		}
	}
	for _, ttl := range []time.Duration{0, -1, time.Microsecond} {
		if err := session.SaveJSON(ctx, store, "id", 1, ttl); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("SaveJSON for %v: error = %v, want ErrInvalid", ttl, err)
		}
	}
	if err := session.SaveJSON(ctx, nil, "id", 1, time.Hour); !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("SaveJSON in nil: error = %v, want ErrInvalid", err)
	}
	if _, err := session.LoadJSON[int](ctx, nil, "id"); !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("LoadJSON from nil: error = %v, want ErrInvalid", err)
	}
	if got, err := session.LoadJSON[cart](ctx, store, "id"); err != nil || got.User != "ada" {
		t.Errorf("after refusals LoadJSON = %+v, %v, want ada still", got, err)
	}
}

func FuzzLoadJSON(f *testing.F) {
	for _, seed := range []string{"", "null", `{"user":"a"}`, `{"user":1}`, "[]", "{}{}", "\xff"} {
		f.Add([]byte(seed))
	}
	store := session.NewMemoryStore(nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := store.Replace(t.Context(), "id", data, hour); err != nil {
			return // too large
		}
		got, err := session.LoadJSON[cart](t.Context(), store, "id")
		if err == nil {
			if !json.Valid(data) {
				t.Errorf("LoadJSON(%q) = %+v, want an error", data, got)
			}
			return
		}
		if !errors.Is(err, session.ErrCorrupt) || got.User != "" || got.Items != nil || got.Count != nil {
			t.Errorf("LoadJSON(%q) = %+v, %v, want the zero value and ErrCorrupt", data, got, err)
		}
	})
}
