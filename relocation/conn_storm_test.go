package relocation

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// stormClients is how many clients there are: enough for the shape, which does
// not depend on it.
const stormClients = 2000

func storm(t *testing.T, f *fakeFleet, addrs ...string) []*Conn {
	t.Helper()
	conns := make([]*Conn, stormClients)
	for i := range conns {
		conns[i] = f.dial(nil, addrs...)
	}
	return conns
}

// RL-16: when a server dies its clients do not come back at once, neither to
// the first address nor to the next.
func TestConnStormIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b", "c")
		for _, c := range storm(t, f, "a") {
			c.addrs = Addresses([]string{"a", "b", "c"})
		}
		f.with(func() {
			f.openings = nil
			f.opening = func(s *fakePeer, o opening) *reject {
				if s.addr != "c" {
					return &reject{Code: rejectBusy}
				}
				return nil
			}
		})
		start := time.Now()
		f.net.Cut("a")
		time.Sleep(20 * time.Second)
		for _, addr := range []string{"a", "b", "c"} {
			var buckets [200]int
			for _, o := range f.openingsAt(addr) {
				buckets[o.at.Sub(start)/(100*time.Millisecond)]++
			}
			for i, n := range buckets {
				if n > stormClients/3 {
					t.Errorf("%d of %d clients came to %q within 100ms, %v after the cut", n, stormClients, addr, time.Duration(i)*100*time.Millisecond)
				}
			}
			if n := buckets[0]; n < stormClients/10 {
				t.Errorf("%d clients came to %q in the first 100ms, want a sixth", n, addr)
			}
		}
	})
}

// RL-16: clients that are sent away at once do not come to the target at once.
func TestConnFinalGoAwayIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		var peers []*fakePeer
		f.attached = func(s *fakePeer) {
			f.with(func() { peers = append(peers, s) })
		}
		storm(t, f, "a")
		synctest.Wait()
		start := time.Now()
		f.with(func() {
			for _, s := range peers {
				s.goAway(goAway{Final: true, Deadline: time.Minute, Locations: []string{"b"}})
			}
		})
		time.Sleep(time.Second)
		var buckets [10]int
		for _, o := range f.openingsAt("b") {
			buckets[o.at.Sub(start)/(100*time.Millisecond)]++
		}
		if n := stormClients; buckets[0] < n*4/10 || buckets[1] < n*4/10 || buckets[0]+buckets[1] != n {
			t.Errorf("%v came each 100ms, want half and half in the first two", buckets)
		}
	})
}

// RL-17: clients that are asked to leave within a time do it evenly.
func TestConnDeparturesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		var departures []time.Time
		var peers []*fakePeer
		f.attached = func(s *fakePeer) {
			if s.addr == "a" {
				f.with(func() { peers = append(peers, s) })
			}
		}
		f.frame = func(s *fakePeer, k kind, _ []byte) bool {
			if k == kindBye {
				departures = append(departures, time.Now())
			}
			return false
		}
		conns := storm(t, f, "a")
		start := time.Now()
		synctest.Wait()
		f.mu.Lock()
		for _, s := range peers {
			s.goAway(goAway{Deadline: time.Minute, Spread: 30 * time.Second, Locations: []string{"b"}})
		}
		f.mu.Unlock()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		var buckets [30]int
		for _, at := range departures {
			buckets[min(at.Sub(start)/time.Second, 29)]++
		}
		mean := float64(stormClients) / 30
		for i, n := range buckets {
			if math.Abs(float64(n)-mean) > 6*math.Sqrt(mean) {
				t.Errorf("%d clients left in second %d, want about %.0f", n, i, mean)
			}
		}
		for _, c := range conns {
			if c.Addr() != "b" || c.State() != Connected {
				t.Fatalf("a client is %v at %q, want CONNECTED at b", c.State(), c.Addr())
			}
		}
	})
}
