package redistest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-transparency/transparency/internal/redistest"
)

// A recorder stands for a test whose Fatal, Skip and log are looked at. Its cleanups run when the
// test that made it ends, or at finish.
type recorder struct {
	testing.TB
	outcome  string
	log      strings.Builder
	cleanups []func()
}

type stopped struct{}

func (r *recorder) Helper()                   {}
func (r *recorder) Log(args ...any)           { fmt.Fprintln(&r.log, args...) }
func (r *recorder) Logf(f string, a ...any)   { fmt.Fprintf(&r.log, f+"\n", a...) }
func (r *recorder) Fatal(args ...any)         { r.stop("fatal: " + fmt.Sprint(args...)) }
func (r *recorder) Fatalf(f string, a ...any) { r.stop("fatal: " + fmt.Sprintf(f, a...)) }
func (r *recorder) Skip(args ...any)          { r.stop("skip: " + fmt.Sprint(args...)) }
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) stop(outcome string)       { r.outcome = outcome; panic(stopped{}) }

// record runs f as a test of its own, with its cleanups, and tells how it ended.
func record(t *testing.T, f func(tb testing.TB)) (r *recorder) {
	t.Helper()
	r = &recorder{TB: t, outcome: "passed"}
	defer func() {
		for i := len(r.cleanups) - 1; i >= 0; i-- {
			r.cleanups[i]()
		}
	}()
	defer func() {
		if v := recover(); v != nil && v != (stopped{}) {
			panic(v)
		}
	}()
	f(r)
	return r
}

func TestEnvironment(t *testing.T) {
	const none = "/nonexistent"
	start := func(tb testing.TB) { redistest.Start(tb) }
	startServer := func(tb testing.TB) { redistest.StartServer(tb) }
	startMini := func(tb testing.TB) { redistest.StartMini(tb) }
	startCluster := func(tb testing.TB) { redistest.StartCluster(tb) }
	startSentinel := func(tb testing.TB) { redistest.StartSentinel(tb) }
	tests := []struct {
		name                      string
		path, url, force, require string
		f                         func(testing.TB)
		outcome, log              string // beginnings
	}{
		{"no server", none, "", "", "", start, "passed", "redistest: miniredis (embedded)"},
		{"no server, required", none, "", "", "1", start, "fatal: redistest: no redis-server, and TRANSPARENCY_REQUIRE_REDIS=1: ", ""},
		{"no server, required beats mini", none, "", "mini", "1", start, "fatal: redistest: no redis-server, and TRANSPARENCY_REQUIRE_REDIS=1: ", ""},
		{"mini forced", "", "", "mini", "", start, "passed", "redistest: miniredis (embedded)"},
		{"mini forced beats the URL", "", "redis://127.0.0.1:1", "mini", "", start, "passed", "redistest: miniredis (embedded)"},
		{"mini as such, required", "", "", "", "1", startMini, "passed", "redistest: miniredis (embedded)"},
		{"URL beats all else", none, "redis://127.0.0.1:1", "", "", start, "fatal: redistest: the server at REDIS_URL (127.0.0.1:1): ", ""},
		{"URL beats mini where a server is required", none, "redis://127.0.0.1:1", "mini", "1", start, "fatal: redistest: the server at REDIS_URL (127.0.0.1:1): ", ""},
		{"URL is not one", none, "http://:hunter2@x", "", "", start, "fatal: redistest: REDIS_URL is not a redis URL", ""},
		{"own server, none", none, "", "", "", startServer, "skip: redistest: no redis-server: ", ""},
		{"own server, none, required", none, "", "", "1", startServer, "fatal: redistest: no redis-server, and TRANSPARENCY_REQUIRE_REDIS=1: ", ""},
		{"own server, mini forced", "", "", "mini", "", startServer, "skip: redistest: no redis-server: TRANSPARENCY_REDIS=mini", ""},
		{"cluster, none", none, "", "", "", startCluster, "skip: redistest: no redis-server: ", ""},
		{"cluster, none, required", none, "", "", "1", startCluster, "fatal: redistest: no redis-server, and TRANSPARENCY_REQUIRE_REDIS=1: ", ""},
		{"sentinel, none", none, "", "", "", startSentinel, "skip: redistest: no redis-server: ", ""},
		{"sentinel, none, required", none, "", "", "1", startSentinel, "fatal: redistest: no redis-server, and TRANSPARENCY_REQUIRE_REDIS=1: ", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.path != "" {
				t.Setenv("PATH", tt.path)
			}
			t.Setenv("REDIS_URL", tt.url)
			t.Setenv("TRANSPARENCY_REDIS", tt.force)
			t.Setenv("TRANSPARENCY_REQUIRE_REDIS", tt.require)
			r := record(t, tt.f)
			if !strings.HasPrefix(r.outcome, tt.outcome) || strings.Contains(r.outcome, "hunter2") {
				t.Errorf("outcome = %q, want %q…", r.outcome, tt.outcome)
			}
			if !strings.HasPrefix(r.log.String(), tt.log) {
				t.Errorf("log = %q, want %q…", r.log.String(), tt.log)
			}
		})
	}
}

func TestOwnServerIsLogged(t *testing.T) {
	server := redistest.StartServer(t) // skips where there is none
	t.Setenv("REDIS_URL", "")
	r := record(t, func(tb testing.TB) { redistest.Start(tb) })
	if got := r.log.String(); !strings.HasPrefix(got, "redistest: redis-server ") || !strings.Contains(got, " on 127.0.0.1:") {
		t.Errorf("log = %q, want redis-server, version and address", got)
	}
	_ = server
}

func TestURLServerIsLeftAsItWas(t *testing.T) {
	server := redistest.StartMini(t)
	owner := server.Client(t)
	set(t, owner, "precious", "v", 0)
	t.Setenv("REDIS_URL", "redis://"+server.Addr()+"/0")
	t.Setenv("TRANSPARENCY_REDIS", "")

	r := record(t, func(tb testing.TB) {
		s := redistest.Start(tb)
		if s.Kind() != redistest.KindURL || s.Addr() != server.Addr() {
			t.Errorf("Kind, Addr = %q, %q, want %q, %q", s.Kind(), s.Addr(), redistest.KindURL, server.Addr())
		}
		client := s.Client(tb)
		for i := range 2500 { // more than one SCAN gives
			set(t, client, fmt.Sprintf("%s{%d}", s.Prefix(), i), "v", 0)
		}
		if err := owner.Keys(context.Background(), s.Prefix()+"*").Err(); err != nil {
			t.Error(err)
		}
	})
	if r.outcome != "passed" {
		t.Fatalf("outcome = %q, want passed", r.outcome)
	}
	keys, err := owner.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 || keys[0] != "precious" {
		t.Errorf("keys left = %v, %v, want [precious]", keys, err)
	}
}
