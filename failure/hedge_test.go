package failure_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// hedging returns a Hedge of idempotent calls with a delay of one second.
func hedging(attempts int) *failure.Hedge {
	return failure.NewHedge(&failure.HedgeOptions{Idempotent: true, Attempts: attempts, Delay: time.Second, Budget: plenty()})
}

// A plan is how each attempt of a call goes: it takes that long, or until its
// context ends, and returns its number or the error.
type plan []struct {
	takes time.Duration
	err   error
	deaf  bool
}

// attempts is when those of a call began.
type attempts struct {
	mu sync.Mutex
	at []time.Duration
}

func (a *attempts) add(at time.Duration) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = append(a.at, at)
	return len(a.at)
}

func (a *attempts) all() []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.at)
}

func (p plan) call(begun *attempts, start time.Time) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		n := begun.add(time.Since(start))
		step := p[min(n, len(p))-1]
		if step.deaf {
			time.Sleep(step.takes)
			return n, step.err
		}
		select {
		case <-time.After(step.takes):
			return n, step.err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// FA-24, FA-25: when attempts begin, which is taken, and when Do returns.
func TestHedge(t *testing.T) {
	const s = time.Second
	uncertain := fmt.Errorf("%w: reset", transparency.ErrUncertain)
	for name, c := range map[string]struct {
		plan  plan
		want  int
		took  time.Duration
		begun string
		err   error
	}{
		"fast":                     {plan{{takes: s / 2}}, 1, s / 2, "[0s]", nil},
		"slow":                     {plan{{takes: 10 * s}, {takes: s / 2}}, 2, 3 * s / 2, "[0s 1s]", nil},
		"slow, and the second too": {plan{{takes: 3 * s}, {takes: 10 * s}}, 1, 3 * s, "[0s 1s 2s]", nil},
		"a loser that is deaf":     {plan{{takes: 60 * s, deaf: true}, {takes: s / 2}}, 2, 3 * s / 2, "[0s 1s]", nil},
		"fails fast":               {plan{{takes: s / 4, err: uncertain}, {takes: s / 4}}, 2, s / 2, "[0s 250ms]", nil},
		"fails fast, then slow":    {plan{{takes: s / 4, err: uncertain}, {takes: 5 * s}, {takes: s}}, 3, s/4 + 2*s, "[0s 250ms 1.25s]", nil},
		"a hedge fails":            {plan{{takes: 5 * s}, {takes: s / 4, err: errDown}, {takes: s / 4}}, 3, 3 * s / 2, "[0s 1s 1.25s]", nil},
		"fails while another runs": {plan{{takes: 3 * s / 2, err: errBoom}, {takes: 3 * s}}, 2, 4 * s, "[0s 1s 2s]", nil},
		"an answer is final":       {plan{{takes: s / 4, err: errBoom}}, 0, s / 4, "[0s]", errBoom},
		"a refusal is final":       {plan{{takes: s / 4, err: failure.ErrOpen}}, 0, s / 4, "[0s]", failure.ErrOpen},
		"all fail":                 {plan{{takes: 4 * s, err: errDown}, {takes: s / 4, err: uncertain}, {takes: s / 4, err: errBoom}}, 0, 4 * s, "[0s 1s 1.25s]", errDown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var begun attempts
				got, err := failure.Call(t.Context(), c.plan.call(&begun, start), hedging(3))
				if took := time.Since(start); c.err == nil && (got != c.want || err != nil) || took != c.took || !errors.Is(err, c.err) {
					t.Errorf("Call = %d, %v after %v, want %d, %v after %v", got, err, took, c.want, c.err, c.took)
				}
				if text := fmt.Sprint(begun.all()); text != c.begun {
					t.Errorf("attempts began after %s, want %s", text, c.begun)
				}
				if name == "all fail" {
					var e *failure.Error
					if !errors.As(err, &e) || e.Attempts != 3 || !errors.Is(err, uncertain) || !errors.Is(err, errBoom) || transparency.Retryable(err) {
						t.Errorf("Call error = %v, want the errors of three attempts", err)
					}
				} else if c.err != nil && err != c.err {
					t.Errorf("Call error = %v, want %v as it was", err, c.err)
				}
				time.Sleep(time.Hour) // no attempt outlives this
			})
		})
	}
}

// FA-25: what may not be made twice is made once, by its caller.
func TestHedgeOnlyIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := failure.NewHedge(&failure.HedgeOptions{Delay: time.Second, Budget: plenty()})
		calls := 0
		slow := func(context.Context) (int, error) { calls++; time.Sleep(time.Minute); return 7, nil }
		if got, err := failure.Call(t.Context(), slow, h); got != 7 || err != nil || calls != 1 {
			t.Errorf("Call = %d, %v after %d attempts, want one", got, err, calls)
		}
		var begun attempts
		marked := failure.WithIdempotent(t.Context())
		if got, _ := failure.Call(marked, plan{{takes: time.Minute}, {takes: time.Second}}.call(&begun, time.Now()), h); got != 2 {
			t.Errorf("Call WithIdempotent = %d after %v, want the second attempt's", got, begun.all())
		}
		one := failure.NewHedge(&failure.HedgeOptions{Idempotent: true, Attempts: 1, Delay: time.Second})
		if calls, err := try(t.Context(), one, errDown); calls != 1 || err != errDown {
			t.Errorf("one attempt: %d calls, %v", calls, err)
		}
	})
}

// The budget bounds the attempts after the first, and not those.
func TestHedgeBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := failure.NewBudget(&failure.BudgetOptions{PerSecond: -1})
		h := failure.NewHedge(&failure.HedgeOptions{Idempotent: true, Delay: time.Second, Budget: budget})
		var begun attempts
		if got, err := failure.Call(t.Context(), plan{{takes: time.Minute}}.call(&begun, time.Now()), h); got != 1 || err != nil || len(begun.all()) != 1 {
			t.Errorf("Call with an empty budget = %d, %v after %d attempts", got, err, len(begun.all()))
		}
		for range 20 { // with the one above they earn two tokens
			_, _ = try(t.Context(), h)
		}
		hedged := 0
		for range 10 {
			var begun attempts
			_, _ = failure.Call(t.Context(), plan{{takes: time.Minute}, {takes: time.Minute}}.call(&begun, time.Now()), h)
			hedged += len(begun.all()) - 1
		}
		if s := h.Stats(); hedged != 2 || s.Begun != 2 || s.Won != 0 || s.Delay != time.Second {
			t.Errorf("%d hedges, Stats %+v, want two", hedged, s)
		}
	})
}

// The delay is learned: of a hundred calls the slowest few are hedged.
func TestHedgeLearns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := failure.NewHedge(&failure.HedgeOptions{Idempotent: true, Budget: plenty()})
		if d := h.Stats().Delay; d != 0 {
			t.Errorf("a new Hedge has learned %v", d)
		}
		takes := func(d time.Duration) (took time.Duration) {
			start := time.Now()
			var begun attempts
			_, _ = failure.Call(t.Context(), plan{{takes: d}, {takes: 10 * time.Millisecond}}.call(&begun, start), h)
			return time.Since(start)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 1000 {
			takes(time.Duration(rng.IntN(100)+1) * time.Millisecond)
		}
		if s := h.Stats(); s.Delay < 88*time.Millisecond || s.Delay > 100*time.Millisecond || s.Begun > 120 {
			t.Errorf("Stats = %+v, want a delay of about 95ms, and few hedges", s)
		}
		if took := takes(time.Minute); took > 110*time.Millisecond {
			t.Errorf("a call that hangs took %v, want it hedged", took)
		}
		fast := failure.NewHedge(&failure.HedgeOptions{Idempotent: true})
		for range 100 {
			_, _ = try(t.Context(), fast)
		}
		if d := fast.Stats().Delay; d != time.Millisecond {
			t.Errorf("the delay of calls that take no time is %v, want 1ms", d)
		}
	})
}

// The context ends: nobody waits for attempts that do not hear of it.
func TestHedgeContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		start := time.Now()
		var begun attempts
		_, err := failure.Call(ctx, plan{{takes: time.Hour, deaf: true}}.call(&begun, start), hedging(2))
		if took := time.Since(start); took != 3*time.Second || !errors.Is(err, context.Canceled) || !errors.Is(err, transparency.ErrUncertain) || len(begun.all()) != 2 {
			t.Errorf("Call error = %v after %v and %d attempts, want Canceled and ErrUncertain after 3s", err, took, len(begun.all()))
		}
		if calls, err := try(ctx, hedging(2)); calls != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("Call with an ended context = %d calls, %v, want none", calls, err)
		}
		time.Sleep(2 * time.Hour)
	})
}

// FA-25: panics and Goexit of an attempt reach the caller; those of a loser that
// is late reach the log, and its result is handed to Discard.
func TestHedgePanicsAndDiscards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var discarded atomic.Int64
		h := failure.NewHedge(&failure.HedgeOptions{
			Idempotent: true, Delay: time.Second, Budget: plenty(),
			Discard: func(result any) {
				discarded.Add(int64(result.(int)))
				panic("discard")
			},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		func() {
			defer func() {
				if got := recover(); got != errBoom {
					t.Errorf("panic %v, want the very one", got)
				}
			}()
			_, _ = failure.Call(t.Context(), func(context.Context) (int, error) { panic(errBoom) }, h)
		}()
		exited := make(chan bool)
		go func() {
			defer func() { exited <- recover() == nil }()
			_, _ = failure.Call(t.Context(), func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }, h)
			t.Error("Call returned after Goexit")
		}()
		if !<-exited {
			t.Error("Goexit became a panic")
		}
		calls := atomic.Int64{}
		late := func(end func() int) func(context.Context) (int, error) {
			calls.Store(0)
			return func(context.Context) (int, error) {
				if calls.Add(1) == 1 {
					time.Sleep(time.Minute)
					return end(), nil
				}
				return 2, nil
			}
		}
		for _, end := range []func() int{func() int { panic("late") }, func() int { return 40 }} {
			if got, err := failure.Call(t.Context(), late(end), h); got != 2 || err != nil {
				t.Errorf("Call = %d, %v, want the hedge's answer", got, err)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
		}
		if text := log.String(); !strings.Contains(text, "late") || !strings.Contains(text, "discard") || discarded.Load() != 40 {
			t.Errorf("discarded %d, log %q, want 40 and both panics", discarded.Load(), text)
		}
	})
}
