package main

import (
	"testing"

	"github.com/go-transparency/transparency/examples/internal/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

func Example() {
	labtest.Example(run)
	// Output:
	// client: wrote 1 to 10 without an error; 1 to 5 were answered so far
	//         (now the server's process is killed)
	// client: reads an error that names no number; close status -1, which is none
	// client: connected to another server and counted on; 11 was answered
	// The servers got 1 2 3 4 5 11
	// 5 of 11 successful writes never arrived, and nobody was told which.
}

func TestUnknownArgument(t *testing.T) {
	labtest.Program{Args: []string{"serf"}}.Run(t).WantFailure(t, []string{"unknown arguments", "check"})
}
