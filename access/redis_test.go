package access_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
	"github.com/go-transparency/transparency/internal/faultnet"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
)

// An operator's redis-cli and this package see the same documents.
func TestRedisKeys(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	ctx := t.Context()
	repo := access.NewRedis(client, &access.RedisOptions{Prefix: server.Prefix()})
	if err := client.Set(ctx, server.Prefix()+"database", sampleDoc, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := get(repo, "database"); err != nil || got != sampleDoc {
		t.Errorf("Get after SET = %q, %v, want %q", got, err, sampleDoc)
	}
	if _, err := repo.Put(ctx, "a/{b}", []byte("\x00\xff1"), nil); err != nil {
		t.Fatal(err)
	}
	if got := client.Get(ctx, server.Prefix()+"a/{b}").Val(); got != "\x00\xff1" {
		t.Errorf("GET after Put = %q", got)
	}
	client.Expire(ctx, server.Prefix()+"database", time.Hour)
	if _, err := repo.Put(ctx, "database", []byte("1"), nil); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a/{b}", "database"} {
		if ttl := client.TTL(ctx, server.Prefix()+key).Val(); ttl != -1 {
			t.Errorf("TTL of %q after Put = %v, want none: a document is permanent", key, ttl)
		}
	}
	client.Del(ctx, server.Prefix()+"database")
	if _, err := get(repo, "database"); !errors.Is(err, access.ErrNotFound) {
		t.Errorf("Get after DEL: error = %v, want ErrNotFound", err)
	}
}

const sampleDoc = `{"host":"localhost","port":5432}`

func TestRedisDefaultPrefix(t *testing.T) {
	client := redistest.StartMini(t).Client(t)
	if err := client.Set(t.Context(), "config:database", sampleDoc, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := get(access.NewRedis(client, nil), "database"); err != nil || got != sampleDoc {
		t.Errorf("Get = %q, %v, want what is under config:database", got, err)
	}
}

// The digest of Lua and that of Go agree on every byte and length.
func TestRedisVersions(t *testing.T) {
	server := redistest.Start(t)
	repo := access.NewRedis(server.Client(t), &access.RedisOptions{Prefix: server.Prefix()})
	ctx := t.Context()
	data, version := []byte("x"), ""
	for i := range 256 {
		opts := &access.PutOptions{IfAbsent: version == "", IfVersion: version}
		var err error
		if version, err = repo.Put(ctx, "doc", data, opts); err != nil {
			t.Fatalf("Put of %d bytes over version %q: %v", len(data), opts.IfVersion, err)
		}
		data = append(data, byte(i))
	}
	if doc, err := repo.Get(ctx, "doc"); err != nil || doc.Version != version {
		t.Errorf("Get = %v, %v, want version %q", doc, err, version)
	}
}

func TestRedisCommands(t *testing.T) {
	server := redistest.StartServer(t)
	repo := access.NewRedis(server.Client(t), &access.RedisOptions{Prefix: server.Prefix()})
	ctx := t.Context()
	if _, err := repo.Put(ctx, "doc", []byte(sampleDoc), nil); err != nil { // loads the script
		t.Fatal(err)
	}
	before := server.Commands(t)
	if _, err := repo.Put(ctx, "doc", []byte(sampleDoc), nil); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := repo.Get(ctx, "doc"); err != nil {
			t.Fatal(err)
		}
	}
	after := server.Commands(t)
	if n := after["evalsha"] - before["evalsha"]; n != 1 || after["eval"] != before["eval"] {
		t.Errorf("Put: %d EVALSHA, %d EVAL, want 1, 0", n, after["eval"]-before["eval"])
	}
	if n := after["getrange"] - before["getrange"]; n != 10 {
		t.Errorf("10 Gets: %d GETRANGE, want 10", n)
	}
	if err := server.Client(t).ScriptFlush(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := repo.Put(ctx, "doc", []byte("1"), nil); err != nil {
		t.Errorf("Put after SCRIPT FLUSH: error = %v, want nil", err)
	}
}

func TestRedisLargeValueIsNotFetched(t *testing.T) {
	server := redistest.StartServer(t)
	client := server.Client(t)
	if err := client.SetRange(t.Context(), server.Prefix()+"doc", 200<<20, "x").Err(); err != nil {
		t.Fatal(err)
	}
	repo := access.NewRedis(client, &access.RedisOptions{Prefix: server.Prefix()})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := get(repo, "doc")
	runtime.ReadMemStats(&after)
	if !errors.Is(err, access.ErrTooLarge) {
		t.Errorf("Get of 200 MiB: error = %v, want ErrTooLarge", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 20<<20 {
		t.Errorf("Get of 200 MiB allocated %d bytes", n)
	}
}

// A document may appear between the two looks at an absent key; its size is
// bounded all the same.
func TestRedisAppears(t *testing.T) {
	server := redistest.Start(t)
	const limit = 100
	for size, want := range map[int]error{limit: nil, 1000: access.ErrTooLarge} {
		spy := &racingClient{Client: server.Client(t), key: fmt.Sprint(server.Prefix(), size), value: strings.Repeat("x", size)}
		repo := access.NewRedis(spy, &access.RedisOptions{Prefix: server.Prefix(), MaxBytes: limit})
		got, err := get(repo, fmt.Sprint(size))
		if !errors.Is(err, want) || err == nil && len(got) != size {
			t.Errorf("Get of %d bytes that appear under way = %d bytes, %v, want %v", size, len(got), err, want)
		}
		if spy.largest > limit+1 {
			t.Errorf("Get of %d bytes that appear under way fetched %d", size, spy.largest)
		}
	}
}

// A racingClient stores a value after the first command, and looks at what
// comes back.
type racingClient struct {
	*redis.Client
	key, value string
	largest    int
}

func (c *racingClient) Process(ctx context.Context, cmd redis.Cmder) error {
	err := c.Client.Process(ctx, cmd)
	if text, ok := cmd.(*redis.StringCmd); ok {
		c.largest = max(c.largest, len(text.Val()))
	}
	if c.value != "" {
		c.Set(ctx, c.key, c.value, 0)
		c.value = ""
	}
	return err
}

func TestRedisErrors(t *testing.T) {
	server := redistest.StartServer(t)
	client := server.Client(t)
	ctx := t.Context()
	if err := client.HSet(ctx, server.Prefix()+"hash", "field", "hunter2").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Do(ctx, "ACL", "SETUSER", "reader", "on", ">hunter2", "~*", "+getrange", "+get").Err(); err != nil {
		t.Fatal(err)
	}
	as := func(user, password string) *access.Repository {
		opts := server.Options()
		opts.Username, opts.Password = user, password
		c := redis.NewClient(opts)
		t.Cleanup(func() { _ = c.Close() })
		return access.NewRedis(c, &access.RedisOptions{Prefix: server.Prefix()})
	}
	put := func(repo *access.Repository, key string) error {
		_, err := repo.Put(ctx, key, []byte(sampleDoc), nil)
		return err
	}
	read := func(repo *access.Repository, key string) error {
		_, err := repo.Get(ctx, key)
		return err
	}
	admin := as("", "")
	if err := put(admin, "doc"); err != nil {
		t.Fatal(err)
	}
	check := func(name string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: error = %v, want %v", name, err, want)
		}
		if strings.Contains(fmt.Sprint(err), "hunter") || strings.Contains(fmt.Sprint(err), "reader") {
			t.Errorf("%s: error = %q: it holds a secret", name, err)
		}
	}
	check("Get of a hash", read(admin, "hash"), transparency.ErrInvalid)
	check("Put over a hash", put(admin, "hash"), transparency.ErrInvalid)
	if got := client.HGet(ctx, server.Prefix()+"hash", "field").Val(); got != "hunter2" {
		t.Errorf("after Put over a hash its field is %q", got)
	}
	check("Get by a reader", read(as("reader", "hunter2"), "doc"), nil)
	check("Put by a reader", put(as("reader", "hunter2"), "doc"), transparency.ErrDenied)
	check("Get, wrong password", read(as("reader", "hunter3"), "doc"), transparency.ErrDenied)

	if err := client.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	check("Put, out of memory", put(admin, "doc"), transparency.ErrUnavailable)
	check("Get, out of memory", read(admin, "doc"), nil)

	server.Kill()
	check("Get, server gone", read(as("", ""), "doc"), transparency.ErrUnavailable)
	check("Put, server gone", put(as("", ""), "doc"), transparency.ErrUnavailable)
}

func TestRedisNilClient(t *testing.T) {
	var none *redis.Client
	for _, repo := range []*access.Repository{access.NewRedis(nil, nil), access.NewRedis(none, nil)} {
		_, err1 := get(repo, "doc")
		_, err2 := repo.Put(t.Context(), "doc", []byte("1"), nil)
		if !errors.Is(err1, transparency.ErrInvalid) || !errors.Is(err2, transparency.ErrInvalid) {
			t.Errorf("without a client: Get error = %v, Put error = %v, want ErrInvalid", err1, err2)
		}
	}
}

func TestRedisOwnership(t *testing.T) {
	server := redistest.StartMini(t)
	client := server.Client(t)
	if err := access.NewRedis(client, nil).Close(); err != nil {
		t.Errorf("Close() error = %v", err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after Close of a repository its client gives %v: it is the caller's", err)
	}
	proxy := faultnet.New(t, server.Addr())
	repo, err := access.Open("redis://"+proxy.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := repo.Put(t.Context(), "doc", []byte("1"), nil); err != nil {
		t.Errorf("Put error = %v", err)
	}
	if proxy.Conns() == 0 {
		t.Error("the proxy sees no connection")
	}
	for range 2 {
		if err := repo.Close(); err != nil {
			t.Errorf("Close() error = %v", err)
		}
	}
	testkit.Eventually(t, "no connection is left after Close", testkit.Limit, func() bool { return proxy.Conns() == 0 })
}

func TestRedisWarns(t *testing.T) {
	opts := redistest.StartMini(t).Options()
	opts.ContextTimeoutEnabled = false
	client := redis.NewClient(opts)
	defer client.Close()
	var log bytes.Buffer
	access.NewRedis(client, &access.RedisOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if strings.Count(log.String(), "ContextTimeoutEnabled") != 1 {
		t.Errorf("the log says %q, want one warning of ContextTimeoutEnabled", log.String())
	}
}

func TestRedisCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	client := redistest.StartCluster(t).Client(t)
	repo := access.NewRedis(client, nil)
	for i := range 20 { // over all three primaries
		key := fmt.Sprintf("doc/%d", i)
		first, err := repo.Put(t.Context(), key, []byte("1"), &access.PutOptions{IfAbsent: true})
		if err != nil {
			t.Fatalf("Put(%q) error = %v", key, err)
		}
		if _, err := repo.Put(t.Context(), key, []byte("2"), &access.PutOptions{IfVersion: first}); err != nil {
			t.Errorf("Put(%q) over its version: error = %v", key, err)
		}
		if got, err := get(repo, key); err != nil || got != "2" {
			t.Errorf("Get(%q) = %q, %v, want 2", key, got, err)
		}
	}
}

// TestRedisHangs stops the server under many callers: each is back when its
// context ends, and few commands stay behind, none of them for ever.
func TestRedisHangs(t *testing.T) {
	for _, name := range []string{"Get", "Put"} {
		t.Run(name, func(t *testing.T) {
			server := redistest.StartServer(t)
			repo := access.NewRedis(server.Client(t), &access.RedisOptions{Prefix: server.Prefix(), Timeout: time.Minute})
			if _, err := repo.Put(t.Context(), "doc", []byte("1"), nil); err != nil {
				t.Fatal(err)
			}
			before := runtime.NumGoroutine()
			server.Pause()
			testkit.OnTime(t, 1000, 100*time.Millisecond, func(ctx context.Context, _ int) {
				var err error
				if name == "Get" {
					_, err = repo.Get(ctx, "doc")
				} else {
					_, err = repo.Put(ctx, "doc", []byte("2"), nil)
				}
				uncertain := name == "Put" && errors.Is(err, transparency.ErrUncertain)
				if !uncertain && !errors.Is(err, transparency.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s error = %v, want ErrUnavailable, the context's, or of Put ErrUncertain", name, err)
				}
			})
			// Callers are back before go-redis has noticed that their contexts ended.
			left := func() int { return runtime.NumGoroutine() - before }
			testkit.Eventually(t, "at most 64 goroutines are left", testkit.Limit, func() bool { return left() <= 64 })
			server.Resume()
			testkit.Eventually(t, "none is left after the server woke", testkit.Limit, func() bool { return left() <= 0 })
			if _, err := get(repo, "doc"); err != nil {
				t.Errorf("Get after the server woke: error = %v", err)
			}
		})
	}
}

// A limit that is off must not overflow what GETRANGE is asked for.
func TestRedisNoLimit(t *testing.T) {
	for _, server := range []*redistest.Server{redistest.Start(t), redistest.StartMini(t)} {
		client := server.Client(t)
		if err := client.Set(t.Context(), server.Prefix()+"doc", strings.Repeat("x", 2<<20), 0).Err(); err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int64{-1, math.MinInt64, math.MaxInt64} {
			repo := access.NewRedis(client, &access.RedisOptions{Prefix: server.Prefix(), MaxBytes: limit, Timeout: time.Minute})
			if got, err := get(repo, "doc"); err != nil || len(got) != 2<<20 {
				t.Errorf("%s, MaxBytes %d: Get = %d bytes, %v, want 2 MiB", server.Kind(), limit, len(got), err)
			}
		}
	}
}
