package replicatest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/replica"
)

func writeChecks[C any]() []check[C] {
	return []check[C]{
		{"a write goes to the primary, once", false, nil, func(r *run[C]) {
			p := r.pool(nil)
			for range 20 {
				at, err := r.write(p, nil, "1")
				if err != nil || !slices.Equal(at, []string{r.primary()}) {
					r.Fatalf("Write = %v at %v, want nil at %s", err, at, r.primary())
				}
			}
		}},
		{"RP-26 a write's answer is returned as it is", false, nil, func(r *run[C]) {
			p := r.pool(nil)
			var calls atomic.Int32
			err := p.Write(r.Context(), nil, func(context.Context, C) error { calls.Add(1); return errOwn })
			if err != errOwn || calls.Load() != 1 { //nolint:errorlint // it is to be the very error
				r.Errorf("Write = %v after %d calls, want the callback's own error after one", err, calls.Load())
			}
		}},
		{"RP-34 a write without an answer may have been executed, and is not made again", false, nil, func(r *run[C]) {
			p := r.pool(nil)
			r.warm(p)
			var calls atomic.Int32
			err := p.Write(r.Context(), &replica.WriteOptions{AttemptTimeout: r.attempt()}, func(ctx context.Context, _ C) error {
				calls.Add(1)
				<-ctx.Done()
				return ctx.Err()
			})
			r.wantErr("Write without an answer", err, replica.ErrMaybeExecuted, transparency.ErrUncertain)
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, transparency.ErrUnavailable) {
				r.Errorf("Write error = %v, want neither a context error nor ErrUnavailable", err)
			}
			if calls.Load() != 1 {
				r.Errorf("Write made %d calls, want one", calls.Load())
			}
		}},
		{"RP-34 an idempotent write without an answer is made again", false, nil, func(r *run[C]) {
			p := r.pool(nil)
			r.warm(p)
			var calls atomic.Int32
			err := p.Write(r.Context(), &replica.WriteOptions{AttemptTimeout: r.attempt(), Idempotent: true}, func(ctx context.Context, c C) error {
				if calls.Add(1) == 1 {
					<-ctx.Done()
					return ctx.Err()
				}
				return r.Set(ctx, c, "key", "1")
			})
			if err != nil || calls.Load() != 2 {
				r.Errorf("Write = %v after %d calls, want nil after two", err, calls.Load())
			}
		}},
		{"a writer that leaves is told what may have happened", false, nil, func(r *run[C]) {
			p := r.pool(nil)
			r.warm(p)
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			err := p.Write(ctx, &replica.WriteOptions{Idempotent: true}, func(ctx context.Context, _ C) error {
				cancel()
				<-ctx.Done()
				return ctx.Err()
			})
			r.wantErr("Write by a caller that left", err, replica.ErrMaybeExecuted, context.Canceled)
			err = p.Write(ctx, nil, func(context.Context, C) error { return nil })
			r.wantErr("Write with a context that has ended", err, context.Canceled)
			if errors.Is(err, transparency.ErrUncertain) {
				r.Errorf("Write with a context that had ended = %v, want no doubt", err)
			}
		}},
		{"RP-21 without a primary reads are served and writes fail fast", false, canStop[C], func(r *run[C]) {
			p := r.pool(nil)
			r.warm(p)
			r.Down(r.primary())
			r.eventually("the primary is known to be down", testkit.Limit, func() bool {
				return r.state(p, r.primary()).State == replica.StateDown
			})
			start := time.Now()
			at, err := r.write(p, nil, "1")
			r.wantErr("Write without a primary", err, replica.ErrNoPrimary, transparency.ErrUnavailable)
			r.wantAtOnce("Write without a primary", time.Since(start))
			if len(at) != 0 || !transparency.Retryable(err) {
				r.Errorf("Write without a primary = %v at %v, want it refused", err, at)
			}
			if a := attemptsOf(err); len(a) != 1 || a[0].Node != r.primary() || a[0].Err == nil {
				r.Errorf("Write error lists %+v, want the primary and why it is down", a)
			}
			if name, err := r.where(p, nil); err != nil || !slices.Contains(r.replicas(), name) {
				r.Errorf("Read without a primary = %q, %v, want it served by a replica", name, err)
			}
			r.Heal(r.primary())
			if !r.Replicated {
				return
			}
			r.eventually("writes go on", testkit.Limit, func() bool {
				_, err := r.write(p, nil, "2")
				return err == nil
			})
		}},
		{"RP-33 a write at a primary that was demoted goes once to the new one", false, canPromote[C], func(r *run[C]) {
			p := r.pool(&replica.Options{ProbeInterval: time.Hour}) // so that it is the write that finds out
			r.warm(p)
			next := r.replicas()[0]
			r.Promote(next)
			r.eventually("the old primary refuses writes", testkit.Limit, func() bool {
				return r.Set(r.Context(), r.Nodes[0].Client, "other", "1") != nil
			})
			at, err := r.write(p, nil, "2")
			if err != nil || !slices.Equal(at, []string{r.primary(), next}) {
				r.Errorf("Write after a failover = %v at %v, want nil at %s, then %s", err, at, r.primary(), next)
			}
			if at, err = r.write(p, nil, "3"); err != nil || !slices.Equal(at, []string{next}) {
				r.Errorf("next Write = %v at %v, want nil at %s", err, at, next)
			}
			if s := p.Stats(); s.Ejections != 0 {
				r.Errorf("%d nodes were ejected by a failover", s.Ejections)
			}
		}},
		{"RP-36 roles are followed under live connections", false, canPromote[C], func(r *run[C]) {
			p := r.pool(nil)
			r.warm(p)
			next := r.replicas()[0]
			r.Promote(next)
			r.eventually("the pool knows the new primary", testkit.Limit, func() bool {
				return r.state(p, next).Role == replica.RolePrimary && r.state(p, r.primary()).Role == replica.RoleReplica
			})
			if at, err := r.write(p, nil, "2"); err != nil || !slices.Equal(at, []string{next}) {
				r.Errorf("Write after a failover = %v at %v, want nil at %s", err, at, next)
			}
		}},
	}
}
