package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/examples/internal/labtest"
	"github.com/go-transparency/transparency/failure"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/lock"
	"github.com/go-transparency/transparency/replica"
)

// envRows says which rows the tour of the test binary has beside, or instead of,
// the real ones.
const envRows = "LAB_TOUR_ROWS"

func TestMain(m *testing.M) {
	labtest.Main(m, func(ctx context.Context, env *lab.Env) error {
		return tour(ctx, env, testRows(os.Getenv(envRows)))
	})
}

func testRows(name string) []row {
	switch name {
	case "":
		return rows
	case "access":
		return []row{accessRow}
	case "broken":
		fails := func(context.Context, *lab.Env) (string, error) { return "", errors.New("saw\nnothing") }
		broken := row{name: "broken", done: "nothing", without: accessRow.without, with: fails}
		return []row{accessRow, broken, {name: "wrong", done: "nothing", without: fails, with: accessRow.with}}
	case "killer": // ends the server before the second row
		killer := migrationRow
		killer.without = func(ctx context.Context, env *lab.Env) (string, error) {
			client, err := env.Redis(ctx)
			if err == nil {
				_ = client.ShutdownNoSave(ctx).Err()
			}
			return "", err
		}
		return []row{accessRow, killer, concurrencyRow}
	case "hanging":
		hangs := func(ctx context.Context, env *lab.Env) (string, error) { return "", env.Processes(ctx, "hanging wait") }
		waits := func(ctx context.Context, env *lab.Env) error {
			return withClient(func(ctx context.Context, env *lab.Env, client *redis.Client) error {
				if err := client.Set(ctx, env.Prefix()+"hanging", 1, time.Minute).Err(); err != nil {
					return err
				}
				fmt.Fprintln(env.Out, "child", os.Getpid())
				<-ctx.Done()
				return ctx.Err()
			})(ctx, env)
		}
		return append(rows[:len(rows):len(rows)], row{
			name: "hanging", done: "nothing", without: hangs, with: hangs,
			parts: map[string]func(context.Context, *lab.Env) error{"wait": waits},
		})
	}
	soon = 2 * time.Second // what they wait for never comes
	return []row{mutants[name]}
}

// shown is what the tour prints, apart from which withdrawal was lost, and when.
var shown = regexp.MustCompile(`(?s)access: .*location: .*migration: .*relocation: .*replication: .*concurrency: .*failure: .*` +
	`transparency +\| what was done to the.*\| what the client saw without \| what it saw with\n.*` +
	`access +\|.*location +\|.*migration +\|.*relocation +\|.*replication +\|.*concurrency +\|.*failure +\|.*` +
	`\nAll 7 hold, checked in [0-9.]+m?s\.\n$`)

func TestHolds(t *testing.T) {
	r := labtest.Program{}.Run(t)
	wantTour(t, r)
	if !strings.HasPrefix(r.Stdout, "Redis: none is configured") {
		t.Errorf("stdout = %q, want the embedded Redis announced", r.Stdout)
	}
}

func TestHoldsOnAServerAndLeavesNoKey(t *testing.T) {
	server := redistest.StartServer(t)
	client := server.Client(t)
	if err := client.Set(t.Context(), "balance", "somebody's", 0).Err(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	r := labtest.Program{Env: map[string]string{"REDIS_URL": "redis://" + server.Addr()}}.Run(t)
	wantTour(t, r)
	if took := time.Since(start); took > limit {
		t.Errorf("it took %v, want under %v", took, limit)
	}
	if strings.Contains(r.Stdout, "inside this process") {
		t.Errorf("stdout = %q; the server was not used", r.Stdout)
	}
	if server.Calls(t) < 20 {
		t.Errorf("the server saw %v", server.Commands(t))
	}
	wantOnly(t, client, "balance")
}

func wantTour(t *testing.T, r labtest.Result) {
	t.Helper()
	if r.Status != 0 || r.Stderr != "" || !shown.MatchString(r.Stdout) {
		t.Errorf("status %d, stderr %q, stdout:\n%s\nwant all to hold", r.Status, r.Stderr, r.Stdout)
	}
	wantPlain(t, r.Stdout)
}

// wantPlain checks that there is no escape code, and no line that is too long in
// the table.
func wantPlain(t *testing.T, stdout string) {
	t.Helper()
	if strings.Contains(stdout, "\x1b") {
		t.Errorf("stdout = %q; it has escape codes", stdout)
	}
	for line := range strings.Lines(stdout) {
		line = strings.TrimSuffix(line, "\n")
		if strings.Contains(line, "|") && utf8.RuneCountInString(line) > 100 {
			t.Errorf("the line %q has more than 100 characters", line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("the line %q ends in spaces", line)
		}
	}
}

func wantOnly(t *testing.T, client *redis.Client, want ...string) {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || strings.Join(keys, " ") != strings.Join(want, " ") {
		t.Errorf("keys = %q, %v; want %q", keys, err, want)
	}
}

func TestRowDoesNotHold(t *testing.T) {
	server := redistest.StartServer(t)
	r := labtest.Program{Env: map[string]string{envRows: "broken", "REDIS_URL": "redis://" + server.Addr()}}.Run(t)
	r.WantFailure(t, []string{"does not hold: broken (with), wrong (without): check the table"})
	for _, want := range []string{"broken: nothing", "DOES NOT HOLD: saw nothing", "localhost:5432 before and after"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("stdout = %q, want %q in it", r.Stdout, want)
		}
	}
	if strings.Contains(r.Stdout, "hold, checked") {
		t.Errorf("stdout = %q; it claims that all holds", r.Stdout)
	}
	wantPlain(t, r.Stdout)
	wantOnly(t, server.Client(t))
}

// Keys that cannot be removed are no secret.
func TestCannotCleanUp(t *testing.T) {
	server := redistest.StartServer(t)
	if err := server.Client(t).Do(t.Context(), "acl", "setuser", "default", "-scan").Err(); err != nil {
		t.Fatal(err)
	}
	labtest.Program{Env: map[string]string{"REDIS_URL": "redis://" + server.Addr()}}.Run(t).
		WantFailure(t, []string{"cannot remove the keys under lab:", "does not allow", "check the user's permissions"})
}

// A server that stops answering in the middle: the tour ends, and says why.
func TestServerGoesAway(t *testing.T) {
	server := redistest.StartServer(t)
	r := labtest.Program{Env: map[string]string{envRows: "killer", "REDIS_URL": "redis://" + server.Addr()}}.Run(t)
	r.WantFailure(t, []string{"does not hold: migration (with), concurrency (without), concurrency (with)"})
	if !strings.Contains(r.Stdout, "nothing listens at "+server.Addr()) {
		t.Errorf("stdout = %q, want it to say why", r.Stdout)
	}
}

// mutants are rows whose system was changed so that a check has to notice.
var mutants = map[string]row{
	"a map that is found again": mutate(migrationRow, "load-from-map", func(_ context.Context, env *lab.Env) error {
		fmt.Fprintln(env.Out, sampleCart)
		return nil
	}),
	"a store that forgets":        mutate(migrationRow, "load", migrationRow.parts["load-from-map"]),
	"a store that was not used":   mutate(migrationRow, "save", migrationRow.parts["save-in-map"]),
	"withdrawals that are locked": mutate(concurrencyRow, "withdraw", concurrencyRow.parts["withdraw-locked"]),
	"withdrawals that are not":    mutate(concurrencyRow, "withdraw-locked", concurrencyRow.parts["withdraw"]),
	"fences that do not rise": mutate(concurrencyRow, "withdraw-locked", withClient(func(ctx context.Context, env *lab.Env, client *redis.Client) error {
		return locked(env, client, func(m lock.Mutex) error {
			return lock.Do(ctx, m, func(ctx context.Context, _ uint64) error {
				return withdraw(ctx, env, client, func() error { return noteFence(ctx, env, client, 7) })
			})
		})
	})),
	"a lock that anyone gets": mutate(concurrencyRow, "try", func(context.Context, *lab.Env) error { return nil }),
	"a child that fails":      mutate(migrationRow, "save-in-map", func(context.Context, *lab.Env) error { return errors.New("child") }),

	"an instance that lives on":     mutate(locationRow, "serve", serve(func() {})),
	"an instance that does nothing": mutate(locationRow, "serve", func(ctx context.Context, _ *lab.Env) error { <-ctx.Done(); return ctx.Err() }),
	"an instance that ends":         mutate(locationRow, "serve", func(context.Context, *lab.Env) error { return nil }),

	"a plain server that reads on":       mutate(relocationRow, "serve-plain", servePlain(2*burst, websocket.StatusGoingAway)),
	"a plain server that says otherwise": mutate(relocationRow, "serve-plain", servePlain(burst, websocket.StatusNormalClosure)),
	"rows without positions":             mutate(relocationRow, "serve", withClient(hubServer{oneKey: true, drains: true}.serve)),
	"servers that share no key":          mutate(relocationRow, "serve", withClient(hubServer{atomic: true, drains: true}.serve)),
	"a server that does not drain":       mutate(relocationRow, "serve", withClient(hubServer{atomic: true, oneKey: true}.serve)),

	"a replica that lives on":         replication(func(*lab.Node) {}, nil),
	"a primary that never stands in":  replication((*lab.Node).Kill, &replica.Options{ProbeInterval: 100 * time.Millisecond, PrimaryShare: -1}),
	"a pool that tries one node only": replication((*lab.Node).Kill, &replica.Options{ProbeInterval: 100 * time.Millisecond, Attempts: -1}),
	"a service that is well":          failureOf(nil, nil),
	"a service with another illness":  failureOf(errors.New("another"), &failure.BreakerOptions{Failures: 3}),
	"a breaker that never opens":      failureOf(errSick, &failure.BreakerOptions{Failures: -1, Ratio: -1}),
	"a breaker that does not wait":    failureOf(errSick, &failure.BreakerOptions{Failures: 3, OpenFor: time.Nanosecond, MaxOpenFor: -1}),
}

func mutate(r row, part string, f func(context.Context, *lab.Env) error) row {
	r.parts = maps.Clone(r.parts)
	r.parts[part] = f
	return r
}

func TestChecksCanFail(t *testing.T) {
	for name := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			labtest.Program{Env: map[string]string{envRows: name}}.Run(t).WantFailure(t, []string{"does not hold: "})
		})
	}
}

func TestBadInput(t *testing.T) {
	labtest.Program{Args: []string{"fast"}}.Run(t).WantFailure(t, []string{"the tour takes no arguments"})
	labtest.Program{Args: []string{"location", "serve"}}.Run(t).WantFailure(t, []string{"the tour takes no arguments"})
	labtest.Program{Args: []string{"concurrency", "withdraw"}}.Run(t).WantFailure(t, []string{"the tour takes no arguments"})
	labtest.Program{Env: map[string]string{"REDIS_URL": "redis://u:s3cr3t-mArk@127.0.0.1:1"}}.Run(t).
		WantFailure(t, []string{"cannot reach Redis", "check"}, "s3cr3t-mArk")
}
