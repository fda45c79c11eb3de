package failuretest

import (
	"context"

	"github.com/go-transparency/transparency/internal/testkit"
)

// record runs a check, and returns how it failed.
func record(ctx context.Context, c check, r *run) []string {
	return testkit.Record(ctx, func(rec *testkit.Recorder) {
		r.reporter = rec
		c.fn(r)
	})
}
