package main

import (
	"math"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	nothing := func() comparison { return comparison{ours: fake(1)} }
	cycle := nothing()
	cycle.name, cycle.versus, cycle.redis, cycle.peer = "lock/cycle", "redislock Obtain+Release", true, fake(1)
	cycle.target = target{ratio: 1.3, trips: 2}
	memory := nothing()
	memory.name, memory.target = "lock/memory", target{time: time.Microsecond}
	load := cycle
	load.name, load.versus, load.target = "session/load", "HMGET", target{}
	r := result{
		ours: estimate{92_340, 92_000, 92_700}, peer: estimate{76_000, 75_000, 77_000},
		ratio:     estimate{1.214, 1.208, 1.221},
		oursCount: counts{trips: 2, sent: 3, run: 11, allocs: 41},
		peerCount: counts{trips: 2, sent: 2, run: 5.5, allocs: 33},
	}
	breaker := nothing()
	breaker.name, breaker.versus, breaker.redis, breaker.peer = "failure/redis-parallel", "a distributed one", true, fake(1)
	breaker.target = target{ratio: 0.005, sent: none}
	tiny := result{
		ours: estimate{218, 210, 220}, peer: estimate{91_500, 91_000, 92_000}, ratio: estimate{0.00231, 0.0021, 0.0024},
		oursCount: counts{allocs: 2}, peerCount: counts{trips: 4, sent: 4, run: 4, allocs: 49},
	}
	slow := r
	slow.ratio = estimate{1.4, 1.3, 1.5}
	for _, tt := range []struct{ got, want string }{
		{header(), "name                     |     ours |     peer | ratio ± error   | target                   | verdict | trips     | sent      | run         | allocs    | the peer does"},
		{report(cycle, r), "lock/cycle               |   92.3µs |   76.0µs | 1.21 ± 0.01     | ≤1.30, trips ≤2          | ok      | 2/2       | 3/2       | 11/5.50     | 41/33     | redislock Obtain+Release"},
		{report(cycle, slow), "lock/cycle               |   92.3µs |   76.0µs | 1.40 ± 0.10     | ≤1.30, trips ≤2          | MISSED  | 2/2       | 3/2       | 11/5.50     | 41/33     | redislock Obtain+Release"},
		{report(load, r), "session/load             |   92.3µs |   76.0µs | 1.21 ± 0.01     | -                        | info    | 2/2       | 3/2       | 11/5.50     | 41/33     | HMGET"},
		{report(memory, result{ours: estimate{812, 806, 815}, oursCount: counts{allocs: 9}}),
			"lock/memory              |    812ns |        - | ± 6.00ns        | ≤1.00µs                  | ok      | -         | -         | -           | 9         | -"},
		{report(breaker, tiny), "failure/redis-parallel   |    218ns |   91.5µs | 0.0023 ± 0.0002 | ≤0.0050, sent 0          | ok      | 0/4       | 0/4       | 0/4         | 2/49      | a distributed one"},
	} {
		if tt.got != tt.want {
			t.Errorf("got\n%s\nwant\n%s", tt.got, tt.want)
		}
	}
}

func TestDuration(t *testing.T) {
	for ns, want := range map[float64]string{
		0.5: "0.50ns", 9.99: "9.99ns", 9.996: "10.0ns", 99.96: "100ns", 812: "812ns", 999.4: "999ns", 999.6: "1.00µs",
		92_340: "92.3µs", 999_499: "999µs", 999_501: "1.00ms", 1_234_567: "1.23ms", 2e9: "2000ms",
	} {
		if got := duration(ns); got != want {
			t.Errorf("duration(%v) = %s, want %s", ns, got, want)
		}
	}
}

func TestUnits(t *testing.T) {
	for _, tt := range []struct {
		unit unit
		v    float64
		want string
	}{
		{inTime, 1500, "1.50µs"}, {inTimes, 2.018, "2.02"}, {inTimes, 57, "57.00"},
		{inNumber, 6, "6"}, {inNumber, 1.04, "1.04"}, {inNumber, 0.0021, "0.0021"}, {inNumber, math.NaN(), "-"},
		{inBytes, 14_450, "14.1KiB"},
	} {
		if got := tt.unit.format(tt.v); got != tt.want {
			t.Errorf("unit %d: format(%v) = %q, want %q", tt.unit, tt.v, got, tt.want)
		}
	}
}

func TestTargetText(t *testing.T) {
	for want, target := range map[string]target{
		"-":                   {},
		"≤0.60":               {ratio: 0.6},
		"≤0.10":               {ratio: 0.1},
		"≤0.0050":             {ratio: 0.005},
		"≤100ns, allocs 0":    {time: 100, allocs: none},
		"≤1.60, allocs ≤2":    {ratio: 1.6, allocs: 2},
		"trips 0, sent ≤2":    {trips: none, sent: 2},
		"trips ≤1.50, sent 0": {trips: 1.5, sent: none},
	} {
		if got := target.text(inTime); got != want {
			t.Errorf("(%+v).text(inTime) = %q, want %q", target, got, want)
		}
	}
	if got, want := (target{most: 1.1, ratio: 0.5}).text(inTimes), "≤0.50, ≤1.10"; got != want {
		t.Errorf("text(inTimes) = %q, want %q", got, want)
	}
}

func TestTargetMissed(t *testing.T) {
	r := result{ours: estimate{median: 1000}, ratio: estimate{median: 1.3}, oursCount: counts{trips: 2, sent: 3, allocs: 1}}
	for _, tt := range []struct {
		target target
		want   bool
	}{
		{target{}, false},
		{target{ratio: 1.3, time: 1000, trips: 2, sent: 3}, false},
		{target{ratio: 1.29}, true},
		{target{time: 999}, true},
		{target{most: 1000}, false},
		{target{most: 999}, true},
		{target{trips: 1.9}, true},
		{target{sent: 2}, true},
		{target{ratio: 2, sent: 2}, true},
		{target{allocs: 1}, false},
		{target{allocs: 0.9}, true},
		{target{trips: none}, true},
		{target{sent: none}, true},
		{target{allocs: none}, true},
	} {
		if got := tt.target.missed(r); got != tt.want {
			t.Errorf("(%v).missed = %v, want %v", tt.target, got, tt.want)
		}
	}
	if (target{trips: none, sent: none, allocs: none}).missed(result{}) {
		t.Error("missed where there must be none and is none = true, want false")
	}
	r.ratio.median = math.NaN()
	if !(target{ratio: 2}).missed(r) {
		t.Error("missed for a ratio that is not a number = false, want true")
	}
}
