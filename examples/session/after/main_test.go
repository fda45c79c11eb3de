package main

import (
	"testing"
	"time"

	"github.com/go-transparency/transparency/examples/internal/labtest"
	"github.com/go-transparency/transparency/internal/redistest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

func Example() {
	labtest.Example(run)
	// Output:
	// Redis: none is configured (REDIS_URL, REDIS_HOST), so one runs inside this process and ends with it.
	// B: no session of user_42: A never ran, or its hour is over
	// A: saved the session of user_42 for an hour
	// B: user_42 has [book pen] in the cart and the promo code WELCOME10
	// The session outlived the process that saved it.
}

// Processes that nobody started together, as two services on two machines.
func TestApart(t *testing.T) {
	server := redistest.StartServer(t)
	client := server.Client(t)
	run := func(arg string) string {
		t.Helper()
		r := labtest.Program{Args: []string{arg}, Env: map[string]string{"REDIS_URL": "redis://" + server.Addr()}}.Run(t)
		if r.Status != 0 || r.Stderr != "" {
			t.Fatalf("%s: status %d, stderr %q", arg, r.Status, r.Stderr)
		}
		return r.Stdout
	}
	if got, want := run("load"), "B: no session of user_42: A never ran, or its hour is over\n"; got != want {
		t.Errorf("load before save: %q, want %q", got, want)
	}
	run("save")
	if got, want := run("load"), "B: user_42 has [book pen] in the cart and the promo code WELCOME10\n"; got != want {
		t.Errorf("load after save: %q, want %q", got, want)
	}

	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys = %q, %v; want the session's alone", keys, err)
	}
	if ttl := client.TTL(t.Context(), keys[0]).Val(); ttl > 3600*time.Second || ttl < 3500*time.Second {
		t.Errorf("TTL of the session = %v, want about 3600 s", ttl)
	}
}

func TestBothLeavesNoKey(t *testing.T) {
	server := redistest.StartServer(t)
	r := labtest.Program{Env: map[string]string{"REDIS_URL": "redis://" + server.Addr()}}.Run(t)
	if r.Status != 0 || r.Stderr != "" {
		t.Errorf("status %d, stderr %q", r.Status, r.Stderr)
	}
	if n, err := server.Client(t).DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("DBSIZE = %d, %v; want no key left", n, err)
	}
}

func TestBadInput(t *testing.T) {
	labtest.Program{Args: []string{"lod"}}.Run(t).WantFailure(t, []string{"check that they are save, load"})
	for _, args := range [][]string{nil, {"save"}, {"load"}} {
		labtest.Program{Args: args, Env: map[string]string{"REDIS_URL": "redis://u:s3cr3t-mArk@127.0.0.1:1"}}.Run(t).
			WantFailure(t, []string{"cannot reach Redis", "nothing listens", "check"}, "s3cr3t-mArk")
	}
}
