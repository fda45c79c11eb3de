package failure_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// model is a breaker as its documentation has it, in the plainest way: the
// rule is failures in a row, and the open time is up to 15 % shorter than said.
type model struct {
	failures, probes    int
	openFor, maxOpenFor time.Duration
	probeTimeout        time.Duration
	state               failure.State
	row, good, reopened int
	opened              time.Time
	open                time.Duration
	epoch               int
	under               []*modelPermit // probes
}

type modelPermit struct {
	permit failure.Permit
	epoch  int
	due    time.Time
	ended  bool
}

func (m *model) enter(s failure.State) {
	m.state, m.row, m.good, m.under = s, 0, 0, nil
	m.epoch++
}

func (m *model) trip() {
	m.enter(failure.StateOpen)
	m.opened, m.open = time.Now(), m.openFor
	for range m.reopened {
		m.open = min(2*m.open, m.maxOpenFor)
	}
}

// settle does what time has made due, and reports whether it is certain that
// the open time has or has not passed.
func (m *model) settle() (certain bool) {
	if m.state == failure.StateOpen {
		switch since := time.Since(m.opened); {
		case since >= m.open:
			m.enter(failure.StateHalfOpen)
		case since > m.open*84/100:
			return false
		}
	}
	m.under = slices.DeleteFunc(m.under, func(p *modelPermit) bool {
		overdue := !time.Now().Before(p.due)
		p.ended = p.ended || overdue
		return overdue
	})
	return true
}

func (m *model) end(p *modelPermit, err error) {
	if p.ended || p.epoch != m.epoch || m.state == failure.StateDisabled {
		return
	}
	p.ended = true
	m.under = slices.DeleteFunc(m.under, func(q *modelPermit) bool { return q == p })
	switch {
	case errors.Is(err, transparency.ErrRejected):
	case err != nil && m.state == failure.StateHalfOpen:
		m.reopened++
		m.trip()
	case err != nil:
		if m.row++; m.row == m.failures {
			m.reopened = 0
			m.trip()
		}
	case m.state == failure.StateHalfOpen:
		if m.good++; m.good == m.probes {
			m.enter(failure.StateClosed)
		}
	default:
		m.row = 0
	}
}

// Any course of calls, times and switches leaves the breaker where the model
// is.
func TestModel(t *testing.T) { synctest.Test(t, checkModel) }

func checkModel(t *testing.T) {
	rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) { // a *testing.T has a deadline, in real time
		m := &model{
			failures: rapid.IntRange(1, 4).Draw(t, "failures"), probes: rapid.IntRange(1, 3).Draw(t, "probes"),
			openFor: time.Second, maxOpenFor: 3 * time.Second, probeTimeout: 2 * time.Second,
		}
		b := failure.NewLocalBreaker(&failure.BreakerOptions{
			Failures: m.failures, Ratio: -1, Probes: m.probes,
			OpenFor: m.openFor, MaxOpenFor: m.maxOpenFor, ProbeTimeout: m.probeTimeout,
		})
		var out []*modelPermit
		ctx := context.Background()
		t.Repeat(map[string]func(*rapid.T){
			"allow": func(t *rapid.T) {
				if !m.settle() {
					t.Skip("the open time may or may not have passed")
				}
				p, err := b.Allow(ctx)
				want := m.state == failure.StateClosed || m.state == failure.StateDisabled ||
					m.state == failure.StateHalfOpen && len(m.under)+m.good < m.probes
				if (err == nil) != want {
					t.Fatalf("Allow error = %v in state %v with %d probes and %d good, want it let through: %v", err, m.state, len(m.under), m.good, want)
				}
				if err != nil {
					return
				}
				mp := &modelPermit{permit: p, epoch: m.epoch}
				if m.state == failure.StateHalfOpen {
					mp.due = time.Now().Add(m.probeTimeout)
					m.under = append(m.under, mp)
				}
				out = append(out, mp)
			},
			"done": func(t *rapid.T) {
				if len(out) == 0 || !m.settle() {
					t.Skip("nothing to end")
				}
				b.State() // as an Allow would, it ends what is overdue
				mp := rapid.SampledFrom(out).Draw(t, "permit")
				err := rapid.SampledFrom([]error{nil, errBoom, errBoom, transparency.ErrRejected}).Draw(t, "err")
				if mp.probeOverdue() {
					t.Skip("what is overdue is ended by the next Allow")
				}
				mp.permit.Done(err)
				m.end(mp, err)
			},
			"sleep": func(t *rapid.T) {
				time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, 500 * time.Millisecond, 1100 * time.Millisecond, 4 * time.Second}).Draw(t, "time"))
			},
			"switch": func(t *rapid.T) {
				switch rapid.IntRange(0, 8).Draw(t, "switch") {
				case 0:
					b.ForceOpen()
					m.enter(failure.StateForced)
				case 1:
					b.Disable()
					m.enter(failure.StateDisabled)
				default:
					b.Reset()
					m.enter(failure.StateClosed)
				}
				m.reopened = 0
			},
			"": func(t *rapid.T) {
				if !m.settle() {
					return
				}
				if got := b.State(); got != m.state {
					t.Fatalf("State = %v, want %v", got, m.state)
				}
			},
		})
	})
}

func (p *modelPermit) probeOverdue() bool {
	return !p.due.IsZero() && !time.Now().Before(p.due)
}
