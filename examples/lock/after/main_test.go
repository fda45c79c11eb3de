package main

import (
	"testing"

	"github.com/go-transparency/transparency/examples/internal/labtest"
	"github.com/go-transparency/transparency/internal/redistest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

func Example() {
	labtest.Example(run)
	// Output:
	// Redis: none is configured (REDIS_URL, REDIS_HOST), so one runs inside this process and ends with it.
	// The balance is 1000. Two processes withdraw 200 and 300 at the same time.
	// The balance is 500, and should be 500. The fences rise: true.
	// This process has the lock.
	// Another process tries: resource in use.
}

func TestRealServerNoKeyLeft(t *testing.T) {
	server := redistest.StartServer(t)
	const want = "The balance is 1000. Two processes withdraw 200 and 300 at the same time.\n" +
		"The balance is 500, and should be 500. The fences rise: true.\n" +
		"This process has the lock.\nAnother process tries: resource in use.\n"
	r := labtest.Program{Env: map[string]string{"REDIS_URL": "redis://" + server.Addr()}}.Run(t)
	if r.Status != 0 || r.Stderr != "" || r.Stdout != want {
		t.Errorf("status %d, stdout %q, stderr %q; want %q", r.Status, r.Stdout, r.Stderr, want)
	}
	if n, err := server.Client(t).DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("DBSIZE = %d, %v; want no key left, the lock's fence included", n, err)
	}
}

func TestTryWhenFree(t *testing.T) {
	r := labtest.Program{Args: []string{"try"}}.Run(t)
	if want := "Another process tries: the lock was free.\n"; r.Status != 0 || len(r.Stdout) < len(want) || r.Stdout[len(r.Stdout)-len(want):] != want {
		t.Errorf("status %d, stdout %q, stderr %q; want %q last", r.Status, r.Stdout, r.Stderr, want)
	}
}

func TestBadInput(t *testing.T) {
	for _, args := range [][]string{{"withdraw"}, {"withdraw", "all"}, {"deposit", "5"}} {
		labtest.Program{Args: args}.Run(t).WantFailure(t, []string{"check that they are withdraw and a"})
	}
	labtest.Program{Env: map[string]string{"REDIS_PORT": "1"}}.Run(t).WantFailure(t, []string{"cannot reach Redis", "check REDIS_HOST"})
	labtest.Program{Args: []string{"withdraw", "5"}}.Run(t).WantFailure(t, []string{"cannot read the balance", "no such key", "check"})
}
