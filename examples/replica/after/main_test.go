package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/examples/internal/labtest"
	"github.com/go-transparency/transparency/internal/redistest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

func Example() {
	labtest.Example(run)
	// Output:
	// Redis: none is configured (REDIS_URL, REDIS_HOST), so one runs inside this process and ends with it.
	// One write, five reads at once: Ada, Ada, Ada, Ada, Ada.
	//   primary: primary, up
	//   replica-1: replica, up
	//   replica-2: replica, down
	//   replica-3: replica, up
	// 3 of 4 nodes are healthy. The replicas' shares of the reads: 2 and 3.
	// All replicas are dead now. A read: Ada; reads at the primary: 1.
}

func TestServerNoKeyLeft(t *testing.T) {
	server := redistest.StartServer(t)
	r := labtest.Program{Env: map[string]string{"REDIS_URL": "redis://" + server.Addr()}}.Run(t)
	if r.Status != 0 || r.Stderr != "" || !strings.HasSuffix(r.Stdout, "A read: Ada; reads at the primary: 1.\n") {
		t.Errorf("status %d, stdout %q, stderr %q", r.Status, r.Stdout, r.Stderr)
	}
	wantNoKeys(t, server.Client(t))
}

func wantNoKeys(t *testing.T, client *redis.Client) {
	t.Helper()
	if n, err := client.DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("DBSIZE = %d, %v; want no key left", n, err)
	}
}

// Servers that are real: their roles are asked for, whatever their order.
func TestServers(t *testing.T) {
	first, primary, third := redistest.StartServer(t), redistest.StartServer(t), redistest.StartServer(t)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	_ = primary.Client(t).ConfigSet(t.Context(), "repl-diskless-sync-delay", "0").Err() // else replicas are kept waiting for others
	for _, s := range []*redistest.Server{first, third} {
		if err := s.Client(t).ReplicaOf(t.Context(), host, port).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := regexp.MustCompile(`(?s)^One write, five reads at once: Ada, Ada, Ada, Ada, Ada\.\n` +
		`  ` + first.Addr() + `: replica, up\n  ` + primary.Addr() + `: primary, up\n  ` + third.Addr() + `: replica, up\n  127\.0\.0\.1:1: unknown, down\n` +
		`3 of 4 nodes are healthy\. The replicas' shares of the reads: 2 and 3\.\n$`)
	args := []string{first.Addr() + ", " + primary.Addr() + "," + third.Addr() + ",127.0.0.1:1"}
	deadline := time.Now().Add(20 * time.Second)
	for {
		r := labtest.Program{Args: args}.Run(t)
		if r.Status == 0 && want.MatchString(r.Stdout) {
			break
		}
		if time.Now().After(deadline) { // they were being linked, or a replica had not heard of the write
			t.Fatalf("status %d, stdout %q, stderr %q; want %v", r.Status, r.Stdout, r.Stderr, want)
		}
	}
	wantNoKeys(t, primary.Client(t))
}

func TestBadInput(t *testing.T) {
	const marker = "s3cr3t-mArk"
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want []string
	}{
		{"arguments", []string{"a:1", "b:2"}, nil, []string{"unknown arguments", "check that they are host:port"}},
		{"empty list", []string{""}, nil, []string{"invalid: the list of nodes is empty", "check the list"}},
		{"commas", []string{", ,"}, nil, []string{"invalid: the list of nodes is empty", "check the list"}},
		{"twice the same", []string{"127.0.0.1:1,127.0.0.1:1"}, nil, []string{"invalid", "127.0.0.1:1", "check the list"}},
		{"no address", []string{"redis://u:" + marker + "@h"}, nil, []string{"check that it reads host:port"}},
		{"unreachable", []string{"127.0.0.1:1,127.0.0.1:2"}, nil, []string{"unavailable: no primary", `"127.0.0.1:1"`, `"127.0.0.1:2"`, "check the addresses"}},
		{"Redis down", nil, map[string]string{"REDIS_URL": "redis://u:" + marker + "@127.0.0.1:1"}, []string{"cannot reach Redis", "check"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := labtest.Program{Args: test.args, Env: test.env}.Run(t)
			r.WantFailure(t, test.want, marker)
			if r.Stdout != "" {
				t.Errorf("stdout = %q, want nothing half done", r.Stdout)
			}
		})
	}
}
