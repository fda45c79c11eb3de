package relocation

import "time"

// instant is a moment on both clocks. The monotonic clock, by which timers go,
// stands still while the machine sleeps.
type instant struct {
	at   time.Time // compared by its monotonic reading
	wall time.Time // without one
}

// asleep is by how much the clocks must differ for the machine to have slept.
const asleep = 2 * time.Second

func (i instant) zero() bool { return i.at.IsZero() }

func (i instant) sub(start instant) time.Duration { return i.at.Sub(start.at) }

// slept reports whether the machine slept since start, or the wall clock was
// set forward, which looks the same.
func (i instant) slept(start instant) bool {
	return i.wall.Sub(start.wall)-i.at.Sub(start.at) >= asleep
}

// now is the one place where a clock can be replaced.
func (c *Conn) now() instant {
	t := time.Now()
	if c.wall != nil {
		return instant{t, c.wall().Round(0)}
	}
	return instant{t, t.Round(0)}
}
