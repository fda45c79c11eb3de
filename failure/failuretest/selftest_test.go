package failuretest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// A bad breaker passes on to a good one what it is not told to spoil.
type bad struct {
	*failure.LocalBreaker
	do      func(ctx context.Context, next failure.Next) (any, error)
	allow   func(ctx context.Context) (failure.Permit, error)
	state   func() failure.State
	changes func(ctx context.Context) iter.Seq[failure.Change]
	reset   func()
}

func (b *bad) Do(ctx context.Context, next failure.Next) (any, error) {
	if b.do != nil {
		return b.do(ctx, next)
	}
	return b.LocalBreaker.Do(ctx, next)
}

func (b *bad) Allow(ctx context.Context) (failure.Permit, error) {
	if b.allow != nil {
		return b.allow(ctx)
	}
	return b.LocalBreaker.Allow(ctx)
}

func (b *bad) State() failure.State {
	if b.state != nil {
		return b.state()
	}
	return b.LocalBreaker.State()
}

func (b *bad) Changes(ctx context.Context) iter.Seq[failure.Change] {
	if b.changes != nil {
		return b.changes(ctx)
	}
	return b.LocalBreaker.Changes(ctx)
}

func (b *bad) Reset() {
	if b.reset != nil {
		b.reset()
		return
	}
	b.LocalBreaker.Reset()
}

type permitFunc func(error)

func (f permitFunc) Done(err error) { f(err) }

// A mutant breaks one promise, and a check must find it.
var breakerMutants = []struct {
	name, finds string
	options     func(o *failure.BreakerOptions)
	spoil       func(b *bad)
}{
	{"wraps errors", "results pass through", nil, func(b *bad) {
		b.do = func(ctx context.Context, next failure.Next) (any, error) {
			v, err := b.LocalBreaker.Do(ctx, next)
			if err != nil {
				err = fmt.Errorf("call: %w", err)
			}
			return v, err
		}
	}},
	{"looks at no context", "an ended context calls nothing", nil, func(b *bad) {
		b.do = func(ctx context.Context, next failure.Next) (any, error) {
			return b.LocalBreaker.Do(context.WithoutCancel(ctx), next)
		}
	}},
	{"opens late", "failures in a row open it", func(o *failure.BreakerOptions) { o.Failures++ }, nil},
	{"opens early", "failures in a row open it", func(o *failure.BreakerOptions) { o.Failures-- }, nil},
	{"open for too long", "failures in a row open it", func(o *failure.BreakerOptions) { o.OpenFor *= 2 }, nil},
	{"gives nothing for an error", "failures in a row open it", nil, func(b *bad) {
		b.do = func(ctx context.Context, next failure.Next) (any, error) {
			v, err := b.LocalBreaker.Do(ctx, next)
			if errors.Is(err, failure.ErrOpen) {
				return 0, nil
			}
			return v, err
		}
	}},
	{"forgets the row", "failures in a row count however far apart", nil, func(b *bad) {
		last := time.Now()
		b.do = func(ctx context.Context, next failure.Next) (any, error) {
			if time.Since(last) > time.Second {
				b.LocalBreaker.Reset()
			}
			last = time.Now()
			return b.LocalBreaker.Do(ctx, next)
		}
	}},
	{"another share", "a share of failures opens it", func(o *failure.BreakerOptions) { o.Ratio = 0.6 }, nil},
	{"fewer calls", "a share of failures opens it", func(o *failure.BreakerOptions) { o.MinCalls-- }, nil},
	{"no window", "a window passes", func(o *failure.BreakerOptions) { o.Window *= 10 }, nil},
	{"a short window", "a window passes", func(o *failure.BreakerOptions) { o.Window /= 4 }, nil},
	{"never closes", "a success in half-open closes it", func(o *failure.BreakerOptions) { o.Probes = 2 }, nil},
	{"does not grow", "a failure in half-open opens it for longer", func(o *failure.BreakerOptions) { o.MaxOpenFor = -1 }, nil},
	{"grows without bound", "a failure in half-open opens it for longer", func(o *failure.BreakerOptions) { o.MaxOpenFor *= 10 }, nil},
	{"hears the past", "a call from before it opened says nothing after", nil, func(b *bad) {
		b.allow = func(ctx context.Context) (failure.Permit, error) {
			p, err := b.LocalBreaker.Allow(ctx)
			if err != nil {
				return nil, err
			}
			return permitFunc(func(err error) {
				p.Done(err)
				if err == nil {
					b.LocalBreaker.Reset()
				}
			}), nil
		}
	}},
	{"counts Done twice", "Done counts once", nil, func(b *bad) {
		b.allow = func(ctx context.Context) (failure.Permit, error) {
			p, err := b.LocalBreaker.Allow(ctx)
			if err != nil {
				return nil, err
			}
			return permitFunc(func(err error) {
				if p != nil {
					p.Done(err)
				}
				p, _ = b.LocalBreaker.Allow(ctx)
			}), nil
		}
	}},
	{"loses the place of a panic", "FA-1 a probe that panics or exits gives its place back", nil, func(b *bad) {
		b.do = func(ctx context.Context, next failure.Next) (any, error) {
			p, err := b.LocalBreaker.Allow(ctx)
			if err != nil {
				return nil, err
			}
			v, err := next(ctx)
			p.Done(err)
			return v, err
		}
	}},
	{"counts a panic", "FA-1 panics do not open it", nil, func(b *bad) {
		b.do = func(ctx context.Context, next failure.Next) (any, error) {
			p, err := b.LocalBreaker.Allow(ctx)
			if err != nil {
				return nil, err
			}
			err = errors.New("panic")
			defer func() { p.Done(err) }()
			var v any
			v, err = next(ctx)
			return v, err
		}
	}},
	{"waits for a hung probe", "FA-1 FA-2 a probe that never ends holds its place for a time", func(o *failure.BreakerOptions) { o.ProbeTimeout *= 10 }, nil},
	{"waits too little for a probe", "FA-1 FA-2 a probe that never ends holds its place for a time", func(o *failure.BreakerOptions) { o.ProbeTimeout /= 2 }, nil},
	{"counts what says nothing", "FA-4 probes that say nothing", func(o *failure.BreakerOptions) {
		o.Classify = func(_ context.Context, err error) failure.Outcome { return failure.Failed }
	}, nil},
	{"takes it for success", "FA-4 probes that say nothing", func(o *failure.BreakerOptions) {
		o.Classify = func(_ context.Context, err error) failure.Outcome { return failure.Succeeded }
	}, nil},
	{"lets more probes through", "FA-6 exactly as many probes as wanted", func(o *failure.BreakerOptions) { o.Probes++ }, nil},
	{"lets fewer probes through", "FA-6 exactly as many probes as wanted", func(o *failure.BreakerOptions) { o.Probes-- }, nil},
	{"reports a change twice", "FA-7 changes in order, to whoever does what he likes", nil, func(b *bad) {
		b.changes = func(ctx context.Context) iter.Seq[failure.Change] {
			seq := b.LocalBreaker.Changes(ctx)
			return func(yield func(failure.Change) bool) {
				for c := range seq {
					for range 2 {
						if !yield(c) {
							return
						}
					}
				}
			}
		}
	}},
	{"resets nothing", "by hand", nil, func(b *bad) { b.reset = func() {} }},
	{"blames the service for callers", "FA-5 callers that go away", func(o *failure.BreakerOptions) {
		o.Classify = func(context.Context, error) failure.Outcome { return failure.Failed }
	}, nil},
	{"excuses a service that hangs", "FA-5 a service that hangs", func(o *failure.BreakerOptions) {
		o.Classify = func(_ context.Context, err error) failure.Outcome {
			if errors.Is(err, context.DeadlineExceeded) {
				return failure.Ignored
			}
			return failure.Failed
		}
	}, nil},
	{"has no patience", "FA-5 deadlines of callers", func(o *failure.BreakerOptions) { o.Patience = 0 }, nil},
	{"hears no answers", "answers are no failures", func(o *failure.BreakerOptions) { o.Answers = nil }, nil},
	{"takes everything for an answer", "errors of every other class are failures", func(o *failure.BreakerOptions) {
		o.Answers = []error{transparency.ErrUncertain}
	}, nil},
	{"counts no slow calls", "a share of slow calls opens it", func(o *failure.BreakerOptions) { o.Slow = 0 }, nil},
	{"another limit", "a share of slow calls opens it", func(o *failure.BreakerOptions) { o.Slow -= time.Millisecond }, nil},
	{"another share of slow calls", "a share of slow calls opens it", func(o *failure.BreakerOptions) { o.SlowRatio = 0.6 }, nil},
	{"the slow stay slow", "a window of slow calls passes", func(o *failure.BreakerOptions) { o.Window *= 10 }, nil},
	{"forgets the slow", "a window of slow calls passes", func(o *failure.BreakerOptions) { o.Window /= 4 }, nil},
	{"a slow probe is good enough", "a slow probe has failed", func(o *failure.BreakerOptions) { o.SlowRatio, o.Failures = -1, 4 }, nil},
	{"remembers the slow", "what was slow before it opened is forgotten", nil, func(b *bad) {
		slow := 0
		b.do = func(ctx context.Context, next failure.Next) (any, error) {
			start := time.Now()
			v, err := b.LocalBreaker.Do(ctx, next)
			if time.Since(start) > time.Second {
				if slow++; slow > 6 {
					b.ForceOpen()
				}
			}
			return v, err
		}
	}},
	{"hears no rule", "a rule of the caller's", func(o *failure.BreakerOptions) { o.Classify = nil }, nil},
}

// change spoils reports before and views after the good driver has them.
func change(before func(r *failure.Report), after func(r failure.Report, v *failure.View)) func(failure.Driver, *faulty) {
	return func(good failure.Driver, f *faulty) {
		f.exchange = func(ctx context.Context, name string, r failure.Report) (failure.View, error) {
			if before != nil {
				before(&r)
			}
			v, err := good.Exchange(ctx, name, r)
			if after != nil {
				after(r, &v)
			}
			return v, err
		}
	}
}

var driverMutants = []struct {
	name, finds string
	spoil       func(good failure.Driver, f *faulty)
}{
	{"counts nobody", "a store that knows nothing", change(nil, func(_ failure.Report, v *failure.View) { v.Live = 0 })},
	{"one vote is enough", "a quorum of votes opens it", change(func(r *failure.Report) { r.Quorum = 1 }, nil)},
	{"all must vote", "the quorum is a share of the living", change(func(r *failure.Report) { r.QuorumRatio = 1 }, nil)},
	{"no share", "the quorum is a share of the living", change(func(r *failure.Report) { r.QuorumRatio = -1 }, nil)},
	{"votes last", "votes are withdrawn and expire", change(func(r *failure.Report) { r.TTL = time.Hour }, nil)},
	{"votes stay", "votes are withdrawn and expire", func(good failure.Driver, f *faulty) {
		voted := map[string]bool{}
		change(func(r *failure.Report) {
			voted[r.Instance] = voted[r.Instance] || r.Vote
			r.Vote = voted[r.Instance]
		}, nil)(good, f)
	}},
	{"all may probe", "FA-12 one probes, after the open time, for a time", change(nil, func(r failure.Report, v *failure.View) { v.Granted = v.Open && r.Probe > 0 })},
	{"probing has no end", "FA-12 one probes, after the open time, for a time", change(func(r *failure.Report) { r.Probe *= 100 }, nil)},
	{"any verdict counts", "FA-12 a verdict counts once, for its generation", func(good failure.Driver, f *faulty) {
		last := ""
		var gen uint64
		change(func(r *failure.Report) {
			if r.Probe > 0 {
				last = r.Instance
			}
			if r.Verdict != failure.NoVerdict {
				r.Instance, r.Gen = last, gen
			}
		}, func(_ failure.Report, v *failure.View) { gen = v.Gen })(good, f)
	}},
	{"opens anew for as long", "the open time grows to its bound", change(func(r *failure.Report) { r.MaxOpenFor = r.OpenFor }, nil)},
	{"forgets what is known", "generations rise above what is known", change(func(r *failure.Report) { r.Gen = 0 }, nil)},
	{"one breaker for all names", "breakers of other names are others", func(good failure.Driver, f *faulty) {
		f.exchange = func(ctx context.Context, _ string, r failure.Report) (failure.View, error) {
			return good.Exchange(ctx, name, r)
		}
	}},
	{"looks at no context", "an ended context exchanges nothing", func(good failure.Driver, f *faulty) {
		f.exchange = func(ctx context.Context, name string, r failure.Report) (failure.View, error) {
			return good.Exchange(context.WithoutCancel(ctx), name, r)
		}
	}},
	{"tells nothing", "new generations are told", func(_ failure.Driver, f *faulty) {
		f.listen = func(ctx context.Context, _ string, wake func()) error {
			wake()
			<-ctx.Done()
			return ctx.Err()
		}
	}},
	{"poisoned by one", "FA-11 one with a broken network opens alone", change(func(r *failure.Report) { r.Quorum, r.QuorumRatio = 1, -1 }, nil)},
	{"never opens", "FA-11 a quorum opens all", change(func(r *failure.Report) { r.Vote = false }, nil)},
	{"polls see nothing", "FA-11 a quorum opens all though no news is heard", change(nil, func(_ failure.Report, v *failure.View) { v.Open = false })},
	{"all of the fleet probe", "FA-12 one of the fleet probes, and a good probe closes all", change(nil, func(r failure.Report, v *failure.View) { v.Granted = v.Open && r.Probe > 0 })},
	{"a bad probe closes", "FA-12 a failed probe opens all for longer", change(func(r *failure.Report) {
		if r.Verdict == failure.Reopen {
			r.Verdict = failure.Close
		}
	}, nil)},
	{"a prober has no end", "FA-12 a prober that is gone is followed by another", change(func(r *failure.Report) { r.Probe *= 100 }, nil)},
	{"another end for each", "FA-13 the open time ends for all at once", change(nil, func(r failure.Report, v *failure.View) {
		v.Remaining = v.Remaining * time.Duration(r.Instance[0]) / 128
	})},
	{"an open store forgets", "by hand it is this instance's alone", change(nil, func(_ failure.Report, v *failure.View) { *v = failure.View{} })},
}

// A check that has never failed is unproven.
func TestBreakerMutants(t *testing.T) {
	for _, m := range breakerMutants {
		t.Run(m.name, func(t *testing.T) {
			open := func(opts failure.BreakerOptions) *bad { return &bad{LocalBreaker: failure.NewLocalBreaker(&opts)} }
			prove(t, breakerChecks, m.finds,
				func(r *run) { r.open = func(o failure.BreakerOptions) failure.Breaker { return open(o) } },
				func(r *run) {
					r.open = func(o failure.BreakerOptions) failure.Breaker {
						if m.options != nil {
							m.options(&o)
						}
						b := open(o)
						if m.spoil != nil {
							m.spoil(b)
						}
						return b
					}
				})
		})
	}
}

func TestDriverMutants(t *testing.T) {
	for _, m := range driverMutants {
		t.Run(m.name, func(t *testing.T) {
			connect := func(spoil bool) func(r *run) {
				return func(r *run) {
					good := failure.NewMemoryDriver()
					f := &faulty{Driver: good}
					if spoil {
						m.spoil(good, f)
					}
					r.connect = func() failure.Driver { return f }
				}
			}
			prove(t, driverChecks, m.finds, connect(false), connect(true))
		})
	}
}

// prove checks that a check fails on what is spoiled and on nothing else.
func prove(t *testing.T, checks []check, name string, good, spoiled func(r *run)) {
	i := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("there is no check %q", name)
	}
	if found := failures(t, checks[i], good); len(found) > 0 {
		t.Fatalf("%q fails without a fault: %v", name, found)
	}
	if found := failures(t, checks[i], spoiled); len(found) == 0 {
		t.Errorf("%q does not find it", name)
	} else {
		t.Log(found[0])
	}
}

func failures(t *testing.T, c check, prepare func(r *run)) (failed []string) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{unit: time.Second, fake: true}
		prepare(r)
		failed = record(t.Context(), c, r)
	})
	return failed
}
