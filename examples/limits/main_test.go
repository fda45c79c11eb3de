package main

import (
	"testing"

	"github.com/go-transparency/transparency/examples/internal/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

func Example() {
	labtest.Example(run)
	// Output:
	// getUser(id) *user, which looks local:
	//   well  : Ada
	//   slow  : Ada, most of a second later
	//   sick  : nothing; and later, elsewhere: runtime error: invalid memory address or nil pointer dereference
	//   nobody: nothing; and later, elsewhere: runtime error: invalid memory address or nil pointer dereference
	// fetchUser(ctx, id) (user, bool, error), with a limit of 300 ms:
	//   well  : Ada
	//   slow  : no answer within 300 ms
	//   sick  : the service answered 500 Internal Server Error
	//   nobody: there is no such user
}
