package main

import (
	"testing"

	"github.com/go-transparency/transparency/examples/internal/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

func Example() {
	labtest.Example(run)
	// Output:
	// A: saved the session of user_42; this process knows 1
	// B: no session of user_42; this process knows 0
	// The session ended with the process that kept it.
}

func TestUnknownArgument(t *testing.T) {
	labtest.Program{Args: []string{"lod"}}.Run(t).WantFailure(t, []string{"check", "save, load"})
}
