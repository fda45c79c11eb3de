package session

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
)

// TestScriptsTwice runs every changing script twice with the same arguments:
// the second answers as the first did and changes nothing.
func TestScriptsTwice(t *testing.T) {
	srv := redistest.Start(t)
	store := NewRedisStore(srv.Client(t), &RedisOptions{Prefix: srv.Prefix()})
	d := store.driver.(*redisDriver)
	ctx := t.Context()
	lt := Lifetimes{Idle: time.Hour, Absolute: 2 * time.Hour}

	same := func(op string, call func() (Record, error)) Record {
		t.Helper()
		first, err := call()
		if err != nil {
			t.Fatalf("%s error = %v", op, err)
		}
		testkit.Eventually(t, "a second write would show", testkit.Limit, func() bool {
			rec, err := d.load(ctx, "id")
			return err == nil && rec.AsOf.Sub(first.AsOf) > time.Millisecond
		})
		second, err := call()
		if err != nil {
			t.Fatalf("%s again: error = %v", op, err)
		}
		second.AsOf = first.AsOf
		if first.String() != second.String() || !first.LastSeen.Equal(second.LastSeen) || !first.Created.Equal(second.Created) {
			t.Errorf("%s again = %+v, want %+v", op, second, first)
		}
		return first
	}
	same("create", func() (Record, error) { return d.create(ctx, "id", []byte("1"), "v1", lt, false) })
	same("save", func() (Record, error) { return d.save(ctx, "id", []byte("2"), "v1", "v2") })
	same("replace", func() (Record, error) { return d.create(ctx, "id", []byte("3"), "v3", lt, true) })
	rec, err := d.load(ctx, "id")
	if err != nil || string(rec.Data) != "3" || rec.Version != "v3" {
		t.Errorf("load = %q %q, %v, want %q %q", rec.Data, rec.Version, err, "3", "v3")
	}
	for range 2 {
		if err := d.delete(ctx, "id"); err != nil {
			t.Errorf("delete error = %v", err)
		}
	}
}

// TestLargeNumbers: Lua prints 14 digits of a number, and a real server
// prints 1.7e15 as 1.7e+15. Nothing of the kind may reach a field.
func TestLargeNumbers(t *testing.T) {
	srv := redistest.Start(t)
	client := srv.Client(t)
	store := NewRedisStore(client, &RedisOptions{Prefix: srv.Prefix()})
	ctx := t.Context()
	key := srv.Prefix() + "id"
	if _, err := store.Create(ctx, "id", []byte("1"), Lifetimes{maxLifetime, maxLifetime}); err != nil {
		t.Fatal(err)
	}
	const most = 999_999_999_999_999 // what number in record.lua takes
	if err := client.HSet(ctx, key, "a", most, "i", most).Err(); err != nil {
		t.Fatal(err)
	}
	rec, err := store.Touch(ctx, "id")
	if err != nil || rec.Deadline.UnixMilli() != most {
		t.Errorf("Touch deadline = %d, %v, want %d", rec.Deadline.UnixMilli(), err, int64(most))
	}
	rec, err = store.Load(ctx, "id")
	if err != nil || rec.Deadline.UnixMilli() != most {
		t.Errorf("Load deadline = %d, %v, want %d", rec.Deadline.UnixMilli(), err, int64(most))
	}
	for field, text := range client.HGetAll(ctx, key).Val() {
		if strings.Contains("csia", field) {
			if _, err := strconv.ParseInt(text, 10, 64); err != nil {
				t.Errorf("field %s is %q, want decimal digits", field, text)
			}
		}
	}
}

func FuzzParseReply(f *testing.F) {
	f.Add("ok", "1", "v", "2", "3", "4", "5", "data", int8(8))
	f.Add("absent", "", "", "", "", "", "", "", int8(1))
	f.Add("ok", "1", "v", "2", "x", "4", "5", "", int8(7))
	f.Add("", "", "", "", "", "", "", "", int8(0))
	f.Fuzz(func(t *testing.T, a, b, c, d, e, g, h, i string, n int8) {
		all := []any{a, b, c, d, e, g, h, i}
		rec, err := parseReply(all[:min(max(int(n), 0), len(all))])
		if err == nil && a != "ok" {
			t.Errorf("parseReply(%q) = %v, want an error", a, rec)
		}
	})
}

// TestParseReply: what no script here answers is ErrCorrupt.
func TestParseReply(t *testing.T) {
	for _, reply := range []any{
		nil, "OK", int64(1), []any{}, []any{int64(1)}, []any{"OK"}, []any{"ok"},
		[]any{"ok", "1", "v", "1", "1", "1"},
		[]any{"ok", int64(1), "v", "1", "1", "1", "1"},
		[]any{"ok", "1", nil, "1", "1", "1", "1"},
		[]any{"ok", "1", "v", "1", "1", "1", "1", int64(1)},
		[]any{"ok", "", "v", "1", "1", "1", "1"},
		[]any{"ok", "1", "v", "1e3", "1", "1", "1"},
		[]any{"ok", "1", "v", "1", "1", "1", "9223372036854775808"},
	} {
		if rec, err := parseReply(reply); !errors.Is(err, ErrCorrupt) || rec.Version != "" {
			t.Errorf("parseReply(%q) = %v, %v, want ErrCorrupt", reply, rec, err)
		}
	}
}
