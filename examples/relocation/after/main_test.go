package main

import (
	"strings"
	"testing"

	"github.com/go-transparency/transparency/examples/internal/labtest"
	"github.com/go-transparency/transparency/internal/redistest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

func Example() {
	labtest.Example(run)
	// Output:
	// Redis: none is configured (REDIS_URL, REDIS_HOST), so one runs inside this process and ends with it.
	// CONNECTED     sent 1 to 5
	// The server is told to end, and drains.
	// MIGRATING     sent 6 to 10
	// RECONNECTING  sent 11 to 15
	// CONNECTED     sent 16 to 20
	// CONNECTED     sent 21 to 25
	// The next server has noted 21 and is killed before it says so; 20 are acknowledged.
	// RECONNECTING  sent 26 to 30
	// CONNECTED     sent 31 to 35
	// The rows in Redis are 1 to 35: none lost, none doubled, in order.
}

func TestServerNoKeyLeft(t *testing.T) {
	server := redistest.StartServer(t)
	r := labtest.Program{Env: map[string]string{"REDIS_URL": "redis://" + server.Addr()}}.Run(t)
	if r.Status != 0 || r.Stderr != "" || !strings.HasSuffix(r.Stdout, "The rows in Redis are 1 to 35: none lost, none doubled, in order.\n") {
		t.Errorf("status %d, stdout %q, stderr %q", r.Status, r.Stdout, r.Stderr)
	}
	if n, err := server.Client(t).DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("DBSIZE = %d, %v; want no key left", n, err)
	}
}

func TestBadInput(t *testing.T) {
	const marker = "s3cr3t-mArk"
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want []string
	}{
		{"arguments", []string{"serf"}, nil, []string{"unknown arguments", "check"}},
		{"Redis", nil, map[string]string{"REDIS_URL": "redis://u:" + marker + "@127.0.0.1:1"}, []string{"cannot reach Redis", "nothing listens", "check"}},
		{"Redis, for a server", []string{"serve"}, map[string]string{"REDIS_PORT": "1"}, []string{"cannot reach Redis", "nothing listens", "check"}},
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

// A Redis that allows no script: the program says so and ends.
func TestDenied(t *testing.T) {
	server := redistest.StartServer(t)
	if err := server.Client(t).Do(t.Context(), "acl", "setuser", "default", "-eval", "-evalsha").Err(); err != nil {
		t.Fatal(err)
	}
	labtest.Program{Env: map[string]string{"REDIS_URL": "redis://" + server.Addr()}}.Run(t).
		WantFailure(t, []string{"check"})
}
