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
	// One write, five reads at once: Ada, Ada, Ada, Ada, Ada.
	//   primary: primary, up
	//   replica-1: replica, up
	//   replica-2: replica, down
	//   replica-3: replica, up
	// 3 of 4 nodes are healthy. The replicas' shares of the reads: 2 and 3.
	// All replicas are dead now. A read: Ada; reads at the primary: 1.
}
