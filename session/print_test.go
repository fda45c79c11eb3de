package session_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/session"
)

var verbs = []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10.3v"}

// TestNothingPrints (SE-28): tokens, ids and data do not come out of fmt, slog,
// encoding/json or encoding/xml, also not from within another value.
func TestNothingPrints(t *testing.T) {
	ctx := t.Context()
	store := session.NewMemoryStore(nil)
	m := session.NewManager[cart](store, nil)
	s := must[*session.Session[cart]](t)(m.New(ctx, cart{User: "hush-hush"}))
	token := s.Token()
	id, secret, _ := strings.Cut(token.Reveal(), ".")
	rec := must[session.Record](t)(store.Load(ctx, id))
	bytesText := fmt.Sprintf("%d", []byte("hush-hush"))

	type holder struct {
		Token   session.Token
		Record  session.Record
		Session *session.Session[cart]
		token   session.Token
	}
	h := holder{token, rec, s, token}
	read := session.NewManager[cart](store, &session.ManagerOptions{TouchEvery: 1})
	client := redis.NewClient(&redis.Options{Password: secret})
	defer client.Close()
	until(t, "a touch is due", func() bool { // by the store's clock
		return must[session.Record](t)(store.Load(ctx, id)).AsOf.Sub(rec.AsOf) > time.Millisecond
	})
	must[*session.Session[cart]](t)(read.Get(ctx, token.Reveal()))
	// What others keep in unexported fields fmt does not ask how to print. Of
	// that only the token is safe.
	hidden := struct{ session *session.Session[cart] }{s}
	for _, verb := range verbs {
		if out := fmt.Sprintf(verb, hidden); strings.Contains(out, id) || strings.Contains(out, secret) {
			t.Errorf("a session in an unexported field printed its token for %s: %s", verb, out)
		}
	}
	for name, v := range map[string]any{
		"Token": token, "*Token": &token, "zero Token": session.Token{}, "Record": rec, "*Record": &rec,
		"Manager": read, "RedisStore": session.NewRedisStore(client, nil), "MemoryStore": store, "MemoryStore value": *store,
		"Session": s, "Session value": *s, "a struct": h, "a pointer": &h, "a slice": []any{token, rec, s, h},
		"a map": map[string]any{"t": token, "r": rec, "s": s},
	} {
		var out []string
		for _, verb := range verbs {
			out = append(out, fmt.Sprintf(verb, v))
		}
		for _, marshal := range []func(any) ([]byte, error){json.Marshal, xml.Marshal} {
			if text, err := marshal(v); err == nil {
				out = append(out, string(text))
			}
		}
		for _, handler := range []func(*bytes.Buffer) slog.Handler{
			func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
			func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		} {
			var b bytes.Buffer
			slog.New(handler(&b)).Info("x", "v", v)
			out = append(out, b.String())
		}
		for _, text := range out {
			for what, private := range map[string]string{
				"id": id, "secret": secret, "data": "hush-hush", "data in numbers": strings.Trim(bytesText, "[]"),
				"id in hex": fmt.Sprintf("%x", id), "secret in hex": fmt.Sprintf("%x", secret),
			} {
				if strings.Contains(text, private) || strings.Contains(strings.ToLower(text), private) {
					t.Errorf("%s printed its %s: %.200s", name, what, text)
				}
			}
		}
	}
	if got := (session.Token{}).Reveal(); got != "" {
		t.Errorf("the zero Token reveals %q", got)
	}
	if got := token.String(); got != "[redacted]" {
		t.Errorf("String() = %q", got)
	}
	if got := rec.String(); !strings.Contains(got, string(rec.Version)) {
		t.Errorf("Record.String() = %q, want the version in it", got)
	}
}
