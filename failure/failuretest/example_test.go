package failuretest_test

import (
	"context"
	"fmt"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
	"github.com/go-transparency/transparency/failure/failuretest"
)

// Faults by a script show that a call is made again only where that is safe.
func ExampleInject() {
	load := failuretest.Inject(failuretest.Script(
		failuretest.Fault{Refused: transparency.ErrUnavailable},
		failuretest.Fault{},
		failuretest.Fault{Lost: transparency.ErrUncertain},
	), func(context.Context) (string, error) { return "ada", nil })

	retry := failure.NewRetry(&failure.RetryOptions{Base: -1})
	for range 2 {
		fmt.Println(failure.Call(context.Background(), load, retry))
	}
	// Output:
	// ada <nil>
	//  outcome unknown
}
