package session_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/session"
	"github.com/go-transparency/transparency/session/sessiontest"
)

var hour = session.Lifetimes{Idle: time.Hour, Absolute: 2 * time.Hour}

// calls are the methods of a store, with what each needs to get past its own
// checks.
var calls = map[string]func(ctx context.Context, s *session.RedisStore, id string) error{
	"Create": func(ctx context.Context, s *session.RedisStore, id string) error {
		_, err := s.Create(ctx, id, []byte("{}"), hour)
		return err
	},
	"Replace": func(ctx context.Context, s *session.RedisStore, id string) error {
		_, err := s.Replace(ctx, id, []byte("{}"), hour)
		return err
	},
	"Load": func(ctx context.Context, s *session.RedisStore, id string) error {
		_, err := s.Load(ctx, id)
		return err
	},
	"Save": func(ctx context.Context, s *session.RedisStore, id string) error {
		_, err := s.Save(ctx, id, []byte("{}"), "version")
		return err
	},
	"Touch": func(ctx context.Context, s *session.RedisStore, id string) error {
		_, err := s.Touch(ctx, id)
		return err
	},
	"Delete": func(ctx context.Context, s *session.RedisStore, id string) error {
		return s.Delete(ctx, id)
	},
}

// TestRedisKeys: the layout is documented, so it is API.
func TestRedisKeys(t *testing.T) {
	srv := redistest.StartMini(t)
	client := srv.Client(t)
	store := session.NewRedisStore(client, nil)
	ctx := t.Context()
	rec, err := store.Create(ctx, "user{42}", []byte("data"), hour)
	if err != nil {
		t.Fatal(err)
	}
	if keys := client.Keys(ctx, "*").Val(); len(keys) != 1 || keys[0] != "session:user{42}" {
		t.Fatalf("keys = %q, want the one of the session", keys)
	}
	got := client.HGetAll(ctx, "session:user{42}").Val()
	if got["v"] != string(rec.Version) || got["d"] != "data" || got["i"] != "3600000" || len(got) != 6 {
		t.Errorf("the hash is %q", got)
	}
}

// TestRedisTTL (SE-8): there is no moment at which the key has no time to
// live, nor more than the session has.
func TestRedisTTL(t *testing.T) {
	srv := redistest.Start(t)
	client := srv.Client(t)
	store := session.NewRedisStore(client, &session.RedisOptions{Prefix: srv.Prefix()})
	ctx := t.Context()
	ttl := func(op string, rec session.Record, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s error = %v", op, err)
		}
		left := client.PTTL(ctx, srv.Prefix()+"id").Val()
		if left <= 0 || left > rec.Expires.Sub(rec.AsOf) {
			t.Errorf("after %s the key lives for %v, want up to %v", op, left, rec.Expires.Sub(rec.AsOf))
		}
	}
	for _, lt := range []session.Lifetimes{hour, {Idle: time.Minute, Absolute: time.Minute}} {
		rec, err := store.Replace(ctx, "id", nil, lt)
		ttl("Replace", rec, err)
		rec, err = store.Touch(ctx, "id")
		ttl("Touch", rec, err)
		rec, err = store.Save(ctx, "id", []byte("x"), rec.Version)
		ttl("Save", rec, err)
		if err := store.Delete(ctx, "id"); err != nil {
			t.Fatal(err)
		}
		rec, err = store.Create(ctx, "id", nil, lt)
		ttl("Create", rec, err)
	}
}

// TestRedisTTLAtDeadline (SE-8): near its deadline the key lives no longer than
// the session.
func TestRedisTTLAtDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := redistest.BubbleClient(t)
		store := session.NewRedisStore(client, nil)
		ctx := t.Context()
		rec := must[session.Record](t)(store.Create(ctx, "id", nil, session.Lifetimes{Idle: time.Minute, Absolute: 90 * time.Second}))
		time.Sleep(50 * time.Second)
		for op, call := range map[string]func() error{
			"Touch": func() error { return errOf(store.Touch(ctx, "id")) },
			"Save":  func() error { return errOf(store.Save(ctx, "id", nil, rec.Version)) },
		} {
			if err := call(); err != nil {
				t.Errorf("%s error = %v", op, err)
			}
			if left := client.PTTL(ctx, "session:id").Val(); left != 40*time.Second {
				t.Errorf("after %s the key lives for %v, want 40 s", op, left)
			}
		}
	})
}

// TestRedisPersisted (SE-8): a session whose key lost its time to live by
// another hand still ends, and its key goes with the next write.
func TestRedisPersisted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := redistest.BubbleClient(t)
		store := session.NewRedisStore(client, nil)
		ctx := t.Context()
		for _, op := range []string{"Save", "Touch", "Create"} {
			if _, err := store.Create(ctx, "id", nil, hour); err != nil {
				t.Fatal(err)
			}
			client.Persist(ctx, "session:id")
			time.Sleep(hour.Idle)
			if _, err := store.Load(ctx, "id"); !errors.Is(err, session.ErrNotFound) {
				t.Errorf("Load error = %v, want ErrNotFound", err)
			}
			err := calls[op](ctx, store, "id")
			if op == "Create" {
				if left := client.PTTL(ctx, "session:id").Val(); err != nil || left != hour.Idle {
					t.Errorf("Create error = %v, and the key lives for %v, want nil and %v", err, left, hour.Idle)
				}
				continue
			}
			if n := client.Exists(ctx, "session:id").Val(); !errors.Is(err, session.ErrNotFound) || n != 0 {
				t.Errorf("%s error = %v, and %d keys are left, want ErrNotFound and none", op, err, n)
			}
		}
	})
}

// TestRedisForeignKeys: what others put under a session's key is refused, not
// read and not overwritten.
func TestRedisForeignKeys(t *testing.T) {
	srv := redistest.Start(t)
	client := srv.Client(t)
	store := session.NewRedisStore(client, &session.RedisOptions{Prefix: srv.Prefix()})
	ctx := t.Context()
	key := srv.Prefix() + "id"
	client.Set(ctx, key, "not a hash", time.Minute)
	for op, call := range calls {
		err := call(ctx, store, "id")
		if !errors.Is(err, transparency.ErrInvalid) || transparency.Retryable(err) {
			t.Errorf("%s on a string: error = %v, want ErrInvalid", op, err)
		}
	}
	if got := client.Get(ctx, key).Val(); got != "not a hash" {
		t.Errorf("the string is now %q", got)
	}
	client.Del(ctx, key)
	client.HSet(ctx, key, "name", "Ada")
	client.Expire(ctx, key, time.Minute)
	for op, call := range calls {
		if op == "Delete" {
			continue
		}
		if err := call(ctx, store, "id"); !errors.Is(err, session.ErrCorrupt) || !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("%s on another hash: error = %v, want ErrCorrupt", op, err)
		}
	}
	if got := client.HGetAll(ctx, key).Val(); len(got) != 1 || got["name"] != "Ada" {
		t.Errorf("the hash is now %q", got)
	}
	if err := store.Delete(ctx, "id"); err != nil {
		t.Errorf("Delete error = %v", err)
	}
}

// TestRedisDamaged (SE-13): a session of which a field is missing or makes no
// sense is ErrCorrupt, stays as it is, and can be deleted.
func TestRedisDamaged(t *testing.T) {
	srv := redistest.Start(t)
	client := srv.Client(t)
	store := session.NewRedisStore(client, &session.RedisOptions{Prefix: srv.Prefix()})
	ctx := t.Context()
	key := srv.Prefix() + "id"
	for _, damage := range []string{"-v", "-d", "-c", "-a", "i=", "i=-5", "s=1e3", "a=1e400", "a=inf", "a=nan", "c=0x10", "i=1700000000000001"} {
		if err := store.Delete(ctx, "id"); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Create(ctx, "id", nil, hour); err != nil {
			t.Fatal(err)
		}
		if field, value, set := strings.Cut(damage, "="); set {
			client.HSet(ctx, key, field, value)
		} else {
			client.HDel(ctx, key, damage[1:])
		}
		before := client.HGetAll(ctx, key).Val()
		for _, op := range []string{"Create", "Replace", "Load", "Save", "Touch"} {
			if err := calls[op](ctx, store, "id"); !errors.Is(err, session.ErrCorrupt) {
				t.Errorf("%s with %s: error = %v, want ErrCorrupt", op, damage, err)
			}
		}
		after := client.HGetAll(ctx, key).Val()
		for f, v := range before {
			if after[f] != v || len(after) != len(before) {
				t.Errorf("with %s the hash went from %q to %q", damage, before, after)
				break
			}
		}
	}
}

// TestRedisDenied: a user without permissions is told so, on every call.
func TestRedisDenied(t *testing.T) {
	srv := redistest.StartServer(t)
	ctx := t.Context()
	admin := srv.Client(t)
	for user, rule := range map[string][]any{
		"nothing": {"ACL", "SETUSER", "nothing", "on", ">pw", "-@all", "+hello", "+ping"},
		"scripts": {"ACL", "SETUSER", "scripts", "on", ">pw", "+@all", "-hmget", "-hlen", "~*"},
		"keys":    {"ACL", "SETUSER", "keys", "on", ">pw", "+@all", "~elsewhere:*"},
	} {
		if err := admin.Do(ctx, rule...).Err(); err != nil {
			t.Fatal(err)
		}
		opts := srv.Options()
		opts.Username, opts.Password = user, "pw"
		client := redis.NewClient(opts)
		store := session.NewRedisStore(client, nil)
		for op, call := range calls {
			err := call(ctx, store, "hush-hush")
			if !errors.Is(err, transparency.ErrDenied) || transparency.Retryable(err) {
				t.Errorf("%s as %q: error = %v, want ErrDenied", op, user, err)
			}
			if err != nil && strings.Contains(err.Error(), "hush-hush") {
				t.Errorf("%s as %q: error = %v, which names the id", op, user, err)
			}
		}
		_ = client.Close()
	}
}

// TestRedisPermissions: what the package page asks for is enough.
func TestRedisPermissions(t *testing.T) {
	srv := redistest.StartServer(t)
	ctx := t.Context()
	rule := []any{"ACL", "SETUSER", "least", "on", ">pw", "~session:*", "-@all", "+hello", "+evalsha", "+eval",
		"+time", "+hmget", "+exists", "+hset", "+pexpire", "+hlen", "+del"}
	if err := srv.Client(t).Do(ctx, rule...).Err(); err != nil {
		t.Fatal(err)
	}
	opts := srv.Options()
	opts.Username, opts.Password = "least", "pw"
	client := redis.NewClient(opts)
	defer client.Close()
	sessiontest.Run(t, func(t *testing.T) session.SessionStore {
		return session.NewRedisStore(client, &session.RedisOptions{Prefix: "session:" + t.Name()})
	})
}

// TestRedisDeniedHalfway (SE-8): a user who lacks any one command of the
// scripts changes nothing with a call that is refused. Above all no key is left
// without a time to live.
func TestRedisDeniedHalfway(t *testing.T) {
	srv := redistest.StartServer(t)
	ctx := t.Context()
	admin := srv.Client(t)
	direct := session.NewRedisStore(admin, nil)
	for _, command := range []string{"time", "hmget", "exists", "hset", "pexpire", "hlen", "del"} {
		if err := admin.Do(ctx, "ACL", "SETUSER", command, "on", ">pw", "+@all", "-"+command, "~*").Err(); err != nil {
			t.Fatal(err)
		}
		opts := srv.Options()
		opts.Username, opts.Password = command, "pw"
		client := redis.NewClient(opts)
		store := session.NewRedisStore(client, nil)
		for op, call := range calls {
			rec := must[session.Record](t)(direct.Replace(ctx, "there", []byte("old"), hour))
			ids := []string{"there", "new"}
			for _, id := range ids {
				before := admin.HGetAll(ctx, "session:"+id).Val()
				err := call(ctx, store, id)
				if op == "Save" && id == "there" {
					err = errOf(store.Save(ctx, id, []byte("new"), rec.Version))
				}
				if !errors.Is(err, transparency.ErrDenied) {
					continue
				}
				if after := admin.HGetAll(ctx, "session:"+id).Val(); !maps.Equal(before, after) {
					t.Errorf("%s without %s: error = %v, and the hash went from %q to %q", op, command, err, before, after)
				}
			}
			for _, id := range ids {
				if left := admin.PTTL(ctx, "session:"+id).Val(); left == -1 {
					t.Errorf("%s without %s: a key without a time to live is left", op, command)
				}
			}
			admin.Del(ctx, "session:new")
		}
		_ = client.Close()
	}
}

// TestRedisScriptFlush: scripts that the server forgets are sent again.
func TestRedisScriptFlush(t *testing.T) {
	srv := redistest.Start(t)
	client := srv.Client(t)
	store := session.NewRedisStore(client, &session.RedisOptions{Prefix: srv.Prefix()})
	ctx := t.Context()
	rec, err := store.Create(ctx, "id", []byte("0"), hour)
	for i := range 20 {
		if err != nil {
			t.Fatalf("round %d: error = %v", i, err)
		}
		client.ScriptFlush(ctx)
		rec, err = store.Save(ctx, "id", []byte{byte(i)}, rec.Version)
	}
	client.ScriptFlush(ctx)
	if rec, err = store.Load(ctx, "id"); err != nil || rec.Data[0] != 19 {
		t.Errorf("Load = %v, %v, want the last save", rec.Data, err)
	}
	client.ScriptFlush(ctx)
	if err := store.Delete(ctx, "id"); err != nil {
		t.Errorf("Delete error = %v", err)
	}
}

// TestRedisRefusals: what can be seen to be wrong is refused without a command
// and without a panic.
func TestRedisRefusals(t *testing.T) {
	ctx := t.Context()
	var none *redis.Client
	for name, store := range map[string]*session.RedisStore{
		"no client":        session.NewRedisStore(nil, nil),
		"a nil client":     session.NewRedisStore(none, nil),
		"no constructor":   new(session.RedisStore),
		"a client by name": session.NewRedisStore(session.RedisClient(none), &session.RedisOptions{Logger: slog.Default()}),
	} {
		for op, call := range calls {
			if err := call(ctx, store, "id"); !errors.Is(err, transparency.ErrInvalid) {
				t.Errorf("%s with %s: error = %v, want ErrInvalid", op, name, err)
			}
		}
	}
	if _, err := new(session.MemoryStore).Load(ctx, "id"); !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("Load of a zero MemoryStore: error = %v, want ErrInvalid", err)
	}
}

// TestMaxBytes (SE-14): the limit is the caller's to move or take away.
func TestMaxBytes(t *testing.T) {
	ctx := t.Context()
	srv := redistest.Start(t)
	for limit, ok := range map[int64]bool{10: false, 11: true, -1: true} {
		for _, store := range []session.SessionStore{
			session.NewMemoryStore(&session.MemoryOptions{MaxBytes: limit}),
			session.NewRedisStore(srv.Client(t), &session.RedisOptions{Prefix: srv.Prefix(), MaxBytes: limit}),
		} {
			_, err := store.Create(ctx, "id", []byte("eleven byte"), hour)
			if ok != (err == nil) || !ok && !errors.Is(err, session.ErrTooLarge) {
				t.Errorf("Create of 11 bytes in %T with MaxBytes %d: error = %v", store, limit, err)
			}
			_ = store.Delete(ctx, "id")
		}
	}
}
