package failure_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// model is a breaker as its documentation has it, in the plainest way. Its
// window is longer than any test, and its open time up to 15 % shorter than
// said.
type model struct {
	opts     failure.BreakerOptions
	state    failure.State
	reopened int
	opened   time.Time
	open     time.Duration
	epoch    int
	under    []*modelPermit // probes

	row, good    int // failures, and successes in half-open
	calls, fails int
	timed, slow  int

	changes []failure.Change // since last looked at
	seq     uint64
	stats   failure.Stats
}

type modelPermit struct {
	permit failure.Permit
	epoch  int
	began  time.Time
	due    time.Time // of a probe
	ended  bool
}

func newModel(t *rapid.T) *model {
	opts := failure.BreakerOptions{
		Failures: rapid.SampledFrom([]int{-1, 1, 2, 3, 4}).Draw(t, "failures"),
		Ratio:    rapid.SampledFrom([]float64{-1, 0.5, 1}).Draw(t, "ratio"),
		MinCalls: rapid.IntRange(1, 5).Draw(t, "least calls"),
		Window:   1000 * time.Hour,
		Slow:     rapid.SampledFrom([]time.Duration{-1, time.Second}).Draw(t, "slow"),
		Probes:   rapid.IntRange(1, 3).Draw(t, "probes"),
		OpenFor:  time.Second, MaxOpenFor: 3 * time.Second, ProbeTimeout: 2 * time.Second,
	}
	if opts.Failures < 0 && opts.Ratio < 0 && opts.Slow < 0 {
		opts.Failures = 1
	}
	return &model{opts: opts}
}

func (m *model) enter(s failure.State) {
	if s != m.state {
		m.seq++
		m.changes = append(m.changes, failure.Change{Seq: m.seq, From: m.state, To: s, At: time.Now()})
		if s == failure.StateOpen {
			m.stats.Opened++
		}
	}
	m.state, m.under = s, nil
	m.row, m.good, m.calls, m.fails, m.timed, m.slow = 0, 0, 0, 0, 0, 0
	m.epoch++
}

func (m *model) trip(reopened int) {
	m.enter(failure.StateOpen)
	m.opened, m.open, m.reopened = time.Now(), m.opts.OpenFor, reopened
	for range reopened {
		m.open = min(2*m.open, m.opts.MaxOpenFor)
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
	for _, p := range slices.Clone(m.under) {
		if !time.Now().Before(p.due) {
			m.end(p, transparency.ErrRejected)
		}
	}
	return true
}

func (m *model) allow() *modelPermit {
	p := &modelPermit{epoch: m.epoch, began: time.Now()}
	switch m.state {
	case failure.StateClosed, failure.StateDisabled:
		return p
	case failure.StateHalfOpen:
		if len(m.under)+m.good < m.opts.Probes {
			p.due = p.began.Add(m.opts.ProbeTimeout)
			m.under = append(m.under, p)
			return p
		}
	}
	m.stats.Rejected++
	return nil
}

func (m *model) end(p *modelPermit, err error) {
	if p.ended || p.epoch != m.epoch || m.state == failure.StateDisabled {
		return
	}
	p.ended = true
	m.under = slices.DeleteFunc(m.under, func(q *modelPermit) bool { return q == p })
	if errors.Is(err, transparency.ErrRejected) {
		m.stats.Ignored++
		return
	}
	slow, failed := m.opts.Slow > 0 && time.Since(p.began) > m.opts.Slow, err != nil
	if slow {
		m.stats.Slow++
	}
	if m.state == failure.StateHalfOpen {
		failed = failed || slow
	}
	if failed {
		m.stats.Failed++
	} else {
		m.stats.Succeeded++
	}
	if m.state == failure.StateHalfOpen {
		m.probed(failed)
		return
	}
	m.calls++
	m.timed++
	if m.row++; !failed {
		m.row = 0
	} else if m.fails++; m.opts.Failures > 0 && m.row >= m.opts.Failures || m.full(m.fails, m.calls, m.opts.Ratio) {
		m.trip(0)
		return
	}
	if slow {
		if m.slow++; m.full(m.slow, m.timed, 0.5) {
			m.trip(0)
		}
	}
}

func (m *model) probed(failed bool) {
	if failed {
		m.trip(m.reopened + 1)
	} else if m.good++; m.good == m.opts.Probes {
		m.enter(failure.StateClosed)
	}
}

func (m *model) full(n, of int, ratio float64) bool {
	return ratio > 0 && of >= m.opts.MinCalls && float64(n) >= ratio*float64(of)
}

// Any course of calls, times and switches leaves the breaker where the model
// is, with the same counts, by the same changes.
func TestModel(t *testing.T) {
	for range 30 {
		synctest.Test(t, checkModel)
	}
}

func checkModel(t *testing.T) {
	rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) { // a *testing.T has a deadline, in real time
		m := newModel(t)
		b := failure.NewLocalBreaker(&m.opts)
		ctx, cancel := context.WithTimeout(context.Background(), math.MaxInt64)
		defer cancel()
		next, stop := iter.Pull(b.Changes(ctx))
		defer stop()
		var out []*modelPermit
		allow := func(t *rapid.T) *modelPermit {
			if !m.settle() {
				t.Skip("the open time may or may not have passed")
			}
			p, err := b.Allow(ctx)
			mp := m.allow()
			if (err == nil) != (mp != nil) {
				t.Fatalf("Allow error = %v in state %v with %d probes and %d good, want it let through: %v", err, m.state, len(m.under), m.good, mp != nil)
			}
			if after := failure.RetryAfter(err); err != nil && m.state != failure.StateForced && (after <= 0 || after > m.open) {
				t.Fatalf("Allow error = %v in state %v, want it to say when to come again, within %v", err, m.state, m.open)
			}
			if mp != nil {
				mp.permit = p
			}
			return mp
		}
		errs := rapid.SampledFrom([]error{nil, nil, errBoom, errBoom, transparency.ErrRejected})
		t.Repeat(map[string]func(*rapid.T){
			"allow": func(t *rapid.T) {
				if p := allow(t); p != nil {
					out = append(out, p)
				}
			},
			"calls": func(t *rapid.T) { // one after another, the open times of any before they begin
				lasts, err := rapid.SampledFrom([]time.Duration{0, time.Second, 1500 * time.Millisecond}).Draw(t, "lasts"), errs.Draw(t, "err")
				if m.state == failure.StateOpen {
					time.Sleep(m.open)
				}
				for range rapid.IntRange(1, 4).Draw(t, "calls") {
					p := allow(t)
					if p == nil {
						return
					}
					time.Sleep(lasts)
					if m.settle(); m.state == failure.StateHalfOpen {
						b.State()
					}
					p.permit.Done(err)
					m.end(p, err)
				}
			},
			"done": func(t *rapid.T) {
				if len(out) == 0 || !m.settle() {
					t.Skip("nothing to end")
				}
				b.State() // as an Allow would, it ends what is overdue
				mp := rapid.SampledFrom(out).Draw(t, "permit")
				err := errs.Draw(t, "err")
				if !mp.due.IsZero() && !time.Now().Before(mp.due) {
					t.Skip("what is overdue is ended by the next Allow")
				}
				mp.permit.Done(err)
				m.end(mp, err)
			},
			"sleep": func(t *rapid.T) {
				time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, 500 * time.Millisecond, 1100 * time.Millisecond, 4 * time.Second}).Draw(t, "time"))
			},
			"switch": func(t *rapid.T) {
				switch n := rapid.IntRange(0, 20).Draw(t, "switch"); {
				case n == 0:
					b.ForceOpen()
					m.enter(failure.StateForced)
				case n == 1:
					b.Disable()
					m.enter(failure.StateDisabled)
				case n < 4 || m.state == failure.StateForced || m.state == failure.StateDisabled:
					b.Reset()
					m.enter(failure.StateClosed)
				default:
					return
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
				for _, want := range m.changes {
					if got, ok := next(); !ok || got != want {
						t.Fatalf("change = %+v, %v, want %+v", got, ok, want)
					}
				}
				m.changes = nil
				m.stats.State, m.stats.Probing = m.state, len(m.under)
				if got := b.Stats(); got != m.stats {
					t.Fatalf("Stats = %+v, want %+v", got, m.stats)
				}
			},
		})
	})
}
