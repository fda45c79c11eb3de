package failure

import "time"

// A tally counts the calls that ended within the last window, and the slow
// ones among them, in tenths of it; gobreaker counts no such thing. The zero
// value has counted none.
type tally struct {
	tenths      [10]lap
	at          int     // the newest tenth
	began       instant // when it did
	calls, slow uint64  // in all tenths
}

type lap struct{ calls, slow uint64 }

// add counts a call that ends now. A suspend ages what was counted before.
func (t *tally) add(now instant, window time.Duration, slow bool) {
	tenth := window / time.Duration(len(t.tenths))
	if passed := now.since(t.began) / tenth; passed >= time.Duration(len(t.tenths)) {
		*t = tally{began: now}
	} else {
		for range passed {
			t.at = (t.at + 1) % len(t.tenths)
			t.calls -= t.tenths[t.at].calls
			t.slow -= t.tenths[t.at].slow
			t.tenths[t.at] = lap{}
		}
		t.began = t.began.add(passed * tenth)
	}
	t.calls++
	t.tenths[t.at].calls++
	if slow {
		t.slow++
		t.tenths[t.at].slow++
	}
}

// full applies the rule of slow calls.
func (t *tally) full(o *BreakerOptions) bool {
	return t.calls >= uint64(o.MinCalls) && float64(t.slow) >= o.SlowRatio*float64(t.calls) //nolint:gosec // checked
}
