package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestRequestScanner(t *testing.T) {
	const two = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
	tricky := "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$14\r\n*2\r\n$3\r\nGET\r\n\n\r\n"
	all := two + tricky + two
	for cut := range len(all) + 1 {
		var s requestScanner
		if got := s.scan([]byte(all[:cut])) + s.scan([]byte(all[cut:])); got != 3 {
			t.Errorf("scan cut at %d = %d commands, want 3", cut, got)
		}
	}
	var s requestScanner
	got := 0
	for _, b := range []byte(strings.Repeat(all, 10)) {
		got += s.scan([]byte{b})
	}
	if got != 30 {
		t.Errorf("scan byte by byte = %d commands, want 30", got)
	}
}

func FuzzRequestScanner(f *testing.F) {
	f.Add([]byte("*1\r\n$4\r\nPING\r\n"), 5)
	f.Add([]byte("$-1\r\n*\r\n$99999999999999999999\r\n"), 1)
	f.Fuzz(func(t *testing.T, p []byte, cut int) {
		cut = min(max(cut, 0), len(p))
		var whole, parts requestScanner
		want := whole.scan(bytes.Clone(p))
		if got := parts.scan(p[:cut]) + parts.scan(p[cut:]); got != want {
			t.Errorf("scan(%q) cut at %d = %d commands, whole %d", p, cut, got, want)
		}
	})
}

func TestSumCalls(t *testing.T) {
	const info = "# Commandstats\r\ncmdstat_get:calls=3,usec=12,usec_per_call=4.00\r\ncmdstat_config|get:calls=2,usec=1\r\n\r\n"
	if got := sumCalls(info); got != 5 {
		t.Errorf("sumCalls = %d, want 5", got)
	}
}

// The counts of work that is known.
func TestCountCommands(t *testing.T) {
	requireServer(t)
	srv, err := startServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer srv.stop()
	script := redis.NewScript(`redis.call('SET', KEYS[1], 'v') return redis.call('GET', KEYS[1])`)
	big := strings.Repeat("x", 1<<20) // far beyond any buffer: many writes, one trip
	for _, tt := range []struct {
		name string
		op   func(context.Context, *redis.Client) error
		want counts
	}{
		{"one command", func(ctx context.Context, c *redis.Client) error {
			return c.Set(ctx, "k", "v", 0).Err()
		}, counts{trips: 1, sent: 1, run: 1}},
		{"a large one", func(ctx context.Context, c *redis.Client) error {
			return c.Set(ctx, "k", big, 0).Err()
		}, counts{trips: 1, sent: 1, run: 1}},
		{"a pipeline", func(ctx context.Context, c *redis.Client) error {
			_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, "k", "v", 0)
				p.Get(ctx, "k")
				return nil
			})
			return err
		}, counts{trips: 1, sent: 2, run: 2}},
		{"a transaction", func(ctx context.Context, c *redis.Client) error {
			_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, "k", "v", 0).Err() })
			return err
		}, counts{trips: 1, sent: 3, run: 3}},
		{"a script", func(ctx context.Context, c *redis.Client) error {
			return script.Run(ctx, c, []string{"k"}).Err()
		}, counts{trips: 1, sent: 1, run: 3}},
	} {
		set := func(_ context.Context, r *rig) (*side, error) {
			return &side{
				op:     func(ctx context.Context) error { return tt.op(ctx, r.client) },
				verify: func(context.Context) error { return nil },
			}, nil
		}
		var got counts
		if err := countCommands(t.Context(), set, srv, &got); err != nil || got != tt.want {
			t.Errorf("%s: counts = %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
	three := func(_ context.Context, r *rig) (*side, error) {
		return &side{
			batch: 3,
			op: func(ctx context.Context) error {
				var errs [3]error
				for i := range errs {
					errs[i] = r.client.Set(ctx, "k", "v", 0).Err()
				}
				return errors.Join(errs[:]...)
			},
			verify: func(context.Context) error { return nil },
		}, nil
	}
	var got counts
	if err := countCommands(t.Context(), three, srv, &got); err != nil || got != (counts{trips: 1, sent: 1, run: 1}) {
		t.Errorf("a batch: counts = %+v, %v, want one of each", got, err)
	}
	if err := srv.admin.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := srv.commands(t.Context()); err == nil {
		t.Error("commands() of a server that is gone error = nil")
	}
}

// Both sides get the same options.
func TestOptionsAreTheSame(t *testing.T) {
	s := &server{addr: "127.0.0.1:1"}
	a, b := redis.NewClient(s.options(nil)), redis.NewClient(s.options(nil))
	defer a.Close()
	defer b.Close()
	if a.Options().PoolSize != b.Options().PoolSize || a.Options().MaxRetries != 0 || !a.Options().ContextTimeoutEnabled {
		t.Errorf("options = %+v and %+v", a.Options(), b.Options())
	}
	if _, err := new(wire).dial(t.Context(), "tcp", s.addr); err == nil || err == io.EOF {
		t.Errorf("dial of nobody error = %v, want a refusal", err)
	}
}
