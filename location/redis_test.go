package location_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/location"
)

// Every key is documented, in one slot, and has a TTL.
func TestRedisKeys(t *testing.T) {
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	p := s.Prefix()
	r := newRegistry(t, client, location.Options{Prefix: p + "a{b}", TTL: time.Minute})
	first := mustRegister(t, r, at("h1"))
	g := mustRegister(t, r, at("h2"))
	if err := g.Deregister(ctx); err != nil {
		t.Fatal(err)
	}
	want := map[string]time.Duration{
		p + "a%7Bb%7D{user-service}:live": 2 * time.Minute,
		p + "a%7Bb%7D{user-service}:data": 2 * time.Minute,
		p + "a%7Bb%7D{user-service}:meta": 7 * 24 * time.Hour,
		p + "a%7Bb%7D{user-service}:gone": 10 * time.Minute,
	}
	keys := client.Keys(ctx, p+"*").Val()
	if len(keys) != len(want) {
		t.Errorf("keys = %q, want %d", keys, len(want))
	}
	for key, most := range want {
		if ttl := client.PTTL(ctx, key).Val(); ttl <= most-time.Minute || ttl > most {
			t.Errorf("TTL of %q = %v, want about %v", key, ttl, most)
		}
	}
	data := client.HGet(ctx, p+"a%7Bb%7D{user-service}:data", "h1").Val()
	token, text, _ := strings.Cut(data, " ")
	if len(token) != 24 || text != `{"id":"h1","scheme":"http","host":"h1","port":80}` {
		t.Errorf("data = %q, want a token and the endpoint", data)
	}
	if n := client.ZCard(ctx, p+"a%7Bb%7D{user-service}:gone").Val(); n != 1 {
		t.Errorf("%d tokens are gone, want 1", n)
	}
	// What others have deleted is not made again without a TTL.
	client.Del(ctx, p+"a%7Bb%7D{user-service}:meta")
	if err := first.Deregister(ctx); err != nil {
		t.Fatal(err)
	}
	for _, key := range client.Keys(ctx, p+"*").Val() {
		if ttl := client.PTTL(ctx, key).Val(); ttl <= 0 {
			t.Errorf("TTL of %q = %v, want one", key, ttl)
		}
	}
}

// A heartbeat, a look and what they cost.
func TestRedisCommands(t *testing.T) {
	s := redistest.StartServer(t)
	r := newRegistry(t, s.Client(t), location.Options{TTL: time.Hour})
	g := mustRegister(t, r, at("h1"))
	if _, err := hosts(r); err != nil {
		t.Fatal(err)
	}
	before := s.Commands(t)
	for range 10 {
		if _, err := hosts(r); err != nil {
			t.Fatal(err)
		}
	}
	after := s.Commands(t)
	if n := after["evalsha"] - before["evalsha"]; n != 10 || after["eval"] != before["eval"] {
		t.Errorf("10 lookups took %d scripts, want 10", n)
	}
	if n := after["hmget"] - before["hmget"]; n != 10 { // of meta; the endpoints are known
		t.Errorf("10 lookups of a known version read %d hashes, want 10", n)
	}
	for _, write := range []string{"zadd", "hset", "pexpire", "publish", "zrem"} {
		if after[write] != before[write] {
			t.Errorf("a lookup runs %s", write)
		}
	}
	_ = g
}

// A heartbeat keeps the service known and clears away what has run out, also
// of those that crashed.
func TestRedisHeartbeat(t *testing.T) {
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	key := func(suffix string) string { return s.Prefix() + "{user-service}" + suffix }
	r := newRegistry(t, client, location.Options{Prefix: s.Prefix(), TTL: 300 * time.Millisecond})
	mustRegister(t, r, at("h1"))
	client.PExpire(ctx, key(":meta"), time.Minute)
	client.ZAdd(ctx, key(":live"), redis.Z{Score: 1, Member: "crashed"})
	client.HSet(ctx, key(":data"), "crashed", "token {}")
	eventually(t, "it is cleared away", testkit.Limit, func() bool {
		return client.ZCard(ctx, key(":live")).Val() == 1 && client.HLen(ctx, key(":data")).Val() == 1 &&
			client.PTTL(ctx, key(":meta")).Val() > 24*time.Hour
	})
}

// The scripts are forgotten at any moment.
func TestRedisScriptFlush(t *testing.T) {
	s := redistest.Start(t)
	client := s.Client(t)
	r := newRegistry(t, client, location.Options{Prefix: s.Prefix(), TTL: 300 * time.Millisecond})
	for range 5 {
		client.ScriptFlush(t.Context())
		g := mustRegister(t, r, at("h1"))
		client.ScriptFlush(t.Context())
		sees(t, r, "[h1]")
		client.ScriptFlush(t.Context())
		n := r.Stats().Renewed
		eventually(t, "a heartbeat", testkit.Limit, func() bool { return r.Stats().Renewed > n })
		client.ScriptFlush(t.Context())
		if err := g.Deregister(t.Context()); err != nil {
			t.Errorf("Deregister error = %v", err)
		}
	}
}

func TestRedisInvalid(t *testing.T) {
	var none *redis.Client
	for name, r := range map[string]*location.Registry{
		"no client":      location.NewRedis(nil, nil),
		"a nil client":   location.NewRedis(none, nil),
		"no driver":      location.NewRegistry(nil, nil),
		"a short TTL":    location.NewMemory(&location.Options{TTL: time.Millisecond}),
		"a long TTL":     location.NewMemory(&location.Options{TTL: 2 * time.Hour}),
		"a negative TTL": location.NewMemory(&location.Options{TTL: -1}),
		"no poll":        location.NewMemory(&location.Options{Poll: -1}),
		"no timeout":     location.NewMemory(&location.Options{Timeout: -1}),
		"no services":    location.NewMemory(&location.Options{MaxServices: -1}),
	} {
		_, err := r.Register(t.Context(), service, at("h1"))
		wantErr(t, "Register with "+name, err, transparency.ErrInvalid)
		_, err = r.Resolve(t.Context(), service)
		wantErr(t, "Resolve with "+name, err, transparency.ErrInvalid)
		for _, err := range location.Watch(t.Context(), r, service) {
			wantErr(t, "Watch with "+name, err, transparency.ErrInvalid)
			break
		}
		if err := r.Close(); err != nil {
			t.Errorf("Close with %s error = %v", name, err)
		}
	}
	d := location.NewRedisDriver(nil, nil)
	wantErr(t, "Listen", d.Listen(t.Context(), func(string) {}), transparency.ErrInvalid)
	wantErr(t, "Renew", d.Renew(t.Context(), service, location.Instance{}), transparency.ErrInvalid)
	wantErr(t, "Deregister", d.Deregister(t.Context(), service, location.Instance{}), transparency.ErrInvalid)
}

// What others have put into the store harms one instance at most.
func TestRedisForeignData(t *testing.T) {
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	p := s.Prefix()
	key := func(suffix string) string { return p + "{user-service}" + suffix }
	r := newRegistry(t, client, location.Options{Prefix: p, TTL: time.Minute})
	mustRegister(t, r, at("h1"))
	live := client.ZScore(ctx, key(":live"), "h1").Val()
	for id, data := range map[string]string{
		"not json": "token {", "no token": `{"id":"x","host":"h","port":80}`, "no host": `t {"id":"x","port":80}`, "null": "t null",
		"bad port": `t {"id":"x","host":"h","port":99999}`, "userinfo": `t {"id":"x","host":"u:hush@h","port":80}`,
		"no id": `t {"host":"h","port":80}`, "empty": "", "binary": "\xff\x00",
		"later": `t {"id":"later","host":"later","port":80,"scheme":"http","colour":"red"}`,
	} {
		client.HSet(ctx, key(":data"), id, data)
		client.ZAdd(ctx, key(":live"), redis.Z{Score: live, Member: id})
	}
	client.ZAdd(ctx, key(":live"), redis.Z{Score: live, Member: "no data"})
	client.HIncrBy(ctx, key(":meta"), "generation", 1)
	got, err := hosts(r)
	slices.Sort(got)
	if err != nil || fmt.Sprint(got) != "[h h1 later]" { // "no token" has no space in it, and can be read
		t.Errorf("Resolve = %v, %v, want those that can be read", got, err)
	}
	if n := r.Stats().Broken; n != 9 {
		t.Errorf("%d were broken, want 9", n)
	}
	for suffix, spoil := range map[string]func(){
		":live": func() { client.Set(ctx, key(":live"), "x", time.Minute) },
		":meta": func() { client.Set(ctx, key(":meta"), "x", time.Minute) },
	} {
		client.Del(ctx, key(suffix))
		spoil()
		fresh := newRegistry(t, client, location.Options{Prefix: p})
		_, err := hosts(fresh)
		wantErr(t, "Resolve beside a wrong "+suffix, err, transparency.ErrInvalid)
		if strings.Contains(err.Error(), p) {
			t.Errorf("Resolve error = %v, want one without the key", err)
		}
		_, err = fresh.Register(ctx, service, at("h2"))
		wantErr(t, "Register beside a wrong "+suffix, err, transparency.ErrInvalid)
		client.Del(ctx, key(suffix))
	}
}

// More instances than a reply, or a call of a script, can hold at once.
func TestRedisManyInstances(t *testing.T) {
	s := redistest.Start(t)
	d := location.NewRedisDriver(s.Client(t), &location.Options{Prefix: s.Prefix()})
	const instances = 2500
	in := location.Instance{TTL: location.MaxTTL}
	register := func(i int) {
		in.Endpoint = location.Endpoint{ID: fmt.Sprint("i", i), Scheme: "http", Host: fmt.Sprint("h", i), Port: 80}
		in.Token = fmt.Sprint("token", i)
		if err := d.Register(t.Context(), service, in, false); err != nil {
			t.Fatal(err)
		}
	}
	for i := range instances {
		register(i)
	}
	l, err := d.List(t.Context(), service, "")
	if err != nil || len(l.Endpoints) != instances {
		t.Fatalf("List = %d endpoints, %v, want %d", len(l.Endpoints), err, instances)
	}
	// All expire, and one comes that clears them away.
	client := s.Client(t)
	key := s.Prefix() + "{user-service}:live"
	var all []redis.Z
	for i := range instances {
		all = append(all, redis.Z{Score: 1, Member: fmt.Sprint("i", i)})
	}
	client.ZAdd(t.Context(), key, all...)
	for range 3 {
		register(instances)
	}
	if n := client.ZCard(t.Context(), key).Val(); n != 1 {
		t.Errorf("%d leases are left, want 1", n)
	}
	if n := client.HLen(t.Context(), s.Prefix()+"{user-service}:data").Val(); n != 1 {
		t.Errorf("%d endpoints are left, want 1", n)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	client := redistest.StartCluster(t).Client(t)
	r := newRegistry(t, client, location.Options{TTL: time.Second, Poll: 100 * time.Millisecond})
	for i := range 10 {
		name := fmt.Sprint("service-", i)
		g, err := r.Register(t.Context(), name, at("h1"))
		if err != nil {
			t.Fatalf("Register error = %v", err)
		}
		if err := g.WaitVisible(t.Context()); err != nil {
			t.Errorf("WaitVisible error = %v", err)
		}
		if err := g.Deregister(t.Context()); err != nil {
			t.Errorf("Deregister error = %v", err)
		}
		_, err = r.Resolve(t.Context(), name)
		wantErr(t, "Resolve", err, location.ErrNoInstances)
	}
}

// Who may only read can find services; who may not write is told so; and
// without the channel changes are polled for.
func TestRedisPermissions(t *testing.T) {
	s := redistest.StartServer(t)
	admin, ctx := s.Client(t), t.Context()
	for name, rules := range map[string][]any{
		"reader": {"on", ">pw", "~location:*", "resetchannels", "+@all", "-@write"},
		"nobody": {"on", ">pw", "resetkeys", "resetchannels", "+@all"},
	} {
		if err := admin.Do(ctx, append([]any{"acl", "setuser", name}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user string) *location.Registry {
		opts := s.Options()
		opts.Username, opts.Password = user, "pw"
		return newRegistry(t, newClient(t, opts, s.Addr()), location.Options{Poll: 50 * time.Millisecond})
	}
	r := newRegistry(t, admin, location.Options{})
	g := mustRegister(t, r, at("h1"))
	reader := as("reader")
	if got, err := hosts(reader); err != nil || len(got) != 1 {
		t.Errorf("Resolve of a reader = %v, %v, want one", got, err)
	}
	_, err := reader.Register(ctx, service, at("h2"))
	wantErr(t, "Register of a reader", err, transparency.ErrDenied)
	n := 0
	watch, cancel := context.WithTimeout(ctx, testkit.Limit)
	defer cancel()
	for snap, err := range location.Watch(watch, reader, service) {
		if err != nil {
			t.Errorf("Watch error = %v", err)
		}
		if n++; n == 1 {
			_ = g.Deregister(ctx)
		} else {
			if snap.Len() != 0 {
				t.Errorf("Watch = %v, want an empty snapshot", snap)
			}
			break
		}
	}
	if n != 2 {
		t.Errorf("Watch gave %d events, want 2", n)
	}
	_, err = hosts(as("nobody"))
	wantErr(t, "Resolve of nobody", err, transparency.ErrDenied)
	opts := s.Options()
	opts.Username, opts.Password = "reader", "hush-hush"
	wrong := newRegistry(t, newClient(t, opts, s.Addr()), location.Options{})
	_, err = hosts(wrong)
	wantErr(t, "Resolve with a wrong password", err, transparency.ErrDenied)
	_, err = wrong.Register(ctx, service, at("h2"))
	wantErr(t, "Register with a wrong password", err, transparency.ErrDenied)
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("Register error = %v", err)
	}
}

// Options of the client that do harm are told of, once.
func TestRedisWarns(t *testing.T) {
	var out strings.Builder
	client := redis.NewClient(&redis.Options{Password: "hush-hush"})
	defer client.Close()
	r := location.NewRedis(client, &location.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	defer r.Close()
	if n := strings.Count(out.String(), "level=WARN"); n != 1 {
		t.Errorf("logged %q, want one warning", out.String())
	}
	d := location.NewRedisDriver(client, nil)
	for _, v := range []any{d, r} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "hush") {
				t.Errorf("%s printed the password: %s", verb, text)
			}
		}
	}
}

// Nothing is listening.
func TestRedisDown(t *testing.T) {
	s := redistest.StartServer(t)
	r := newRegistry(t, s.Client(t), location.Options{Timeout: 200 * time.Millisecond})
	g := mustRegister(t, r, at("h1"))
	s.Kill()
	_, err := newRegistry(t, s.Client(t), location.Options{}).Resolve(t.Context(), service)
	wantErr(t, "Resolve", err, transparency.ErrUnavailable)
	if !transparency.Retryable(err) {
		t.Errorf("Resolve error = %v, want one that can be retried", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = r.Register(ctx, service, at("h2"))
	wantErr(t, "Register", err, context.DeadlineExceeded)
	ctx, cancel = context.WithTimeout(t.Context(), testkit.Limit) // it ends by the Registry's Timeout
	defer cancel()
	err = g.Deregister(ctx)
	if !errors.Is(err, transparency.ErrUnavailable) && !errors.Is(err, transparency.ErrUncertain) || ctx.Err() != nil {
		t.Errorf("Deregister error = %v, want unavailable or uncertain, and in time", err)
	}
}

// spy notes what is sent.
type spy struct{ args []any }

func (h *spy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *spy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.args = append(h.args, cmd.Args()...)
		return next(ctx, cmd)
	}
}

func (h *spy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// LO-5: no time of day is ever sent, so that the client's clock does not
// matter.
func TestRedisSendsNoTime(t *testing.T) {
	s := redistest.Start(t)
	client := s.Client(t)
	var h spy
	client.AddHook(&h)
	d := location.NewRedisDriver(client, &location.Options{Prefix: s.Prefix()})
	in := location.Instance{Endpoint: at("h1"), Token: "token", TTL: location.MaxTTL}
	err := errors.Join(d.Register(t.Context(), service, in, true), d.Renew(t.Context(), service, in))
	_, listErr := d.List(t.Context(), service, "")
	if err := errors.Join(err, listErr, d.Deregister(t.Context(), service, in)); err != nil {
		t.Fatal(err)
	}
	for _, arg := range h.args {
		if text := fmt.Sprint(arg); len(text) > 9 && strings.Trim(text, "0123456789.") == "" {
			t.Errorf("sent %s, which could be a time of day", text)
		}
	}
}
