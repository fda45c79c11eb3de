// Bench compares this module's operations with what a user would take instead,
// and counts what they cost.
//
//	go run . [-run regexp] [-check] [-turns n] [-list]
//
// It starts a redis-server of its own on the loopback interface and needs one
// on the PATH. Nothing else should be busy on the machine.
//
// # Flags
//
//   - -run: only the comparisons with a line whose name matches; when none
//     does, the names are listed and the exit status is 1
//   - -check: exit with status 1 when a target is missed
//   - -turns: turns of each side, 300 unless told, at least 6; a tenth, and at
//     least 6, where they are trials
//   - -list: the names, nothing measured
//
// A comparison in which an operation fails, or answers wrongly, or does not do
// its work when looked at before and after, has no result: its error is
// printed, the others go on, and the exit status is 1. A wrong flag is 2.
//
// # Reading a line
//
//	name | ours | peer | ratio ± error | target | verdict | trips | sent | run | allocs | the peer does
//
// Ours and peer are medians of the time of one operation; the ratio is ours by
// the peer's, and is the figure to trust. The verdict is "ok" or "MISSED" where
// a target is set, by the medians, and "info" elsewhere. A ratio that is nearer
// to its target than the error is decided by chance: give it more turns. A line
// without a peer has the error of its time in place of the ratio; such times
// move with the machine.
//
// Some lines are no times of operations. They come from trials, of which one
// may have several: a time that was seen from within, such as that from a release
// to the next lock; the 99th percentile of waits, or the worst, where a comment
// at the comparison says so; how many times as often the quickest came by as
// the slowest; goroutines, or bytes.
//
// The counts are per operation, ours/peer, and no estimates:
//
//   - trips: round trips, the times that a connection was written to after
//     something had been read from it, so a pipeline is one;
//   - sent: commands in what was written, wherever they were going;
//   - run: commands that the server ran by its own INFO commandstats, where
//     those that a script calls stand beside the script;
//   - allocs: heap allocations of the whole process, rounded down.
//
// # How it measures
//
// A machine may be a quarter slower a minute later, so ours and the peer are
// never measured one after the other. They take turns of about 4 ms, one each
// and in an order drawn for every pair. Each pair gives a ratio. The ratio of a
// line is the median of these, and its error the larger side of a
// distribution-free 95 % confidence interval: the order statistics that enclose
// the median by the binomial distribution (David and Nagaraja, "Order
// Statistics"), which assumes nothing of the samples but that they are
// independent. The first pairs, a twentieth and at least three, warm up and
// are dropped.
//
// A trial is a turn that times itself, for what has to wait, to fail or to be
// many: clients that contend for a second, a server that pauses. It returns
// samples. Ours and peer are quantiles of all samples, with intervals as above,
// and the ratio is the median of the ratios of a pair's own quantiles. Samples
// of one trial depend on each other, so such an interval is rather too narrow
// for ours and peer, and right for the ratio. The worst of all has none.
//
// The garbage collector is off within turns and runs between them, on nobody's
// time: what a side leaves behind is told by allocs and not by its time. One
// untimed operation follows each collection.
//
// Both sides have clients of their own with the same options and pool size, on
// the same server, which holds nothing else. One caller at a time works, unless
// the line says how many; then a time is that of all by the calls of all: what
// passes between two calls, whoever makes them. Trips, sent and run are counted
// before the timing, through connections that are watched; the timed connections
// are bare. What a package does in the background goes on while it is timed,
// unless a comment at the comparison says otherwise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], comparisons, os.Stdout, os.Stderr))
}

// comparisons are all there are, in the order of the report.
var comparisons = slices.Concat(
	locationComparisons, sessionComparisons, relocationComparisons,
	replicaComparisons, lockComparisons, failureComparisons,
)

// run is the program; it returns the exit status.
func run(ctx context.Context, args []string, all []comparison, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pattern := flags.String("run", "", "only the comparisons whose names match this `regexp`")
	check := flags.Bool("check", false, "exit with status 1 when a target is missed")
	turns := flags.Int("turns", 300, "`turns` of each side")
	list := flags.Bool("list", false, "list the names and measure nothing")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	usage := func(format string, args ...any) int {
		fmt.Fprintf(stderr, "bench: "+format+"\n", args...)
		return 2
	}
	if flags.NArg() > 0 {
		return usage("unexpected argument %q", flags.Arg(0))
	}
	if *turns < minTurns {
		return usage("-turns %d: at least %d are needed", *turns, minTurns)
	}
	match, err := regexp.Compile(*pattern)
	if err != nil {
		return usage("-run: %v", err)
	}

	var chosen []comparison
	for _, c := range all {
		if slices.ContainsFunc(c.lines(), func(l comparison) bool { return match.MatchString(l.name) }) {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		fmt.Fprintf(stderr, "bench: -run %q matches none of:\n", *pattern)
		printNames(stderr, all)
		return 1
	}
	if *list {
		printNames(stdout, chosen)
		return 0
	}
	missed, err := measureAll(ctx, chosen, *turns, stdout, stderr)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	case missed > 0 && *check:
		lines := 0
		for _, c := range chosen {
			lines += len(c.lines())
		}
		fmt.Fprintf(stderr, "bench: %d of %d lines missed the target\n", missed, lines)
		return 1
	}
	return 0
}

func printNames(w io.Writer, all []comparison) {
	for _, c := range all {
		for _, l := range c.lines() {
			fmt.Fprintln(w, l.name)
		}
	}
}

// measureAll prints a line for each comparison as it comes and returns how many
// missed their target.
func measureAll(ctx context.Context, chosen []comparison, turns int, stdout, stderr io.Writer) (missed int, err error) {
	version, srv := "no redis-server", (*server)(nil)
	for _, c := range chosen {
		if c.redis {
			if srv, err = startServer(ctx); err != nil {
				return 0, err
			}
			defer srv.stop()
			version = "redis-server " + srv.version
			break
		}
	}
	fmt.Fprintf(stdout, "%s, %s %s/%s, %d CPUs, %d turns of %v each\n", version, runtime.Version(),
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), turns, turnLength)
	fmt.Fprintln(stdout, header())

	failed := 0
	for _, c := range chosen {
		server := srv
		if !c.redis {
			server = nil
		}
		results, err := perform(ctx, c, server, turns)
		if ctx.Err() != nil {
			return missed, errors.New("interrupted")
		}
		if err != nil {
			fmt.Fprintf(stderr, "bench: %s: %v\n", c.name, err)
			failed++
			continue
		}
		for i, l := range c.lines() {
			fmt.Fprintln(stdout, report(l, results[i]))
			if verdict(l.target, results[i]) == verdictMissed {
				missed++
			}
		}
	}
	if failed > 0 {
		return missed, fmt.Errorf("%d of %d failed", failed, len(chosen))
	}
	return missed, nil
}
