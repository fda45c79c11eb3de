package main

import (
	"testing"

	"github.com/go-transparency/transparency/examples/internal/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

func Example() {
	labtest.Example(run)
	// Output:
	// call  1: paid
	// call  2: the service failed
	// call  3: the service failed
	// call  4: paid
	// call  5: the service failed
	// call  6: paid
	// call  7: the service failed
	// call  8: the service failed
	// call  9: the service failed
	// call 10: the service failed
	// The service was asked 10 times and failed 7 times, and each caller waited for it.
}
