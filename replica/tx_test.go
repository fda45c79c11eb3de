package replica_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/replica"
)

// transaction returns a callback that sends commands in a MULTI, and notes
// where. Redis then answers EXECABORT, and not why.
func transaction(at *[]string, commands ...[]any) func(context.Context, *redis.Client) error {
	return func(ctx context.Context, c *redis.Client) error {
		*at = append(*at, c.Options().Addr)
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			for _, args := range commands {
				p.Do(ctx, args...)
			}
			return nil
		})
		return err
	}
}

// RP-33, RP-39: a transaction follows the roles as a single command does.
func TestRedisRP33Transaction(t *testing.T) {
	c := startRedis(t, 1)
	p := c.pool(t, &replica.Options{ProbeInterval: time.Hour})
	warm(t, p)
	a, b := c.servers["a"].Addr(), c.servers["b"].Addr()
	check := func(op string, err error, at, want []string) {
		t.Helper()
		if err != nil || fmt.Sprint(at) != fmt.Sprint(want) {
			t.Errorf("%s = %v at %v, want nil at %v", op, err, at, want)
		}
	}
	var at []string
	err := p.Read(t.Context(), nil, transaction(&at, []any{"incr", "count"}, []any{"incr", "other"}))
	check("Read that writes", err, at, []string{b, a})

	// One that knows nothing of the roles but what it was told at first.
	p = c.pool(t, &replica.Options{ProbeInterval: time.Hour})
	warm(t, p)
	c.promote("b")
	eventually(t, "the old primary follows", testkit.Limit, func() bool {
		role, err := c.admin["a"].Do(t.Context(), "role").Slice()
		return err == nil && role[0] == "slave"
	})
	at = nil
	err = p.Write(t.Context(), nil, transaction(&at, []any{"incr", "after"}))
	check("Write after a failover", err, at, []string{a, b})
	if n, err := c.admin["b"].Get(t.Context(), "after").Int(); n != 1 || err != nil {
		t.Errorf("after = %d, %v, want 1", n, err)
	}
}

// RP-26: what is wrong with a transaction itself is its own fault.
func TestRedisRP26WrongTransaction(t *testing.T) {
	c := startRedis(t, 1)
	p := c.pool(t, nil)
	warm(t, p)
	for range 5 {
		var at []string
		err := p.Write(t.Context(), nil, transaction(&at, []any{"set", "key"}))
		if !redis.HasErrorPrefix(err, "EXECABORT") || len(at) != 1 {
			t.Errorf("Write = %v after %d calls, want EXECABORT as it is after one", err, len(at))
		}
		at = nil
		err = p.Read(t.Context(), nil, transaction(&at, []any{"get"}))
		if !redis.HasErrorPrefix(err, "EXECABORT") || len(at) != 2 {
			t.Errorf("Read = %v after %d calls, want EXECABORT as it is after two", err, len(at))
		}
	}
	for _, n := range p.Nodes() {
		if n.State != replica.StateUp || n.Failures != 0 {
			t.Errorf("%+v, want it up and not blamed", n)
		}
	}
}
