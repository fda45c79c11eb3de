package failuretest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

var breakerChecks = append(append([]check{
	{name: "results pass through", fn: func(r *run) {
		b := r.breaker()
		got, err := failure.Call(r.Context(), func(context.Context) (string, error) { return "ada", nil }, b)
		if got != "ada" || err != nil {
			r.Errorf("Call = %q, %v, want ada, nil", got, err)
		}
		if _, err := r.call(b, errBoom); err != errBoom { //nolint:errorlint // unchanged
			r.Errorf("Call error = %v, want the very one of the function", err)
		}
	}},
	{name: "an ended context calls nothing", fn: func(r *run) {
		b := r.breaker()
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		_, err := b.Do(ctx, func(context.Context) (any, error) {
			r.Errorf("Do with an ended context made the call")
			return nil, nil
		})
		if err != context.Canceled { //nolint:errorlint // bare
			r.Errorf("Do error = %v, want context.Canceled", err)
		}
		if p, err := b.Allow(ctx); p != nil || err != context.Canceled { //nolint:errorlint // bare
			r.Errorf("Allow = %v, %v, want nil, context.Canceled", p, err)
		}
	}},
	{name: "failures in a row open it", fn: func(r *run) {
		b := r.breaker()
		r.state(b, failure.StateClosed)
		r.fail(b, 2)
		r.succeed(b, 1)
		r.fail(b, 2)
		r.state(b, failure.StateClosed)
		r.fail(b, 1)
		r.state(b, failure.StateOpen)
		if wait := r.refused(b); wait <= 4*r.unit || wait > 5*r.unit {
			r.Errorf("asked to wait for %v, want 85 to 100 %% of %v", wait, 5*r.unit)
		}
		if p, err := b.Allow(r.Context()); p != nil || !errors.Is(err, failure.ErrOpen) {
			r.Errorf("Allow while open = %v, %v, want ErrOpen", p, err)
		}
	}},
	{name: "failures in a row count however far apart", fn: func(r *run) {
		opts := r.options()
		opts.Ratio, opts.Window = 1, r.unit
		b := r.open(opts)
		r.fail(b, 1)
		time.Sleep(time.Minute)
		r.fail(b, 1)
		time.Sleep(time.Minute)
		r.fail(b, 1)
		r.state(b, failure.StateOpen)
	}},
	{name: "a share of failures opens it", fn: func(r *run) {
		opts := r.options()
		opts.Failures, opts.Ratio, opts.MinCalls, opts.Window = -1, 0.5, 10, 10*r.unit
		b := r.open(opts)
		for range 4 {
			r.fail(b, 1)
			r.succeed(b, 1)
		}
		r.fail(b, 1)
		r.state(b, failure.StateClosed) // 5 of 9
		r.succeed(b, 2)
		r.fail(b, 1) // 6 of 12
		r.state(b, failure.StateOpen)
	}},
	{name: "a window passes", fn: func(r *run) {
		opts := r.options()
		opts.Failures, opts.Ratio, opts.MinCalls, opts.Window = -1, 0.5, 10, 10*r.unit
		b := r.open(opts)
		r.fail(b, 9)
		time.Sleep(11 * r.unit)
		r.fail(b, 9)
		r.state(b, failure.StateClosed)
		time.Sleep(5 * r.unit)
		r.fail(b, 1)
		r.state(b, failure.StateOpen)
	}},
	{name: "a success in half-open closes it", fn: func(r *run) {
		b := r.breaker()
		r.trip(b)
		p := r.probe(b, r.unit)
		r.state(b, failure.StateHalfOpen)
		p.Done(nil)
		r.state(b, failure.StateClosed)
		r.fail(b, 2) // the row of before is forgotten
		r.succeed(b, 1)
	}},
	{name: "a failure in half-open opens it for longer", fn: func(r *run) {
		opts := r.options()
		opts.MaxOpenFor = 15 * r.unit
		b := r.open(opts)
		r.trip(b)
		for _, units := range []time.Duration{10, 15, 15} {
			r.probe(b, r.unit).Done(errBoom)
			r.state(b, failure.StateOpen)
			time.Sleep(r.slack())
			wait := r.refused(b) + r.slack()
			if full := units * r.unit; wait < full*84/100 || wait > full+r.slack() {
				r.Errorf("open for %v, want 85 to 100 %% of %v", wait, full)
			}
			time.Sleep(wait)
		}
		r.probe(b, r.unit).Done(nil)
		time.Sleep(r.slack())
		r.trip(b)
		r.probe(b, r.unit)
	}},
	{name: "a call from before it opened says nothing after", fn: func(r *run) {
		b := r.breaker()
		late, err := b.Allow(r.Context())
		later, err2 := b.Allow(r.Context())
		if err != nil || err2 != nil {
			r.Fatalf("Allow error = %v, %v", err, err2)
		}
		r.trip(b)
		p := r.probe(b, r.unit)
		late.Done(nil)
		r.state(b, failure.StateHalfOpen)
		later.Done(errBoom)
		r.state(b, failure.StateHalfOpen)
		p.Done(nil)
		r.state(b, failure.StateClosed)
	}},
	{name: "Done counts once", fn: func(r *run) {
		b := r.breaker()
		p, err := b.Allow(r.Context())
		if err != nil {
			r.Fatalf("Allow error = %v", err)
		}
		for range 10 {
			p.Done(errBoom)
		}
		r.state(b, failure.StateClosed)
		r.succeed(b, 1)
		r.trip(b)
		p = r.probe(b, r.unit)
		p.Done(context.Canceled) // the caller's context lives, so it failed
		p.Done(nil)
		r.state(b, failure.StateOpen)
	}},
}, probeChecks...), append(judgeChecks, slowChecks...)...)

var probeChecks = []check{
	{name: "FA-1 a probe that panics or exits gives its place back", fn: func(r *run) {
		b := r.breaker()
		r.trip(b)
		r.probe(b, r.unit).Done(transparency.ErrRejected) // it is this one's to probe
		value := &struct{ int }{7}
		got := exits(func() {
			_, _ = failure.Call(r.Context(), func(context.Context) (int, error) { panic(value) }, b)
		})
		if got != any(value) {
			r.Errorf("the caller saw the panic %v, want the very one", got)
		}
		r.state(b, failure.StateHalfOpen)
		if got := exits(func() { _, _ = failure.Call(r.Context(), goexit, b) }); got != nil {
			r.Errorf("the caller of Goexit saw the panic %v", got)
		}
		r.state(b, failure.StateHalfOpen)
		r.succeed(b, 1)
		r.state(b, failure.StateClosed)
	}},
	{name: "FA-1 panics do not open it", fn: func(r *run) {
		b := r.breaker()
		for range 10 {
			exits(func() { _, _ = failure.Call(r.Context(), func(context.Context) (int, error) { panic("bug") }, b) })
			exits(func() { _, _ = failure.Call(r.Context(), goexit, b) })
		}
		r.state(b, failure.StateClosed)
	}},
	{name: "FA-1 FA-2 a probe that never ends holds its place for a time", fn: func(r *run) {
		b := r.breaker()
		r.trip(b)
		start := time.Now()
		hung := r.probe(b, r.unit)
		r.refused(b)
		time.Sleep(3 * r.unit)
		r.refused(b)
		second := r.probe(b, 2*r.unit)
		if took := time.Since(start); took < 4*r.unit-r.slack() || took > 5*r.unit {
			r.Errorf("another probe after %v, want %v", took, 4*r.unit)
		}
		hung.Done(nil)
		r.state(b, failure.StateHalfOpen)
		hung.Done(errBoom)
		r.state(b, failure.StateHalfOpen)
		r.refused(b) // the place is the second's
		second.Done(nil)
		r.state(b, failure.StateClosed)
	}},
	{name: "FA-4 probes that say nothing", fn: func(r *run) {
		opts := r.options()
		opts.Probes = 2
		b := r.open(opts)
		r.trip(b)
		p := r.probe(b, r.unit)
		p.Done(fmt.Errorf("inner: %w", failure.ErrOpen))
		for range 20 {
			ctx, cancel := context.WithCancel(r.Context())
			_, err := failure.Call(ctx, func(ctx context.Context) (int, error) {
				cancel()
				return 0, ctx.Err()
			}, b)
			if !errors.Is(err, context.Canceled) {
				r.Fatalf("Call error = %v, want context.Canceled", err)
			}
			r.state(b, failure.StateHalfOpen)
		}
		r.succeed(b, 1)
		r.state(b, failure.StateHalfOpen)
		r.succeed(b, 1)
		r.state(b, failure.StateClosed)
	}},
	{name: "FA-6 exactly as many probes as wanted", fn: func(r *run) {
		const callers, probes = 10_000, 3
		opts := r.options()
		opts.Probes = probes
		b := r.open(opts)
		r.trip(b)
		var reached atomic.Int64
		release := make(chan struct{})
		var calls sync.WaitGroup
		for range 5 { // a shared breaker asks the fleet first
			var refused sync.WaitGroup
			refused.Add(callers)
			for range callers {
				calls.Go(func() {
					var once sync.Once
					defer once.Do(refused.Done)
					_, err := failure.Call(r.Context(), func(context.Context) (int, error) {
						once.Do(refused.Done)
						reached.Add(1)
						<-release
						return 0, nil
					}, b)
					if err != nil && (!errors.Is(err, failure.ErrOpen) || failure.RetryAfter(err) <= 0) {
						r.Errorf("Call error = %v, want ErrOpen with a time to come again", err)
					}
				})
			}
			refused.Wait()
			if reached.Load() >= probes {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := reached.Load(); n != probes {
			r.Errorf("%d calls of %d at once got through, want %d", n, callers, probes)
		}
		close(release)
		calls.Wait()
		r.state(b, failure.StateClosed)
	}},
	{name: "FA-7 changes in order, to whoever does what he likes", fn: func(r *run) {
		b := r.breaker()
		m, ok := b.(manual)
		if !ok {
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		seq := m.Changes(ctx)
		r.trip(b)
		r.probe(b, r.unit).Done(nil)
		var got []failure.Change
		for c := range seq {
			got = append(got, c)
			b.State()
			r.succeed(b, 1)
			time.Sleep(time.Minute) // and nobody waits for it
			if len(got) == 3 {
				cancel()
			}
		}
		want := []failure.State{failure.StateClosed, failure.StateOpen, failure.StateHalfOpen, failure.StateClosed}
		for i, c := range got[:min(3, len(got))] {
			if c.Seq != uint64(i+1) || c.From != want[i] || c.To != want[i+1] {
				r.Errorf("change %d = %+v, want %v to %v", i, c, want[i], want[i+1])
			}
		}
		if len(got) != 3 {
			r.Errorf("%d changes, want 3, and none after the end", len(got))
		}
		seq = m.Changes(r.Context())
		m.ForceOpen()
		exits(func() {
			for range seq {
				panic("an observer's")
			}
		})
		r.refused(b)
	}},
	{name: "by hand", fn: func(r *run) {
		b := r.breaker()
		m, ok := b.(manual)
		if !ok {
			return
		}
		m.Disable()
		r.state(b, failure.StateDisabled)
		r.fail(b, 50)
		m.Reset()
		r.state(b, failure.StateClosed)
		r.fail(b, 2)
		m.Reset()
		r.fail(b, 2)
		r.state(b, failure.StateClosed)
		r.fail(b, 1)
		r.state(b, failure.StateOpen)
		// From here on what Reset closes a fleet may open again at once.
		time.Sleep(5*r.unit + time.Millisecond)
		p := r.probe(b, r.unit)
		m.ForceOpen()
		p.Done(errBoom)
		r.state(b, failure.StateForced)
		time.Sleep(time.Minute)
		r.refused(b)
	}},
}

var judgeChecks = []check{
	{name: "FA-5 callers that go away", fn: func(r *run) {
		b := r.breaker()
		for range 50 {
			ctx, cancel := context.WithCancel(r.Context())
			_, err := failure.Call(ctx, func(ctx context.Context) (int, error) {
				cancel()
				<-ctx.Done()
				return 0, errors.New("connection closed")
			}, b)
			if err == nil {
				r.Errorf("Call error = nil")
			}
		}
		r.state(b, failure.StateClosed)
	}},
	{name: "FA-5 a service that hangs", fn: func(r *run) {
		b := r.breaker()
		for range 3 {
			_, err := failure.Call(r.Context(), func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}, b, failure.NewTimeout(r.unit, nil))
			if !errors.Is(err, failure.ErrTimeout) {
				r.Fatalf("Call error = %v, want ErrTimeout", err)
			}
		}
		r.state(b, failure.StateOpen)
	}},
	{name: "FA-5 deadlines of callers", fn: func(r *run) {
		b := r.breaker()
		r.expire(b, 3, time.Millisecond)
		r.state(b, failure.StateOpen)

		opts := r.options()
		opts.Patience = r.unit
		b = r.open(opts)
		r.expire(b, 20, time.Millisecond)
		r.state(b, failure.StateClosed)
		r.expire(b, 3, 2*r.unit)
		r.state(b, failure.StateOpen)
	}},
	{name: "answers are no failures", fn: func(r *run) {
		notFound := errors.New("not found")
		opts := r.options()
		opts.Answers = []error{errors.New("other"), notFound}
		b := r.open(opts)
		for range 10 {
			r.fail(b, 2)
			r.must(b, 1, fmt.Errorf("load: %w", notFound)) // as good as a success
		}
		for _, err := range []error{transparency.ErrDenied} {
			r.fail(b, 2)
			r.must(b, 1, err)
		}
		r.state(b, failure.StateClosed)
		r.fail(b, 2)
		for _, err := range []error{transparency.ErrInvalid, transparency.ErrRejected, failure.ErrOpen} {
			r.must(b, 20, err) // as if it had not been
		}
		r.fail(b, 1)
		r.state(b, failure.StateOpen)
	}},
	{name: "errors of every other class are failures", fn: func(r *run) {
		for _, err := range []error{transparency.ErrUnavailable, transparency.ErrUncertain, context.DeadlineExceeded} {
			b := r.breaker()
			r.must(b, 3, err)
			r.state(b, failure.StateOpen)
		}
	}},
	{name: "a rule of the caller's", fn: func(r *run) {
		opts := r.options()
		opts.Classify = func(ctx context.Context, err error) failure.Outcome {
			if errors.Is(err, errBoom) {
				return failure.Ignored
			}
			return failure.Classify(ctx, err)
		}
		b := r.open(opts)
		r.fail(b, 10)
		r.must(b, 2, transparency.ErrUnavailable)
		r.state(b, failure.StateClosed)
		r.must(b, 1, transparency.ErrUnavailable)
		r.state(b, failure.StateOpen)
	}},
}

// expire makes n calls that take until their deadline.
func (r *run) expire(b failure.Breaker, n int, d time.Duration) {
	r.Helper()
	for range n {
		ctx, cancel := context.WithTimeout(r.Context(), d)
		_, err := failure.Call(ctx, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, b)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			r.Fatalf("Call error = %v, want context.DeadlineExceeded", err)
		}
	}
}
