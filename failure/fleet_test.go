package failure

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// inFleet returns a breaker that takes its views from the test.
func inFleet() *LocalBreaker {
	b := NewLocalBreaker(&BreakerOptions{Failures: 3, OpenFor: 5 * time.Second, ProbeTimeout: 4 * time.Second})
	b.fleet = &fleet{kick: make(chan struct{}, 1)}
	return b
}

// hears makes b report, and adopt a view for an answer.
func hears(b *LocalBreaker, v View) Report {
	sent, r := b.report()
	b.adopt(sent, r, v)
	time.Sleep(time.Microsecond) // gobreaker is open for a moment
	return r
}

func want(t *testing.T, b *LocalBreaker, s State) {
	t.Helper()
	if got := b.State(); got != s {
		t.Errorf("State = %v, want %v", got, s)
	}
}

func allow(t *testing.T, b *LocalBreaker) Permit {
	t.Helper()
	p, err := b.Allow(context.Background())
	if err != nil {
		t.Fatalf("Allow error = %v", err)
	}
	return p
}

func refused(t *testing.T, b *LocalBreaker) time.Duration {
	t.Helper()
	p, err := b.Allow(context.Background())
	if !errors.Is(err, ErrOpen) {
		t.Fatalf("Allow = %v, %v, want ErrOpen", p, err)
	}
	return RetryAfter(err)
}

// Who was opened by the fleet does not vote when the store has forgotten that,
// until calls of its own have failed.
func TestInheritedOpeningIsNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inFleet()
		fail(b, 3)
		if _, r := b.report(); !r.Vote {
			t.Errorf("report after failures = %+v, want a vote", r)
		}
		hears(b, View{Gen: 7, Open: true, Remaining: 5 * time.Second})
		if _, r := b.report(); r.Vote || r.Gen != 7 {
			t.Errorf("report = %+v, want no vote while the fleet is open", r)
		}
		hears(b, View{})
		want(t, b, StateOpen)
		if _, r := b.report(); r.Vote {
			t.Errorf("report after the store forgot = %+v, want no vote", r)
		}
		time.Sleep(5 * time.Second)
		allow(t, b).Done(errors.New("boom"))
		if _, r := b.report(); !r.Vote {
			t.Errorf("report after a failed probe = %+v, want a vote", r)
		}
	})
}

// FA-12: a lease ends where it was granted too, and what probes on is nobody's.
func TestLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inFleet()
		sent, r := b.report()
		time.Sleep(time.Second) // the answer is slow
		b.adopt(sent, r, View{Gen: 7, Open: true, Granted: true, Probing: 4 * time.Second})
		want(t, b, StateHalfOpen)
		time.Sleep(time.Second)
		hung := allow(t, b)
		time.Sleep(2 * time.Second)
		refused(t, b)
		want(t, b, StateOpen)
		if _, r := b.report(); r.Probe == 0 || r.Gen != 7 {
			t.Errorf("report = %+v, want it to ask for the lease of 7", r)
		}
		hung.Done(nil)
		want(t, b, StateOpen)
		if _, r := b.report(); r.Verdict != NoVerdict {
			t.Errorf("report = %+v, want no verdict of a late probe", r)
		}
	})
}

// While another probes, calls are told to come soon, and do not ask for what
// is not to be had.
func TestAnotherProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inFleet()
		hears(b, View{Gen: 7, Open: true, Probing: 4 * time.Second})
		if wait := refused(t, b); wait <= 0 || wait > askWait {
			t.Errorf("asked to wait for %v, want up to %v", wait, askWait)
		}
		if _, r := b.report(); r.Probe != 0 {
			t.Errorf("report = %+v, want it not to ask", r)
		}
		time.Sleep(askWait)
		refused(t, b)
		if _, r := b.report(); r.Probe == 0 {
			t.Errorf("report = %+v, want it to ask", r)
		}
	})
}

// A verdict reached while an exchange is under way is told in the next, and
// till then no older view counts.
func TestVerdictDuringExchange(t *testing.T) {
	for _, err := range []error{nil, errors.New("boom")} {
		synctest.Test(t, func(t *testing.T) {
			b := inFleet()
			granted := View{Gen: 7, Open: true, Granted: true, Probing: 4 * time.Second}
			hears(b, granted)
			p := allow(t, b)
			sent, r := b.report()
			p.Done(err)
			verdict, state := Close, StateClosed
			if err != nil {
				verdict, state = Reopen, StateOpen
			}
			b.adopt(sent, r, granted)
			want(t, b, state)
			if r := hears(b, View{Gen: 8, Open: err != nil, Remaining: time.Second}); r.Verdict != verdict || r.Gen != 7 {
				t.Errorf("report = %+v, want the verdict %v on 7", r, verdict)
			}
			want(t, b, state)
			if _, r := b.report(); r.Verdict != NoVerdict {
				t.Errorf("report = %+v, want the verdict told once", r)
			}
		})
	}
}

// FA-10: a store that forgets while a probe is under way takes nothing from it.
func TestForgottenWhileProbing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inFleet()
		hears(b, View{Gen: 7, Open: true, Granted: true, Probing: 4 * time.Second})
		p := allow(t, b)
		hears(b, View{})
		want(t, b, StateHalfOpen)
		if wait := refused(t, b); wait <= 0 {
			t.Errorf("asked to wait for %v", wait)
		}
		time.Sleep(4 * time.Second)
		second := allow(t, b) // the first is overdue
		p.Done(errors.New("boom"))
		second.Done(nil)
		want(t, b, StateClosed)
		if _, r := b.report(); r.Verdict != NoVerdict || r.Vote {
			t.Errorf("report = %+v, want nothing to tell", r)
		}
	})
}

// A call that is let through in the moment that another opens the breaker does
// not become a probe, and cannot close what is behind the gate.
func TestTripRace(t *testing.T) {
	for range 2000 {
		b := NewLocalBreaker(&BreakerOptions{Failures: 1, OpenFor: time.Hour})
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for range 20 {
					_, _ = Call(context.Background(), func(context.Context) (int, error) {
						if i == 0 {
							return 0, errors.New("boom")
						}
						return 0, nil
					}, b)
				}
			})
		}
		wg.Wait()
		want(t, b, StateOpen)
		if b.phase.Load().window.closed() {
			t.Fatal("the gate is open, and gobreaker closed")
		}
	}
}

// A call that asks to probe while an exchange is under way is not forgotten
// with its answer.
func TestAskDuringExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inFleet()
		hears(b, View{Gen: 7, Open: true, Remaining: time.Second})
		time.Sleep(time.Second)
		sent, r := b.report()
		refused(t, b)
		<-b.fleet.kick
		b.adopt(sent, r, View{Gen: 7, Open: true})
		select {
		case <-b.fleet.kick:
		default:
			t.Error("the ask does not lead to an exchange")
		}
		if _, r := b.report(); r.Probe == 0 {
			t.Errorf("report = %+v, want it to ask for the lease", r)
		}
		hears(b, View{Gen: 8})
		if _, r := b.report(); r.Probe != 0 {
			t.Errorf("report = %+v, want nothing asked of a closed fleet", r)
		}
	})
}

// A lease that is over is no state to be in, whether anybody calls or not.
func TestStateAfterLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inFleet()
		hears(b, View{Gen: 7, Open: true, Granted: true, Probing: 4 * time.Second})
		want(t, b, StateHalfOpen)
		time.Sleep(4 * time.Second)
		want(t, b, StateOpen)
	})
}

// FA-21: what is earned is earned however often it is asked for.
func TestBudgetEarnsInSmallSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(&BudgetOptions{PerSecond: 0.1})
		b.tokens.Store(tokenParts - 100)
		for i := 0; !b.spend(); i++ {
			if i > 1000 {
				t.Fatalf("no token after %d steps that earn a half part each", i)
			}
			time.Sleep(5 * time.Microsecond)
		}
	})
}
