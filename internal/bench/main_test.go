package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a side that spins n times per operation.
func fake(n int) setup {
	return func(context.Context, *rig) (*side, error) {
		x := uint64(1)
		return &side{
			op: func(context.Context) error {
				for range n {
					x = x*6364136223846793005 + 1442695040888963407
				}
				if x == 0 {
					return errors.New("the generator has stopped")
				}
				return nil
			},
			verify: func(context.Context) error { return nil },
		}, nil
	}
}

// broken is a fake whose operation, or whose verification, fails from the n-th
// call on; zero means never.
func broken(op, verify int) setup {
	return func(ctx context.Context, r *rig) (*side, error) {
		s, err := fake(1000)(ctx, r)
		ops, looks, good := 0, 0, s.op
		s.op = func(ctx context.Context) error {
			if ops++; ops == op {
				return errors.New("no such luck")
			}
			return good(ctx)
		}
		s.verify = func(context.Context) error {
			if looks++; looks == verify {
				return errors.New("nothing was done")
			}
			return nil
		}
		return s, err
	}
}

func bench(t *testing.T, all []comparison, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"-turns", "6"}, args...), all, &out, &errs)
	return code, out.String(), errs.String()
}

func TestRunThatMatchesNothing(t *testing.T) {
	all := []comparison{{name: "lock/a", ours: fake(1)}, {name: "session/b", ours: fake(1)}}
	code, stdout, stderr := bench(t, all, "-run", "^none$")
	if want := "bench: -run \"^none$\" matches none of:\nlock/a\nsession/b\n"; code != 1 || stdout != "" || stderr != want {
		t.Errorf("run = %d, stdout %q, stderr %q, want 1, nothing, %q", code, stdout, stderr, want)
	}
}

func TestRunChooses(t *testing.T) {
	all := []comparison{{name: "lock/a", ours: fake(1000)}, {name: "session/b", ours: broken(1, 0)}}
	code, stdout, stderr := bench(t, all, "-run", "lock", "-check")
	if code != 0 || !strings.Contains(stdout, "\nlock/a ") || strings.Contains(stdout, "session") {
		t.Errorf("run = %d, stdout %q, stderr %q, want lock/a alone", code, stdout, stderr)
	}
	if code, stdout, _ = bench(t, all, "-list", "-run", "s"); code != 0 || stdout != "session/b\n" {
		t.Errorf("run -list = %d, stdout %q, want session/b", code, stdout)
	}
}

// A comparison whose trials find more than one thing has a line for each, and is
// chosen by any of them.
func TestRunFigures(t *testing.T) {
	all := []comparison{{
		name: "lock/a", unit: inNumber, target: target{most: 3}, ours: tried(0, 3, 40),
		more: []figure{{name: "lock/b", unit: inTimes, target: target{most: 30}}},
	}}
	for _, name := range []string{"lock/a", "lock/b"} {
		code, stdout, stderr := bench(t, all, "-check", "-run", "^"+name+"$")
		if code != 1 || !strings.Contains(stderr, "1 of 2 lines missed") {
			t.Errorf("run -run %s = %d, stderr %q, want 1 and one missed", name, code, stderr)
		}
		for _, want := range []string{"\nlock/a                   |        3 |", "\nlock/b                   |    40.00 |"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("run -run %s: stdout %q, want %q", name, stdout, want)
			}
		}
	}
	if code, stdout, _ := bench(t, all, "-list"); code != 0 || stdout != "lock/a\nlock/b\n" {
		t.Errorf("run -list = %d, stdout %q, want both", code, stdout)
	}
	all[0].ours = tried(0, 3)
	if code, stdout, stderr := bench(t, all); code != 1 || strings.Contains(stdout, "lock/a") {
		t.Errorf("run without a figure = %d, stdout %q, stderr %q, want 1 and no line", code, stdout, stderr)
	}
}

// tried is a side of trials with so many operations and these figures.
func tried(ops int, figures ...float64) setup {
	return func(context.Context, *rig) (*side, error) {
		t := trial{ops: ops}
		for _, f := range figures {
			t.samples = append(t.samples, []float64{f})
		}
		return &side{
			trial:  func(context.Context) (trial, error) { return t, nil },
			verify: func(context.Context) error { return nil },
		}, nil
	}
}

// There are fewer trials than turns, and their counts are by their operations.
func TestTrials(t *testing.T) {
	trials, left := 0, 0
	s := &side{trial: func(context.Context) (trial, error) {
		trials++
		for range 21 {
			sink = make([]byte, 16)
		}
		return trial{ops: 7 - left, samples: [][]float64{{1}}}, nil
	}}
	found, err := alternate(t.Context(), []*side{s}, 300)
	if err != nil || len(found[0]) != 300/long || trials != 300/long+1 {
		t.Errorf("alternate = %d turns of %d trials, %v, want %d and one to warm up", len(found[0]), trials, err, 300/long)
	}
	if found, err = alternate(t.Context(), []*side{s}, minTurns); err != nil || len(found[0]) != minTurns {
		t.Errorf("alternate = %d turns, %v, want %d", len(found[0]), err, minTurns)
	}
	if allocs, err := countAllocs(t.Context(), s); err != nil || allocs != 3 {
		t.Errorf("countAllocs = %v, %v, want 3", allocs, err)
	}
	left = 7
	if allocs, err := countAllocs(t.Context(), s); err != nil || !math.IsNaN(allocs) {
		t.Errorf("countAllocs of no operations = %v, %v, want none", allocs, err)
	}
}

func TestRunWrongFlags(t *testing.T) {
	all := []comparison{{name: "a", ours: fake(1)}}
	for _, args := range [][]string{{"-run", "("}, {"-turns", "5"}, {"-turns", "many"}, {"-nope"}, {"extra"}} {
		if code, stdout, stderr := bench(t, all, args...); code != 2 || stdout != "" || stderr == "" {
			t.Errorf("run %q = %d, stdout %q, stderr %q, want 2 and a complaint", args, code, stdout, stderr)
		}
	}
	if code, _, _ := bench(t, all, "-help"); code != 0 {
		t.Errorf("run -help = %d, want 0", code)
	}
}

func TestRunCheck(t *testing.T) {
	reached := comparison{name: "a/reached", ours: fake(1000), peer: fake(1000), target: target{ratio: 50}}
	missed := comparison{name: "a/missed", ours: fake(8000), peer: fake(1000), target: target{ratio: 2}}
	unset := comparison{name: "a/unset", ours: fake(8000), peer: fake(1000)}
	for _, tt := range []struct {
		all     []comparison
		args    []string
		code    int
		verdict []string
	}{
		{[]comparison{reached, unset}, []string{"-check"}, 0, []string{verdictOK, verdictInfo}},
		{[]comparison{missed, reached}, []string{"-check"}, 1, []string{verdictMissed, verdictOK}},
		{[]comparison{missed, reached}, nil, 0, []string{verdictMissed, verdictOK}},
	} {
		code, stdout, stderr := bench(t, tt.all, tt.args...)
		if code != tt.code {
			t.Errorf("run %v = %d, stderr %q, want %d", tt.args, code, stderr, tt.code)
		}
		var got []string
		for _, line := range strings.Split(strings.TrimSpace(stdout), "\n")[2:] {
			got = append(got, strings.TrimSpace(strings.Split(line, "|")[5]))
		}
		if strings.Join(got, " ") != strings.Join(tt.verdict, " ") {
			t.Errorf("verdicts = %q, want %q", got, tt.verdict)
		}
	}
}

func TestRunFailures(t *testing.T) {
	good := comparison{name: "a/good", ours: fake(1000)}
	for name, bad := range map[string]comparison{
		"first operation": {ours: broken(1, 0), peer: fake(1000)},
		"late operation":  {ours: broken(700, 0), peer: fake(1000)},
		"peer's":          {ours: fake(1000), peer: broken(1, 0)},
		"verify before":   {ours: broken(0, 1), peer: fake(1000)},
		"verify after":    {ours: fake(1000), peer: broken(0, 2)},
		"set-up": {peer: fake(1000), ours: func(context.Context, *rig) (*side, error) {
			return nil, errors.New("cannot begin")
		}},
	} {
		bad.name = "a/bad"
		code, stdout, stderr := bench(t, []comparison{bad, good})
		if code != 1 || !strings.Contains(stderr, "bench: a/bad: ") || !strings.HasSuffix(stderr, "bench: 1 of 2 failed\n") {
			t.Errorf("%s: run = %d, stderr %q, want 1 and which failed", name, code, stderr)
		}
		if strings.Contains(stdout, "a/bad") || !strings.Contains(stdout, "a/good") {
			t.Errorf("%s: stdout %q, want a line for a/good alone", name, stdout)
		}
	}
}

func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stops := func(ctx context.Context, r *rig) (*side, error) {
		cancel()
		return fake(1000)(ctx, r)
	}
	var out, errs bytes.Buffer
	code := run(ctx, nil, []comparison{{name: "a", ours: stops}, {name: "b", ours: stops}}, &out, &errs)
	if code != 1 || errs.String() != "bench: interrupted\n" {
		t.Errorf("run = %d, stderr %q, want 1, interrupted", code, errs.String())
	}
}

func TestRunWithoutRedisServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	code, stdout, stderr := bench(t, []comparison{{name: "a", redis: true, ours: fake(1)}})
	if code != 1 || stdout != "" || !regexp.MustCompile(`^bench: no redis-server on the PATH.*\n$`).MatchString(stderr) {
		t.Errorf("run = %d, stdout %q, stderr %q, want 1 and one line", code, stdout, stderr)
	}
}

func TestNames(t *testing.T) {
	form := regexp.MustCompile(`^(access|location|session|relocation|replica|lock|failure)/[a-z0-9-]+$`)
	seen := make(map[string]bool)
	for _, c := range lines(comparisons) {
		if !form.MatchString(c.name) || len(c.name) > nameWidth || seen[c.name] {
			t.Errorf("name %q: want package/what, once, in %d columns", c.name, nameWidth)
		}
		seen[c.name] = true
		if (c.peer == nil) != (c.versus == "") {
			t.Errorf("%s: versus %q, want it where there is a peer", c.name, c.versus)
		}
	}
}

// Every comparison runs to its line, however little six turns say of it.
func TestComparisonsRun(t *testing.T) {
	requireServer(t)
	defer func(all effort) { full = all }(full)
	full = effort{trial: 50 * time.Millisecond, leases: 200, connections: 100}
	code, stdout, stderr := bench(t, comparisons)
	if n := strings.Count(stdout, "\n"); code != 0 || n != len(lines(comparisons))+2 {
		t.Errorf("run = %d, stderr %q, want 0 and a line for each of %d:\n%s", code, stderr, len(lines(comparisons)), stdout)
	}
}

func lines(all []comparison) (lines []comparison) {
	for _, c := range all {
		lines = append(lines, c.lines()...)
	}
	return lines
}

func requireServer(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("this test needs a redis-server")
	}
}
