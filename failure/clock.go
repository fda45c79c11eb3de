package failure

import "time"

// instant is a moment on both clocks. The monotonic clock stands still while
// the machine is suspended and the wall clock can be set, so a time is over
// when either says so: a clock set back changes nothing, and one set forward
// is like a suspend, after which a breaker is asked again early.
type instant struct {
	at   time.Time // compared by its monotonic reading
	wall time.Time // without one
}

func (i instant) add(d time.Duration) instant { return instant{i.at.Add(d), i.wall.Add(d)} }

func (i instant) reached(end instant) bool {
	return !i.at.Before(end.at) || !i.wall.Before(end.wall)
}

// since returns the time from start to i, by the clock that says more, and at
// least zero.
func (i instant) since(start instant) time.Duration {
	return max(i.at.Sub(start.at), i.wall.Sub(start.wall), 0)
}

// until returns the time from i to end, by the clock that says less, and at
// least zero.
func (i instant) until(end instant) time.Duration {
	return max(min(end.at.Sub(i.at), end.wall.Sub(i.wall)), 0)
}

// now is the one place where a clock can be replaced.
func (b *LocalBreaker) now() instant {
	t := time.Now()
	if b.wall != nil {
		return instant{t, b.wall().Round(0)}
	}
	return instant{t, t.Round(0)}
}
