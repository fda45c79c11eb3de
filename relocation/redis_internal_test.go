package relocation

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/rediskit"
	"github.com/go-transparency/transparency/internal/redistest"
)

// RL-43: the scripts count in text, and Lua in doubles, of which some servers
// print 14 digits.
func TestRedisNumbers(t *testing.T) {
	for _, start := range []func(testing.TB) *redistest.Server{redistest.Start, redistest.StartMini} {
		client, ctx := start(t).Client(t), t.Context()
		script := rediskit.NewScript(recordLua + `
local n = plus(ARGV[1], tonumber(ARGV[2]))
return {n, int(minus(n, ARGV[1])), less(ARGV[1], n) and '1' or '0', larger(n, ARGV[1])}`)
		check := func(a, n uint64) {
			t.Helper()
			reply, err := script.Run(ctx, client, []string{"none"}, seqText(a), n)
			if err != nil {
				t.Fatal(err)
			}
			r := redisReply(reply.([]any))
			sum, _ := r.seq(0)
			difference, _ := r.seq(1)
			greatest, _ := r.seq(3)
			if sum != a+n || difference != n || (r[2] == "1") != (n > 0) || greatest != a+n {
				t.Errorf("%d plus %d: %v", a, n, r)
			}
		}
		for _, a := range []uint64{
			0, 1, 9, 99, 1e14 - 1, 1e14, 1e15 - 1, 1e15, 1e15 + 1, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1e18, 2e15 - 1, 10e15 - 1,
			999_999_999_999_999_999, 1_999_999_999_999_999_999, math.MaxInt64 - 70000,
		} {
			for _, n := range []uint64{0, 1, 2, 65536} {
				check(a, n)
			}
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		for range 500 {
			check(rnd.Uint64N(math.MaxInt64)>>rnd.UintN(63), rnd.Uint64N(1<<20))
		}
	}
}

func FuzzParseEvent(f *testing.F) {
	for _, payload := range []string{"", "a0:s", "r0:s", "y3:b/11 s", "y9:b", "y1:b1", "z", "a-1:s"} {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		e, ok := parseEvent(payload)
		if ok && (len(e.From)+len(e.Session) > len(payload) || e.Kind == 0 || e.Kind == Missed) {
			t.Errorf("parseEvent(%q) = %+v", payload, e)
		}
	})
}

// What a script can never answer is an error, not a panic.
func TestParseRedisReply(t *testing.T) {
	for _, reply := range []any{
		nil, "ok", int64(1), redis.Nil, []any{}, []any{nil}, []any{int64(1)}, []any{"no such answer"},
		[]any{"expired"}, []any{"expired", "x"}, []any{"owned", "a"}, []any{"owned", int64(1), "x", nil},
	} {
		if _, err := parseRedisReply(reply); err == nil {
			t.Errorf("parseRedisReply(%v) error = nil", reply)
		}
	}
	for _, reply := range []any{
		[]any{"ok"}, []any{"ok", "1", "2", "3"}, []any{"ok", "1", "2", "3", "x", "m", "1"}, []any{"ok", "1", "2", "3", "4"},
		[]any{"ok", int64(1), "2", "3", "4", "m", "1"},
	} {
		if s, err := snapshotOf(parseRedisReply(reply)); err == nil {
			t.Errorf("snapshotOf(%v) = %+v, nil", reply, s)
		}
	}
	if e, err := parsePosition(owns{"s", 1}, 1, []any{"refused", "x", "y"}); err == nil {
		t.Errorf("parsePosition = %v, nil", e)
	}
}
