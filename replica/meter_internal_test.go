package replica

import (
	"testing"
	"time"
)

// A slow answer counts at once, and quick ones wear it down over seconds.
func TestMeter(t *testing.T) {
	var m meter
	if got := m.read(0); got != 0 {
		t.Errorf("an unused meter reads %v", got)
	}
	m.observe(100*time.Millisecond, time.Second)
	m.observe(time.Millisecond, time.Second)
	if got := time.Duration(m.read(time.Second)); got < 90*time.Millisecond {
		t.Errorf("after 100ms and 1ms at once it reads %v, want about 100ms", got)
	}
	for i := range 20 {
		m.observe(time.Millisecond, time.Duration(i+2)*time.Second)
	}
	if got := time.Duration(m.read(21 * time.Second)); got < time.Millisecond/2 || got > 5*time.Millisecond {
		t.Errorf("after 20s of 1ms it reads %v, want nearly that", got)
	}
	m.punish(time.Millisecond, 21*time.Second)
	if got := time.Duration(m.read(21 * time.Second)); got < 5*time.Millisecond {
		t.Errorf("after a failure it reads %v, want ten times as much", got)
	}
	for range 10 {
		m.punish(0, 21*time.Second)
	}
	if got := time.Duration(m.read(21 * time.Second)); got != worst {
		t.Errorf("after many failures it reads %v, want %v", got, worst)
	}
}
