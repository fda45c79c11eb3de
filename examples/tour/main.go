// Tour shows each transparency before and after: it does something to a small
// system, once with a client that has no help and once with a client that uses
// this module, and says what each of them saw. Nothing is claimed that was not
// checked: when the first client does not fail as it should, or the second one
// fails, the tour says so and exits with status 1.
//
//	go run ./examples/tour
//
// It takes a few seconds. Where a row speaks of processes, they are processes of
// the operating system: this program, started again. With REDIS_URL or REDIS_HOST
// it uses that Redis, under keys of its own that are gone when it ends, on Ctrl-C
// too; else it brings one along.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-transparency/transparency/examples/internal/lab"
)

func main() { lab.Main(run) }

// rows are the tour, in order. One more is a file and an entry here.
var rows = []row{accessRow, locationRow, migrationRow, relocationRow, replicationRow, concurrencyRow, failureRow}

var errArguments = errors.New("unknown arguments: check that there are none: the tour takes no arguments")

// limit bounds the whole tour.
const limit = 25 * time.Second

func run(ctx context.Context, env *lab.Env) error { return tour(ctx, env, rows) }

func tour(ctx context.Context, env *lab.Env, rows []row) error {
	if len(env.Args) > 0 {
		return runPart(ctx, env, rows)
	}
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("the tour did not end within %v: check how far away Redis is, and how busy this machine", limit))
	defer cancel()
	if _, err := env.Redis(ctx); err != nil {
		return err
	}

	p := printer{out: env.Out, color: env.Color()}
	var results []result
	var failed []string
	for _, r := range rows {
		res := r.run(ctx, env, p)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		results = append(results, res)
		failed = append(failed, res.failed()...)
	}
	p.table(results)
	if len(failed) > 0 {
		return errors.New("does not hold: " + strings.Join(failed, ", ") + ": check the table above")
	}
	fmt.Fprintf(env.Out, "\nAll %d hold, checked in %v.\n", len(results), time.Since(start).Round(100*time.Millisecond))
	return nil
}

// runPart is what a child process does: "row part".
func runPart(ctx context.Context, env *lab.Env, rows []row) error {
	for _, r := range rows {
		if len(env.Args) >= 2 && r.name == env.Args[0] && r.parts[env.Args[1]] != nil {
			return r.parts[env.Args[1]](ctx, env)
		}
	}
	return errArguments
}
