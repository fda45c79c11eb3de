package main

import (
	"context"
	"strings"

	"github.com/go-transparency/transparency/examples/internal/lab"
)

// A row is one transparency: what is done to a system, and what a client saw of
// it without and with this module.
type row struct {
	name string
	done string

	// without and with do it and return what the client saw. An error says that
	// this was not what it had to see.
	without, with func(ctx context.Context, env *lab.Env) (saw string, err error)

	// parts are what processes started by env.Output("name part") do.
	parts map[string]func(ctx context.Context, env *lab.Env) error
}

// A result is a row that was run.
type result struct {
	row
	sawWithout, sawWith cell
}

type cell struct {
	text  string
	holds bool
}

func (r row) run(ctx context.Context, env *lab.Env, p printer) result {
	p.start(r)
	res := result{row: r}
	for _, s := range []struct {
		name string
		f    func(context.Context, *lab.Env) (string, error)
		saw  *cell
	}{{"without", r.without, &res.sawWithout}, {"with", r.with, &res.sawWith}} {
		*s.saw = check(ctx, env, s.f)
		if ctx.Err() != nil { // what was seen was the end of the tour
			return res
		}
		p.step(s.name, *s.saw)
	}
	return res
}

func check(ctx context.Context, env *lab.Env, f func(context.Context, *lab.Env) (string, error)) cell {
	saw, err := f(ctx, env)
	if err != nil {
		return cell{text: "DOES NOT HOLD: " + strings.Join(strings.Fields(err.Error()), " ")}
	}
	return cell{text: saw, holds: true}
}

// failed names what does not hold.
func (r result) failed() []string {
	var names []string
	if !r.sawWithout.holds {
		names = append(names, r.name+" (without)")
	}
	if !r.sawWith.holds {
		names = append(names, r.name+" (with)")
	}
	return names
}
