package redistest_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, client redis.Cmdable, key string) string {
	t.Helper()
	val, err := client.Get(t.Context(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("GET %s error = %v", key, err)
	}
	return val
}

func set(t *testing.T, client redis.Cmdable, key, val string, ttl time.Duration) {
	t.Helper()
	if err := client.Set(t.Context(), key, val, ttl).Err(); err != nil {
		t.Fatalf("SET %s error = %v", key, err)
	}
}

func TestBackend(t *testing.T) {
	s := redistest.Start(t)
	t.Logf("Start gives %q at %s", s.Kind(), s.Addr())
	testServer(t, s)
}

func TestMini(t *testing.T) {
	s := redistest.StartMini(t)
	if s.Kind() != redistest.KindMini {
		t.Errorf("Kind() = %q, want %q", s.Kind(), redistest.KindMini)
	}
	testServer(t, s)
}

func TestServer(t *testing.T) {
	s := redistest.StartServer(t)
	if s.Kind() != redistest.KindServer {
		t.Errorf("Kind() = %q, want %q", s.Kind(), redistest.KindServer)
	}
	testServer(t, s)
}

// testServer checks what holds for every backend.
func testServer(t *testing.T, s *redistest.Server) {
	client := s.Client(t)
	if p := s.Prefix(); len(p) < 4 || !strings.HasSuffix(p, ":") || strings.ContainsAny(p, "{}*?[]\\") {
		t.Errorf("Prefix() = %q, want a name and a colon, no braces, no glob", p)
	}
	key := s.Prefix() + "k"
	set(t, client, key, "v", time.Minute)
	if got := get(t, client, key); got != "v" {
		t.Errorf("GET = %q, want %q", got, "v")
	}
	set(t, client, key, "v", 50*time.Millisecond)
	waitFor(t, "the key expires", func() bool { return get(t, client, key) == "" })

	opts := s.Options()
	if !opts.ContextTimeoutEnabled || opts.MaxRetries != -1 {
		t.Errorf("Options() = ContextTimeoutEnabled %v, MaxRetries %d, want true, -1", opts.ContextTimeoutEnabled, opts.MaxRetries)
	}
	if s.Options() == opts {
		t.Error("Options() gave the same pointer twice, want a fresh one")
	}

	sub := client.Subscribe(t.Context(), s.Prefix()+"ch")
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatalf("SUBSCRIBE error = %v", err)
	}
	if err := client.Publish(t.Context(), s.Prefix()+"ch", "hello").Err(); err != nil {
		t.Fatalf("PUBLISH error = %v", err)
	}
	if msg, err := sub.ReceiveMessage(t.Context()); err != nil || msg.Payload != "hello" {
		t.Errorf("ReceiveMessage() = %v, %v, want hello", msg, err)
	}
	n, err := redis.NewScript(`return redis.call('INCRBY', KEYS[1], ARGV[1])`).Run(t.Context(), client, []string{key}, 3).Int()
	if err != nil || n != 3 {
		t.Errorf("script = %d, %v, want 3", n, err)
	}
}

func TestPrefixesDiffer(t *testing.T) {
	if a, b := redistest.StartMini(t).Prefix(), redistest.StartMini(t).Prefix(); a == b {
		t.Errorf("two tests got the same prefix %q", a)
	}
}

func TestPauseAndResume(t *testing.T) {
	s := redistest.StartServer(t)
	client := s.Client(t)
	set(t, client, "k", "v", 0)

	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	var timeout net.Error
	if err := client.Get(ctx, "k").Err(); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("GET on a paused server error = %v, want a timeout", err)
	}
	s.Resume()
	if got := get(t, client, "k"); got != "v" {
		t.Errorf("GET after Resume = %q, want %q", got, "v")
	}
	s.Resume() // of a running server: nothing
}

func TestPausedServerIsResumedAtCleanup(t *testing.T) {
	t.Run("paused", func(t *testing.T) {
		s := redistest.StartServer(t)
		client := s.Client(t)
		t.Cleanup(func() {
			if err := client.Ping(context.Background()).Err(); err != nil {
				t.Errorf("PING in an earlier cleanup error = %v, want nil: the server was to be resumed", err)
			}
		})
		s.Pause()
	})
}

func TestKillAndRestart(t *testing.T) {
	s := redistest.StartServer(t)
	client := s.Client(t)
	set(t, client, "k", "v", 0)
	addr := s.Addr()

	s.Kill()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("PING of a killed server error = nil")
	}
	s.Kill() // again: nothing
	s.Restart(t)
	if s.Addr() != addr {
		t.Errorf("Addr() after Restart = %s, want %s", s.Addr(), addr)
	}
	if got := get(t, client, "k"); got != "" {
		t.Errorf("GET after Restart = %q, want nothing", got)
	}
	s.Pause()
	s.Restart(t) // of a paused server too
	if err := client.Ping(t.Context()).Err(); err != nil {
		// The pool may still hold the connection that the kill broke.
		err = client.Ping(t.Context()).Err()
		if err != nil {
			t.Errorf("PING after Restart error = %v", err)
		}
	}
}

func TestCommandsAreCountedExactly(t *testing.T) {
	s := redistest.StartServer(t)
	if got := s.Commands(t); len(got) != 0 {
		t.Errorf("Commands() at first = %v, want none", got)
	}
	client := s.Client(t)
	const n = 7
	for range n {
		get(t, client, "k")
	}
	if err := client.Eval(t.Context(), `redis.call('SET', KEYS[1], 'v')`, []string{"k"}).Err(); !errors.Is(err, redis.Nil) {
		t.Fatalf("EVAL error = %v, want Nil", err)
	}
	for range 2 {
		got := s.Commands(t)
		if got["get"] != n || got["eval"] != 1 || got["set"] != 1 || len(got) != 3 {
			t.Errorf("Commands() = %v, want get:%d eval:1 set:1", got, n)
		}
	}
	if got := s.Calls(t); got != n+2 {
		t.Errorf("Calls() = %d, want %d", got, n+2)
	}
	if err := client.Info(t.Context(), "server").Err(); err != nil {
		t.Fatal(err)
	}
	if got := s.Commands(t); got["info"] != 1 {
		t.Errorf("Commands() after an INFO of the test's own = %v, want info:1", got)
	}
	s.Restart(t)
	if got := s.Commands(t); len(got) != 0 {
		t.Errorf("Commands() after Restart = %v, want none", got)
	}
}

func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, what, testkit.Limit, cond)
}

func dial(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}
