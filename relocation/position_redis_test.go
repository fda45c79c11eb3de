package relocation

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/faultnet"
	"github.com/go-transparency/transparency/internal/redistest"
)

const addScript = `return redis.call('INCRBY', KEYS[1], ARGV[1])`

func TestRedisPosition(t *testing.T) {
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	p := NewRedisPosition(client, &RedisPositionOptions{Prefix: s.Prefix(), Tag: "shop"})
	sum := s.Prefix() + "{shop}:sum"
	total := 0
	run := func(generation, seq uint64) error {
		reply, err := p.Run(ctx, owns{"s", generation}, seq, addScript, []string{sum}, []any{seq})
		if err == nil {
			if total += int(seq); reply != int64(total) {
				t.Errorf("Run = %v, want %d", reply, total)
			}
		}
		return err
	}
	for _, step := range []struct {
		generation, seq uint64
		want            error
	}{
		{1, 2, ErrStateRegressed},
		{1, 1, nil},
		{1, 1, ErrDuplicate},
		{1, 3, ErrStateRegressed},
		{1, 2, nil},
		{10, 3, nil}, // more digits
		{9, 4, ErrFenced},
		{10, 4, nil}, {10, 5, nil}, {10, 6, nil}, {10, 7, nil}, {10, 8, nil}, {10, 9, nil}, {10, 10, nil}, {10, 11, nil},
		{10, 9, ErrDuplicate},
	} {
		if err := run(step.generation, step.seq); !errors.Is(err, step.want) || step.want == nil && err != nil {
			t.Errorf("Run(generation %d, seq %d) error = %v, want %v", step.generation, step.seq, err, step.want)
		}
		if got, err := client.Get(ctx, sum).Int(); err != nil && !errors.Is(err, redis.Nil) || got != total {
			t.Errorf("after generation %d, seq %d: the sum is %d, %v, want %d", step.generation, step.seq, got, err, total)
		}
	}
	if at, err := p.Position(ctx, "s"); err != nil || at != 11 {
		t.Errorf("Position = %d, %v, want 11", at, err)
	}
	if at, err := p.Position(ctx, "another"); err != nil || at != 0 {
		t.Errorf("Position of an unknown session = %d, %v, want 0", at, err)
	}
	key := s.Prefix() + "{shop}:s"
	if ttl := client.PTTL(ctx, key).Val(); ttl < DefaultPositionTTL-time.Minute {
		t.Errorf("the TTL of %s is %v, want %v", key, ttl, DefaultPositionTTL)
	}
	client.Set(ctx, key, "something else", time.Minute)
	if err := run(10, 12); !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("Run over what is no position: error = %v, want ErrInvalid", err)
	}
	forEver := NewRedisPosition(client, &RedisPositionOptions{Prefix: s.Prefix(), TTL: -1})
	if _, err := forEver.Run(ctx, owns{"for ever", 1}, 1, "", nil, nil); err != nil {
		t.Errorf("Run of nothing: error = %v", err)
	}
	if ttl := client.PTTL(ctx, s.Prefix()+"{for ever}").Val(); ttl != -1 {
		t.Errorf("the TTL is %v, want none", ttl)
	}
}

// Above 2^53 a number of Lua is another.
func TestRedisPositionLargeNumbers(t *testing.T) {
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	p := NewRedisPosition(client, &RedisPositionOptions{Prefix: s.Prefix()})
	for _, from := range []uint64{1e14, 1<<53 - 1, 1<<63 - 4} {
		id := fmt.Sprint("from", from)
		client.Set(ctx, s.Prefix()+"{"+id+"}", fmt.Sprint("1 ", from), time.Minute)
		for seq := from + 1; seq <= from+3; seq++ {
			if _, err := p.Run(ctx, owns{id, 1}, seq, addScript, []string{"{" + id + "}"}, []any{1}); err != nil {
				t.Errorf("Run(%d) error = %v", seq, err)
			}
			if _, err := p.Run(ctx, owns{id, 1}, seq, addScript, []string{"{" + id + "}"}, []any{1}); !errors.Is(err, ErrDuplicate) {
				t.Errorf("Run(%d) again: error = %v, want ErrDuplicate", seq, err)
			}
		}
		client.Del(ctx, "{"+id+"}")
	}
}

// A script that fails has not had its effect, and neither has its number.
func TestRedisPositionScriptFails(t *testing.T) {
	s := redistest.Start(t)
	client, ctx := s.Client(t), t.Context()
	p := NewRedisPosition(client, &RedisPositionOptions{Prefix: s.Prefix(), Tag: "shop"})
	for _, script := range []string{
		"error('no')", "return redis.error_reply('NO')", "return redis.call('LPUSH', KEYS[1])", "syntax error",
	} {
		if _, err := p.Run(ctx, owns{"s", 1}, 1, script, []string{"{shop}"}, nil); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("Run(%q) error = %v, want ErrInvalid", script, err)
		}
	}
	for script, want := range map[string]any{"return {1, 'a', {ok = 'OK'}}": []any{int64(1), "a", "OK"}} {
		got, err := p.Run(ctx, owns{"s", 1}, 1, script, nil, nil)
		if fmt.Sprint(got) != fmt.Sprint(want) || err != nil {
			t.Errorf("Run(%q) = %v, %v, want %v", script, got, err, want)
		}
	}
}

// RL-01 with a Redis: many at once, and some of the replies are lost.
func TestRedisPositionOnceAtOnce(t *testing.T) {
	s := redistest.Start(t)
	net := faultnet.New(t, s.Addr())
	opts := s.Options()
	opts.Addr = net.Addr()
	cut := redis.NewClient(opts)
	t.Cleanup(func() { _ = cut.Close() })
	ctx := t.Context()
	sum := s.Prefix() + "{shop}:sum"
	options := &RedisPositionOptions{Prefix: s.Prefix(), Tag: "shop"}
	clients := []*RedisPosition{NewRedisPosition(cut, options), NewRedisPosition(s.Client(t), options)}
	lost := 0
	for seq := uint64(1); seq <= 40; seq++ {
		if seq%4 == 0 {
			net.CutAfter(faultnet.ToClient, 0) // the next reply
		}
		_, err := clients[0].Run(ctx, owns{"s", 1}, seq, addScript, []string{sum}, []any{1})
		if errors.Is(err, transparency.ErrUncertain) {
			lost++
		} else if err != nil {
			t.Fatalf("Run(%d) error = %v", seq, err)
		}
		var wg sync.WaitGroup
		for _, p := range clients {
			wg.Go(func() {
				if _, err := p.Run(ctx, owns{"s", 1}, seq, addScript, []string{sum}, []any{1}); !errors.Is(err, ErrDuplicate) {
					t.Errorf("Run(%d) again: error = %v, want ErrDuplicate", seq, err)
				}
			})
		}
		wg.Wait()
	}
	if got, err := s.Client(t).Get(ctx, sum).Int(); err != nil || got != 40 || lost == 0 {
		t.Errorf("the sum is %d, %v, want 40; %d replies were lost", got, err, lost)
	}
}

func TestRedisPositionArguments(t *testing.T) {
	s := redistest.Start(t)
	ctx := t.Context()
	var none *RedisPosition
	good := NewRedisPosition(s.Client(t), &RedisPositionOptions{Prefix: s.Prefix()})
	for what, run := range map[string]func() error{
		"nil":        func() error { _, err := none.Run(ctx, owns{"s", 1}, 1, "", nil, nil); return err },
		"zero":       func() error { _, err := new(RedisPosition).Position(ctx, "s"); return err },
		"nil client": func() error { _, err := NewRedisPosition(nil, nil).Position(ctx, "s"); return err },
		"session":    func() error { _, err := good.Run(ctx, nil, 1, "", nil, nil); return err },
		"number":     func() error { _, err := good.Run(ctx, owns{"s", 1}, 0, "", nil, nil); return err },
		"another slot": func() error {
			_, err := good.Run(ctx, owns{"s", 1}, 1, "", []string{"{s}", "{another}"}, nil)
			return err
		},
	} {
		if err := run(); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("%s: error = %v, want ErrInvalid", what, err)
		}
	}
	for _, text := range []string{fmt.Sprint(none), fmt.Sprintf("%+v %#v", good, good), fmt.Sprint(NewSQLPosition(nil, nil))} {
		if !strings.HasPrefix(text, "relocation.") || strings.Contains(text, s.Addr()) {
			t.Errorf("printed as %s", text)
		}
	}
}
