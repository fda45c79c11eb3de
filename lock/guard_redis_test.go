package lock_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/lock"
)

const guardSecret = "hidden-words"

// newGuard returns a guard whose marks stand under the prefix of the test, with
// a client to look at the data.
func newGuard(t *testing.T, opts lock.RedisGuardOptions) (*lock.RedisGuard, *redis.Client, string) {
	t.Helper()
	s := redistest.Start(t)
	client := s.Client(t)
	opts.Prefix = s.Prefix() + "guard:"
	return lock.NewRedisGuard(client, &opts), client, s.Prefix()
}

// Fences are compared exactly, whatever Lua makes of numbers: text that sorts
// otherwise, what prints as 1.7e+15, and what no double holds.
func TestRedisGuardOrder(t *testing.T) {
	t.Parallel()
	g, client, prefix := newGuard(t, lock.RedisGuardOptions{})
	rising := []uint64{
		1, 2, 9, 10, 11, 99, 100, 1 << 32, 1e15 - 1, 1e15, 1e15 + 1, 1_700_000_000_000_000, 1_700_000_000_000_001,
		1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<53 + 2, 1 << 63, 1<<63 + 1, math.MaxUint64 - 1, math.MaxUint64,
	}
	for i, seen := range rising {
		key := prefix + strconv.Itoa(i)
		if _, err := g.Do(t.Context(), key, seen, "SET", []any{"first"}); err != nil {
			t.Fatalf("Do(%d) = %v", seen, err)
		}
		for _, fence := range rising[:i] {
			_, err := g.Do(t.Context(), key, fence, "SET", []any{guardSecret})
			wantErr(t, fmt.Sprintf("Do(%d) after %d", fence, seen), err, lock.ErrStaleFence)
			wantErr(t, fmt.Sprintf("Check(%d) after %d", fence, seen), g.Check(t.Context(), key, fence), lock.ErrStaleFence)
			quiet(t, err, guardSecret)
		}
		if got := client.Get(t.Context(), key).Val(); got != "first" {
			t.Errorf("after stale writes: %q, want what the first wrote", got)
		}
		for _, fence := range rising[i:] {
			reply, err := g.Do(t.Context(), key, fence, "SET", []any{"second"})
			if err != nil || reply != "OK" {
				t.Errorf("Do(%d) after %d = %v, %v, want OK", fence, seen, reply, err)
			}
		}
	}
}

func TestRedisGuardReplies(t *testing.T) {
	t.Parallel()
	g, client, prefix := newGuard(t, lock.RedisGuardOptions{})
	ctx, key := t.Context(), prefix+"{a}"
	for _, c := range []struct {
		key, command string
		args         []any
		want         any
	}{
		{key + "n", "INCRBY", []any{40}, int64(40)},
		{key + "n", "INCRBY", []any{2}, int64(42)},
		{key + "n", "GETSET", []any{"x"}, "42"},
		{key + "n", "DEL", nil, int64(1)},
		{key + "n", "GETDEL", nil, nil},
		{key + "h", "HSET", []any{"f", 1, "g", 2}, int64(2)},
		{key + "h", "HMGET", []any{"f", "none", "g"}, []any{"1", nil, "2"}},
	} {
		got, err := g.Do(ctx, c.key, 5, c.command, c.args)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s = %#v, %v, want %#v", c.command, got, err, c.want)
		}
	}
	got, err := g.Run(ctx, key+"from", 6, `
		-- moves it all, and says how much
		local all = redis.call('GET', KEYS[1]) or ARGV[1]
		redis.call('SET', KEYS[2], all)
		redis.call('DEL', KEYS[1])
		return #KEYS .. ' ' .. #ARGV .. ' ' .. all`, []string{key + "to"}, []any{17, "spare"})
	if err != nil || got != "2 2 17" || client.Get(ctx, key+"to").Val() != "17" {
		t.Errorf("Run = %v, %v, want 2 2 17, and 17 moved", got, err)
	}
	if got, err := g.Run(ctx, key+"from", 6, "local nothing = KEYS[1]", nil, nil); got != nil || err != nil {
		t.Errorf("Run of what returns nothing = %v, %v", got, err)
	}
	_, err = g.Run(ctx, key+"from", 5, "return redis.call('SET', KEYS[1], 'stale')", nil, nil)
	wantErr(t, "Run of an older fence", err, lock.ErrStaleFence)

	_, err = g.Do(ctx, key+"h", 7, "INCR", nil)
	wantErr(t, "Do on another type", err, transparency.ErrInvalid)
	_, err = g.Run(ctx, key+"h", 8, "return redis.pcall('INCR', KEYS[1])", nil, nil)
	wantErr(t, "Run that returns an error", err, transparency.ErrInvalid)
	_, err = g.Run(ctx, key+"h", 8, "return (", nil, nil)
	wantErr(t, "Run of no Lua", err, transparency.ErrInvalid)
	wantErr(t, "Check after a script that failed", g.Check(ctx, key+"h", 7), lock.ErrStaleFence)
}

// Who has a new lease and reads first is not overtaken by the holder before.
func TestRedisGuardCheck(t *testing.T) {
	t.Parallel()
	g, client, prefix := newGuard(t, lock.RedisGuardOptions{})
	ctx, key := t.Context(), prefix+"k"
	if _, err := g.Do(ctx, key, 7, "SET", []any{"seven"}); err != nil {
		t.Fatal(err)
	}
	if err := g.Check(ctx, key, 8); err != nil {
		t.Fatalf("Check(8) = %v", err)
	}
	read := client.Get(ctx, key).Val()
	_, err := g.Do(ctx, key, 7, "SET", []any{"too late"})
	wantErr(t, "a write of the holder before", err, lock.ErrStaleFence)
	if got := client.Get(ctx, key).Val(); got != read || read != "seven" {
		t.Errorf("read %q, and then there is %q", read, got)
	}
}

// A mark stays as long as the data, or for its TTL, and is then forgotten.
func TestRedisGuardTTL(t *testing.T) {
	t.Parallel()
	g, client, prefix := newGuard(t, lock.RedisGuardOptions{})
	ctx, key := t.Context(), prefix+"k"
	mark := prefix + "guard:{" + key + "}"
	if err := g.Check(ctx, key, 7); err != nil {
		t.Fatal(err)
	}
	if ttl := client.PTTL(ctx, mark).Val(); ttl != -1 {
		t.Errorf("TTL of a mark = %v, want none", ttl)
	}
	brief := lock.NewRedisGuard(client, &lock.RedisGuardOptions{Prefix: prefix + "guard:", TTL: time.Hour})
	wantErr(t, "Check of an older fence", brief.Check(ctx, key, 6), lock.ErrStaleFence)
	if err := brief.Check(ctx, key, 7); err != nil {
		t.Fatal(err)
	}
	if ttl := client.PTTL(ctx, mark).Val(); ttl <= 59*time.Minute || ttl > time.Hour {
		t.Errorf("TTL of a mark = %v, want an hour", ttl)
	}
	endless := lock.NewRedisGuard(client, &lock.RedisGuardOptions{Prefix: prefix + "guard:", TTL: math.MaxInt64})
	if err := endless.Check(ctx, key, 7); err != nil {
		t.Errorf("Check with the longest TTL = %v", err)
	}
	client.Del(ctx, mark) // as if it had expired
	if err := g.Check(ctx, key, 1); err != nil {
		t.Errorf("Check after the mark is gone = %v, want nil", err)
	}
}

// A mark that is no fence lets nobody pass and is left as it is.
func TestRedisGuardForeignMark(t *testing.T) {
	t.Parallel()
	g, client, prefix := newGuard(t, lock.RedisGuardOptions{})
	ctx, key := t.Context(), prefix+"k"
	mark := prefix + "guard:{" + key + "}"
	for _, value := range []string{"", "x", "07", "1e3", "-5", " 5", "5\n", "0"} {
		client.Set(ctx, mark, value, 0)
		_, err := g.Do(ctx, key, 1e6, "SET", []any{"x"})
		wantErr(t, fmt.Sprintf("Do with the mark %q", value), err, transparency.ErrInvalid)
		if got := client.Get(ctx, mark).Val(); got != value {
			t.Errorf("the mark %q became %q", value, got)
		}
	}
	client.Del(ctx, mark)
	client.LPush(ctx, mark, "5")
	wantErr(t, "Check with a list as mark", g.Check(ctx, key, 7), transparency.ErrInvalid)
	if client.Exists(ctx, key).Val() != 0 {
		t.Errorf("something was written")
	}
}

// LK-19: a server that forgot its scripts is told them again.
func TestRedisGuardScriptFlush(t *testing.T) {
	t.Parallel()
	g, client, prefix := newGuard(t, lock.RedisGuardOptions{})
	for fence := range uint64(3) {
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Do(t.Context(), prefix+"k", fence+1, "INCR", nil); err != nil {
			t.Errorf("Do after SCRIPT FLUSH = %v", err)
		}
	}
	if got := client.Get(t.Context(), prefix+"k").Val(); got != "3" {
		t.Errorf("counted %q, want 3: each once", got)
	}
}

// unusedClient is a client that must not be used.
type unusedClient struct{ t *testing.T }

func (u unusedClient) Process(context.Context, redis.Cmder) error {
	u.t.Errorf("something was sent")
	return nil
}

func (u unusedClient) Pipelined(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error) {
	u.t.Errorf("something was sent")
	return nil, nil
}

func (u unusedClient) Subscribe(context.Context, ...string) *redis.PubSub { return nil }

func TestRedisGuardBadInput(t *testing.T) {
	ctx := t.Context()
	var none *lock.RedisGuard
	var client *redis.Client
	good := lock.NewRedisGuard(unusedClient{t}, nil)
	do := func(g *lock.RedisGuard, key string, fence uint64, command string) error {
		_, err := g.Do(ctx, key, fence, command, nil)
		return err
	}
	run := func(key string, others ...string) error {
		_, err := good.Run(ctx, key, 1, "return 1", others, nil)
		return err
	}
	for name, err := range map[string]error{
		"nil":                do(none, "k", 1, "INCR"),
		"zero":               do(new(lock.RedisGuard), "k", 1, "INCR"),
		"no client":          do(lock.NewRedisGuard(nil, nil), "k", 1, "INCR"),
		"a nil client":       do(lock.NewRedisGuard(client, nil), "k", 1, "INCR"),
		"a negative TTL":     do(lock.NewRedisGuard(unusedClient{t}, &lock.RedisGuardOptions{TTL: -1}), "k", 1, "INCR"),
		"too short a TTL":    do(lock.NewRedisGuard(unusedClient{t}, &lock.RedisGuardOptions{TTL: time.Microsecond}), "k", 1, "INCR"),
		"no key":             do(good, "", 1, "INCR"),
		"no fence":           do(good, "k", 0, "INCR"),
		"no command":         do(good, "k", 1, ""),
		"no fence to check":  good.Check(ctx, "k", 0),
		"two slots":          run("a", "b"),
		"two tags":           run("{a}1", "{a}2", "{b}3"),
		"no slot to share":   run("a}b"),
		"no slot to share 2": run("{}a"),
	} {
		wantErr(t, name, err, transparency.ErrInvalid)
	}
	wantErr(t, "ended", good.Check(ended(ctx), "k", 1), context.Canceled)
	if got := fmt.Sprintf("%v %+v %s", none, good, good); strings.Contains(got, "unusedClient") {
		t.Errorf("printed as %q", got)
	}
}

func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// LK-20: the mark is in the slot of the data, whatever the key looks like.
func TestRedisGuardCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	client := c.Client(t)
	g := lock.NewRedisGuard(client, &lock.RedisGuardOptions{Prefix: "g{u}ard:%"})
	for i, key := range []string{"job", "a{b}c", "a{b}d", "{a{b}", "{x}", "50%{y%7D}", "{", "a{b", "k:{}{z}", "{b}"} {
		if key == "k:{}{z}" {
			wantErr(t, "Check of "+key, g.Check(t.Context(), key, 1), transparency.ErrInvalid)
			continue
		}
		fence := uint64(i + 2)
		if _, err := g.Do(t.Context(), key, fence, "SET", []any{i}); err != nil {
			t.Errorf("Do of %q = %v", key, err)
		}
		wantErr(t, "Check of "+key, g.Check(t.Context(), key, fence-1), lock.ErrStaleFence)
		if err := g.Check(t.Context(), key, fence); err != nil {
			t.Errorf("Check of %q = %v, want nil: no key shares its mark", key, err)
		}
	}
	if _, err := g.Run(t.Context(), "{b}1", 20, "return redis.call('MSET', KEYS[1], 1, KEYS[2], 2)", []string{"{b}2"}, nil); err != nil {
		t.Errorf("Run over two keys of one slot = %v", err)
	}
}
