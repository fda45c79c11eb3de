package main

import (
	"testing"

	"github.com/go-transparency/transparency/examples/internal/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

func Example() {
	labtest.Example(run)
	// Output:
	// Redis: none is configured (REDIS_URL, REDIS_HOST), so one runs inside this process and ends with it.
	// One write to the primary. Five reads from three replicas, one of which is dead.
	// read 1 from replica-1: Ada
	// read 2 from replica-2: it does not answer
	// read 3 from replica-3: Ada
	// read 4 from replica-1: Ada
	// read 5 from replica-2: it does not answer
	// 2 of 5 reads failed, though two replicas and the primary have the value.
}

func TestBadInput(t *testing.T) {
	labtest.Program{Env: map[string]string{"REDIS_PORT": "1"}}.Run(t).WantFailure(t, []string{"cannot reach Redis", "check REDIS_HOST"})
}
