package location_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/location"
)

func wantTTLs(t *testing.T, client *redis.Client) {
	t.Helper()
	for _, key := range client.Keys(t.Context(), "*").Val() {
		if left := client.PTTL(t.Context(), key).Val(); left <= 0 {
			t.Errorf("%s has no time to live", key)
		}
	}
}

// Whichever command a user may not run, no key stays for ever, and what was
// refused is not listed.
func TestRedisForbiddenCommands(t *testing.T) {
	s := redistest.StartServer(t)
	admin, ctx := s.Client(t), t.Context()
	full := location.NewRedisDriver(admin, nil)
	in := location.Instance{Endpoint: at("h1"), Token: "one", TTL: time.Minute}
	other := location.Instance{Endpoint: at("h1"), Token: "two", TTL: time.Minute}
	for _, command := range []string{
		"pexpire", "pttl", "zadd", "hset", "hsetnx", "hdel", "hincrby", "hget", "hmget", "zscore", "zcount",
		"zrangebyscore", "zremrangebyscore", "zrem", "time", "exists",
	} {
		if err := admin.Do(ctx, "ACL", "SETUSER", "user", "reset", "on", ">pw", "~*", "&*", "+@all", "-"+command).Err(); err != nil {
			t.Fatal(err)
		}
		opts := s.Options()
		opts.Username, opts.Password = "user", "pw"
		d := location.NewRedisDriver(newClient(t, opts, s.Addr()), nil)
		admin.FlushDB(ctx)
		if err := d.Register(ctx, service, in, false); err != nil {
			wantErr(t, "Register without "+command, err, transparency.ErrDenied)
			if l, err := full.List(ctx, service, ""); err != nil || len(l.Endpoints) != 0 {
				t.Errorf("List after Register without %s was denied = %+v, %v, want none", command, l, err)
			}
		}
		wantTTLs(t, admin)
		_ = d.Deregister(ctx, service, in)
		wantTTLs(t, admin)
		admin.FlushDB(ctx)
		if err := full.Register(ctx, service, in, false); err != nil {
			t.Fatal(err)
		}
		_ = d.Register(ctx, service, other, true)
		_ = d.Renew(ctx, service, in)
		_ = d.Deregister(ctx, service, in)
		wantTTLs(t, admin)
	}
}

// A key of another type is an error before anything is written.
func TestRedisWrongTypes(t *testing.T) {
	s := redistest.StartServer(t)
	client, ctx := s.Client(t), t.Context()
	d := location.NewRedisDriver(client, nil)
	in := location.Instance{Endpoint: at("h1"), Token: "one", TTL: time.Minute}
	for _, suffix := range []string{"live", "data", "meta", "gone"} {
		client.FlushDB(ctx)
		client.Set(ctx, "location:{user-service}:"+suffix, "x", time.Minute)
		wantErr(t, "Register beside a wrong "+suffix, d.Register(ctx, service, in, true), transparency.ErrInvalid)
		if keys := client.Keys(ctx, "*").Val(); len(keys) != 1 {
			t.Errorf("Register beside a wrong %s left %q", suffix, keys)
		}
		_ = d.Deregister(ctx, service, in)
		wantTTLs(t, client)
	}
}

// Where memory is full nobody new is registered, and who is registered stays,
// is found, and can leave.
func TestRedisFullMemory(t *testing.T) {
	s := redistest.StartServer(t)
	client, ctx := s.Client(t), t.Context()
	d := location.NewRedisDriver(client, nil)
	in := location.Instance{Endpoint: at("h1"), Token: "one", TTL: time.Minute}
	if err := d.Register(ctx, service, in, false); err != nil {
		t.Fatal(err)
	}
	client.ConfigSet(ctx, "maxmemory", "1")
	client.PExpire(ctx, "location:{user-service}:live", time.Second)
	if err := d.Renew(ctx, service, in); err != nil {
		t.Errorf("Renew error = %v, want nil", err)
	}
	if err := d.Renew(ctx, service, in); err != nil {
		t.Errorf("second Renew error = %v, want nil", err)
	}
	fresh := location.Instance{Endpoint: at("h2"), Token: "two", TTL: time.Minute}
	wantErr(t, "Register", d.Register(ctx, "other", fresh, false), transparency.ErrUnavailable)
	wantTTLs(t, client)
	if l, err := d.List(ctx, service, ""); err != nil || len(l.Endpoints) != 1 {
		t.Errorf("List = %+v, %v, want one endpoint", l, err)
	}
	if err := d.Deregister(ctx, service, in); err != nil {
		t.Errorf("Deregister error = %v, want nil", err)
	}
	if keys := client.Keys(ctx, "*other*").Val(); len(keys) != 0 {
		t.Errorf("a registration that was refused left %s", strings.Join(keys, " "))
	}
}

// That all leases had run out is seen also where more have than one call
// clears away.
func TestRedisVoidOfMany(t *testing.T) {
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	d := location.NewRedisDriver(client, &location.Options{Prefix: s.Prefix()})
	in := location.Instance{Endpoint: at("h1"), Token: "one", TTL: time.Minute}
	if err := d.Register(ctx, service, in, false); err != nil {
		t.Fatal(err)
	}
	ended := []redis.Z{{Score: 1, Member: in.Endpoint.ID}}
	for i := range 1500 {
		ended = append(ended, redis.Z{Score: 1, Member: fmt.Sprint("i", i)})
	}
	client.ZAdd(ctx, s.Prefix()+"{user-service}:live", ended...)
	if err := d.Register(ctx, service, in, false); err != nil {
		t.Fatal(err)
	}
	if l, err := d.List(ctx, service, ""); err != nil || l.SinceVoid == 0 {
		t.Errorf("List = %+v, %v, want it to tell that all were gone", l, err)
	}
}
