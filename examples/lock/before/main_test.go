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
	server := redistest.Start(t)
	for name, url := range map[string]string{"configured": "redis://" + server.Addr(), "embedded": ""} {
		t.Run(name, func(t *testing.T) {
			r := labtest.Program{Env: map[string]string{"REDIS_URL": url}}.Run(t)
			if r.Status != 0 || r.Stderr != "" || !lost.MatchString(r.Stdout) {
				t.Errorf("status %d, stderr %q, stdout:\n%s\nwant %v", r.Status, r.Stderr, r.Stdout, lost)
			}
		})
	}
}

func TestBadInput(t *testing.T) {
	for _, args := range [][]string{{"withdraw"}, {"withdraw", "all"}, {"deposit", "5"}} {
		labtest.Program{Args: args}.Run(t).WantFailure(t, []string{"check that they are withdraw and a"})
	}
	labtest.Program{Env: map[string]string{"REDIS_PORT": "1"}}.Run(t).WantFailure(t, []string{"cannot reach Redis", "check REDIS_HOST"})
}
