package main

import (
	"regexp"
	"testing"

	"github.com/go-transparency/transparency/examples/internal/labtest"
	"github.com/go-transparency/transparency/internal/redistest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

// One of the withdrawals is lost, on every run. Which one is open.
var lost = regexp.MustCompile(`(?s)The balance is 1000\. .*` +
	`- (200: read 1000, wrote 800\n- 300: read 1000, wrote 700|300: read 1000, wrote 700\n- 200: read 1000, wrote 800)\n` +
	`The balance is [78]00, and should be 500\.\n$`)

func TestLosesOneWithdrawal(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { wantLost(t, nil) })
	t.Run("server", func(t *testing.T) {
		server := redistest.StartServer(t)
		wantLost(t, map[string]string{"REDIS_URL": "redis://" + server.Addr()})
		if n, err := server.Client(t).DBSize(t.Context()).Result(); err != nil || n != 0 {
			t.Errorf("DBSIZE = %d, %v; want no key left", n, err)
		}
	})
}

func wantLost(t *testing.T, env map[string]string) {
	t.Helper()
	r := labtest.Program{Env: env}.Run(t)
	if r.Status != 0 || r.Stderr != "" || !lost.MatchString(r.Stdout) {
		t.Errorf("status %d, stderr %q, stdout:\n%s\nwant %v", r.Status, r.Stderr, r.Stdout, lost)
	}
}

func TestBadInput(t *testing.T) {
	for _, args := range [][]string{{"withdraw"}, {"withdraw", "all"}, {"deposit", "5"}} {
		labtest.Program{Args: args}.Run(t).WantFailure(t, []string{"check that they are withdraw and a"})
	}
	labtest.Program{Env: map[string]string{"REDIS_PORT": "1"}}.Run(t).WantFailure(t, []string{"cannot reach Redis", "check REDIS_HOST"})
}
