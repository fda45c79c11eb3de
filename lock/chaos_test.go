package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/lock"
)

// How long chaos lasts, as a duration, and which faults there are: without
// them, a few seconds of always the same. What is scheduled when differs all
// the same.
const (
	envChaos     = "TRANSPARENCY_CHAOS"
	envChaosSeed = "TRANSPARENCY_CHAOS_SEED"
)

// chaos returns the time to spend, and the seed.
func chaos(t *testing.T) (time.Duration, uint64) {
	t.Helper()
	d, seed := 5*time.Second, uint64(1)
	if testing.Short() {
		d = 2 * time.Second
	}
	if s := os.Getenv(envChaos); s != "" {
		var err error
		if d, err = time.ParseDuration(s); err != nil {
			t.Fatalf("%s: %v", envChaos, err)
		}
		seed = rand.Uint64()
	}
	if s := os.Getenv(envChaosSeed); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", envChaosSeed, err)
		}
	}
	t.Logf("%v of chaos, %s=%d", d, envChaosSeed, seed)
	return d, seed
}

// An event is what a holder has seen, between two moments of the wall clock,
// which the processes of one machine share.
type event struct {
	Kind      kind
	Key       string
	Fence     uint64
	Call, Ret int64
	Text      string `json:",omitempty"` // of bad; of the writes, what was written
}

type kind string

const (
	begins  kind = "begins"  // a lease is granted
	holds   kind = "holds"   // the lease says that it is held
	ends    kind = "ends"    // it is unlocked, lost, or its holder was killed
	accepts kind = "accepts" // a guarded resource has written
	refuses kind = "refuses" // it has refused to
	unsure  kind = "unsure"  // it may have written
	bad     kind = "bad"     // something that must not be
)

// forever is the end of what may happen at any time later.
const forever = math.MaxInt64

// A holder takes a lock again and again, and does what processes do with it.
type holder struct {
	rng   *rand.Rand
	pace  time.Duration                     // how long it holds, and waits, in the mean
	mutex func() (key string, m lock.Mutex) // of this moment
	note  func(event)
	write func(ctx context.Context, key, text string, fence uint64) error // to a guarded resource; may be nil

	written int
}

func (h *holder) upTo(d time.Duration) time.Duration {
	return time.Duration(h.rng.Int64N(int64(d)) + 1)
}

func (h *holder) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func now() int64 { return time.Now().UnixNano() }

func (h *holder) run(ctx context.Context) {
	for ctx.Err() == nil {
		h.turn(ctx)
		h.sleep(ctx, h.upTo(h.pace/8))
	}
}

func (h *holder) turn(ctx context.Context) {
	key, m := h.mutex()
	ask := m.Lock
	if h.rng.IntN(4) == 0 {
		ask = m.TryLock
	}
	wait, cancel := context.WithTimeout(ctx, h.upTo(3*h.pace))
	e := event{Kind: begins, Key: key, Call: now()}
	lease, err := ask(wait)
	e.Ret = now()
	cancel()
	if err != nil {
		h.expect(err, lock.ErrHeld, context.DeadlineExceeded, context.Canceled,
			transparency.ErrUnavailable, transparency.ErrUncertain)
		return
	}
	e.Fence = lease.Fence()
	h.note(e)

	steps := h.rng.IntN(10)
	if h.rng.IntN(6) == 0 {
		steps += 30
	}
	for range steps {
		h.sleep(ctx, h.upTo(h.pace/10))
		e := event{Kind: holds, Key: key, Fence: lease.Fence(), Call: now()}
		err := lease.Err()
		if e.Ret = now(); err == nil {
			h.note(e)
		}
		h.use(ctx, key, lease.Fence()) // lost or not: that is for the resource to see
	}

	unlock, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if h.rng.IntN(5) == 0 {
		cancel()
	}
	e = event{Kind: ends, Key: key, Fence: lease.Fence(), Call: now()}
	err = lease.Unlock(unlock)
	switch e.Ret = now(); {
	case err == nil:
	case errors.Is(err, lock.ErrLost): // at this moment or later
		e.Call, e.Ret = lease.ValidUntil().UnixNano(), forever
	default:
		e.Ret = forever
		h.expect(err, transparency.ErrUnavailable, transparency.ErrUncertain)
	}
	h.note(e)
}

// use writes to the guarded resource.
func (h *holder) use(ctx context.Context, key string, fence uint64) {
	if h.write == nil || h.rng.IntN(2) == 0 {
		return
	}
	h.written++
	e := event{Kind: accepts, Key: key, Fence: fence, Call: now(), Text: fmt.Sprintf("%d %d %d", fence, os.Getpid(), h.written)}
	err := h.write(ctx, key, e.Text, fence)
	switch e.Ret = now(); {
	case err == nil:
	case errors.Is(err, lock.ErrStaleFence):
		e.Kind = refuses
	default:
		e.Kind, e.Ret = unsure, forever
		h.expect(err, transparency.ErrUnavailable, transparency.ErrUncertain, context.Canceled, context.DeadlineExceeded)
	}
	h.note(e)
}

func (h *holder) expect(err error, allowed ...error) {
	if !slices.ContainsFunc(allowed, func(a error) bool { return errors.Is(err, a) }) {
		h.note(event{Kind: bad, Text: err.Error()})
	}
}

// A chronicle is what all holders have seen, key by key.
type chronicle struct {
	mu     sync.Mutex
	events map[string][]event
	open   map[int]event // what each client has last seen of the lease that it holds
	counts map[kind]int
	bad    []string
}

func newChronicle() *chronicle {
	return &chronicle{events: map[string][]event{}, open: map[int]event{}, counts: map[kind]int{}}
}

func (c *chronicle) add(client int, e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[e.Kind]++
	switch e.Kind {
	case bad:
		c.bad = append(c.bad, e.Text)
		return
	case begins, holds:
		c.open[client] = e
	case ends:
		delete(c.open, client)
	}
	c.events[e.Key] = append(c.events[e.Key], e)
}

// crashed ends the lease of a client that was killed. It held the lease when
// it last said so; nobody knows for how long after that.
func (c *chronicle) crashed(client int) {
	c.mu.Lock()
	e, ok := c.open[client]
	c.mu.Unlock()
	if ok {
		e.Kind, e.Call, e.Ret = ends, e.Ret, forever
		c.add(client, e)
	}
}

// check has porcupine look at the histories of all keys. wrote tells whether a
// write of unknown outcome was made.
func (c *chronicle) check(t *testing.T, models map[string]porcupine.Model, wrote func(key, text string) bool) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range c.bad {
		t.Errorf("a holder was told: %s", text)
	}
	for key, events := range c.events {
		for name, model := range models {
			if why := judge(model, events, wrote); why != "" {
				t.Errorf("%s of %s: %s", name, key, why)
			}
		}
	}
}

// holderModel is what a lock is: one holder at a time, each with a greater
// fence than all before, who holds it from the beginning to the end.
var holderModel = porcupine.Model{
	Init: func() any { return [2]uint64{} }, // the holder's fence, the greatest fence
	Step: func(state, input, _ any) (bool, any) {
		s, e := state.([2]uint64), input.(event)
		switch e.Kind {
		case begins:
			return s[0] == 0 && e.Fence > s[1], [2]uint64{e.Fence, e.Fence}
		case holds:
			return s[0] == e.Fence, s
		case ends:
			return s[0] == e.Fence, [2]uint64{0, s[1]}
		}
		return true, s
	},
}

// guardModel is what a guard is: what it accepts never goes back, and it
// refuses nothing else.
var guardModel = porcupine.Model{
	Init: func() any { return uint64(0) }, // the greatest fence
	Step: func(state, input, _ any) (bool, any) {
		s, e := state.(uint64), input.(event)
		switch e.Kind {
		case accepts:
			return e.Fence >= s, e.Fence
		case refuses:
			return e.Fence < s, s
		}
		return true, s
	},
}

var (
	onOneNode = map[string]porcupine.Model{"holders": holderModel, "guard": guardModel}
	onSeveral = map[string]porcupine.Model{"guard": guardModel}
)

// judge returns what is wrong with a history, or nothing.
func judge(model porcupine.Model, events []event, wrote func(key, text string) bool) string {
	var history []porcupine.Operation
	for _, e := range events {
		if e.Kind == unsure && wrote != nil && wrote(e.Key, e.Text) {
			e.Kind = accepts
		}
		_, guards := model.Init().(uint64)
		if (e.Kind == accepts || e.Kind == refuses) == guards && e.Kind != unsure {
			history = append(history, porcupine.Operation{Input: e, Call: e.Call, Return: e.Ret})
		}
	}
	switch result := porcupine.CheckOperationsTimeout(model, history, 30*time.Second); result {
	case porcupine.Ok:
		return ""
	case porcupine.Unknown:
		return fmt.Sprintf("%d steps take too long to check", len(history))
	default:
		return fmt.Sprintf("not linearizable:\n%s", tell(events))
	}
}

// tell lists events by time, which counts from the first, in ms.
func tell(events []event) string {
	events = slices.Clone(events)
	slices.SortFunc(events, func(a, b event) int { return int(min(max(a.Call-b.Call, -1), 1)) })
	var text []byte
	for _, e := range events {
		ret := "later"
		if e.Ret != forever {
			ret = fmt.Sprintf("%.3f", float64(e.Ret-events[0].Call)/1e6)
		}
		text = fmt.Appendf(text, "%10.3f to %10s  %d %s\n", float64(e.Call-events[0].Call)/1e6, ret, e.Fence, e.Kind)
	}
	return string(text)
}

// The models refuse what they are there for.
func TestChaosModels(t *testing.T) {
	at := func(k kind, fence uint64, call, ret int64) event {
		return event{Kind: k, Fence: fence, Call: call, Ret: ret}
	}
	for name, c := range map[string]struct {
		model  porcupine.Model
		events []event
		good   bool
	}{
		"in order": {holderModel, []event{
			at(begins, 1, 0, 1), at(holds, 1, 2, 3), at(ends, 1, 4, 5), at(begins, 2, 5, 6), at(ends, 2, 7, forever), at(begins, 3, 9, 10),
		}, true},
		"two holders":       {holderModel, []event{at(begins, 1, 0, 1), at(begins, 2, 2, 3), at(ends, 1, 4, 5)}, false},
		"held after a new":  {holderModel, []event{at(begins, 1, 0, 1), at(begins, 2, 2, 3), at(holds, 1, 4, 5), at(ends, 1, 6, forever)}, false},
		"held after an end": {holderModel, []event{at(begins, 1, 0, 1), at(ends, 1, 2, 3), at(holds, 1, 4, 5)}, false},
		"an old fence":      {holderModel, []event{at(begins, 2, 0, 1), at(ends, 2, 2, 3), at(begins, 1, 4, 5)}, false},
		"the same fence":    {holderModel, []event{at(begins, 2, 0, 1), at(ends, 2, 2, 3), at(begins, 2, 4, 5)}, false},
		"lost too late":     {holderModel, []event{at(begins, 1, 0, 1), at(begins, 2, 2, 3), at(ends, 1, 4, forever)}, false},
		"never begun":       {holderModel, []event{at(ends, 1, 0, 1)}, false},
		"guarded": {guardModel, []event{
			at(accepts, 1, 0, 1), at(accepts, 2, 2, 5), at(refuses, 1, 3, 4), at(accepts, 2, 6, 7),
		}, true},
		"went back":        {guardModel, []event{at(accepts, 2, 0, 1), at(accepts, 1, 2, 3)}, false},
		"refused the best": {guardModel, []event{at(accepts, 1, 0, 1), at(refuses, 2, 2, 3)}, false},
		"refused too soon": {guardModel, []event{at(refuses, 1, 0, 1), at(accepts, 2, 2, 3)}, false},
	} {
		if why := judge(c.model, c.events, nil); (why == "") != c.good {
			t.Errorf("%s: the model says %q", name, why)
		}
	}
	late := []event{at(accepts, 2, 0, 1), at(unsure, 3, 2, forever), at(refuses, 2, 4, 5)}
	if judge(guardModel, late, nil) == "" || judge(guardModel, late, func(string, string) bool { return true }) != "" {
		t.Errorf("a write of unknown outcome counts when it was made, and else not")
	}
}
