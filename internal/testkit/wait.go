package testkit

import "time"

// Limit is how long to wait for what should come soon. In fake time it costs nothing.
const Limit = 20 * time.Second

// TB is what the functions of this package need of a [testing.TB].
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Eventually polls until cond holds, and ends the test when it does not within d.
func Eventually(tb TB, what string, d time.Duration, cond func() bool) {
	tb.Helper()
	for end := time.Now().Add(d); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("%s: not within %v", what, d)
		}
	}
}

// Receive returns what comes from ch first, the zero value if that is its end, and ends the test
// when nothing comes within [Limit].
func Receive[T any](tb TB, what string, ch <-chan T) T {
	tb.Helper()
	timer := time.NewTimer(Limit)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		tb.Fatalf("%s: not within %v", what, Limit)
		panic("unreachable")
	}
}
