package relocation

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// watchStates collects the states that a Conn comes to.
func watchStates(t *testing.T, c *Conn) (states func() []State) {
	var seen []Change
	changes := c.Changes(t.Context())
	done := make(chan struct{})
	mu := make(chan struct{}, 1)
	go func() {
		defer close(done)
		for change := range changes {
			mu <- struct{}{}
			seen = append(seen, change)
			<-mu
		}
	}()
	return func() (states []State) {
		synctest.Wait()
		mu <- struct{}{}
		defer func() { <-mu }()
		for i, change := range seen {
			if i > 0 && (change.From != seen[i-1].To || change.Seq != seen[i-1].Seq+1) {
				t.Errorf("the change %+v follows %+v", change, seen[i-1])
			}
			states = append(states, change.To)
		}
		return states
	}
}

// RL-54: whoever watches late, slowly or not at all delays nothing, sees the
// changes in order, and where some are missing.
func TestConnChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		c := f.dial(nil, "a", "b")
		slow := c.Changes(t.Context())
		states := watchStates(t, c)
		for range 100 {
			from := c.Addr()
			f.peer(from).goAway(goAway{Deadline: time.Minute, Locations: []string{"a", "b"}})
			fakeWait(t, "a move", func() bool { return c.Addr() != from && c.State() == Connected })
			time.Sleep(time.Hour)
		}
		if got := states(); !slices.Equal(got, slices.Repeat([]State{Migrating, Reconnecting, Connected}, 100)) {
			t.Errorf("states %v", got)
		}
		c.Close(t.Context())
		var seen []Change
		for change := range slow {
			seen = append(seen, change)
		}
		if len(seen) != kept || seen[0].Seq != 302-kept+1 || seen[kept-1].To != Closed || c.State() != Closed {
			t.Errorf("the slow reader saw %d changes, from %+v to %+v", len(seen), seen[0], seen[len(seen)-1])
		}
		for range c.Changes(t.Context()) {
			t.Error("a change after the end")
		}
	})
}

// RL-55: a thousand relocations leave nothing behind.
func TestConnThousandRelocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		c := f.dial(nil, "a", "b")
		heap := func() int {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		round := func(i int) {
			sendAll(t, c, fmt.Sprint(i))
			if i%2 == 0 {
				f.net.Cut(c.Addr())
			} else if err := c.Migrate(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			flush(t, c)
			f.with(func() { f.sessions["1"].got, f.openings = nil, nil })
			time.Sleep(time.Minute)
		}
		for i := range 100 {
			round(i)
		}
		synctest.Wait()
		goroutines, bytes := runtime.NumGoroutine(), heap()
		for i := range 1000 {
			round(i)
		}
		synctest.Wait()
		if n := runtime.NumGoroutine(); n > goroutines+3 {
			t.Errorf("%d goroutines, and %d before", n, goroutines)
		}
		if n := heap(); n > bytes+64<<10 {
			t.Errorf("%d bytes, and %d before", n, bytes)
		}
	})
}
