package main

import (
	"testing"

	"github.com/go-transparency/transparency/examples/internal/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

func Example() {
	labtest.Example(run)
	// Output:
	// user-service runs, and answers who knows where.
	// product-service runs, and answers who knows where.
	// user-service: nobody answers at http://127.0.0.1:1/users/42
	// product-service: nobody answers at http://127.0.0.1:2/likes/42
	// Two services run, two calls fail: the client knows where they were.
}
