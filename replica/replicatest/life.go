package replicatest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/replica"
)

func lifeChecks[C any]() []check[C] {
	return []check[C]{
		{"RP-59 a closed pool answers ErrClosed", false, nil, func(r *run[C]) {
			p := r.pool(nil)
			r.warm(p)
			inside := make(chan struct{}, 2)
			var read, write error
			var wg sync.WaitGroup
			wait := func(ctx context.Context, _ C) error {
				inside <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}
			wg.Go(func() { read = p.Read(r.Context(), &replica.ReadOptions{AttemptTimeout: -1}, wait) })
			wg.Go(func() { write = p.Write(r.Context(), &replica.WriteOptions{AttemptTimeout: -1}, wait) })
			for range 2 {
				testkit.Receive(r, "a call is under way", inside)
			}
			for range 2 {
				if err := p.Close(); err != nil {
					r.Errorf("Close = %v, want nil", err)
				}
			}
			wg.Wait()
			r.wantErr("Read under way at Close", read, replica.ErrClosed)
			r.wantErr("Write under way at Close", write, replica.ErrClosed, replica.ErrMaybeExecuted)
			if errors.Is(read, transparency.ErrUncertain) {
				r.Errorf("Read under way at Close = %v, want no doubt", read)
			}
			_, err := r.where(p, nil)
			r.wantErr("Read after Close", err, replica.ErrClosed)
			_, err = r.write(p, nil, "1")
			r.wantErr("Write after Close", err, replica.ErrClosed)
		}},
		{"nil callbacks are invalid", false, nil, func(r *run[C]) {
			p := r.pool(nil)
			r.wantErr("Read(nil)", p.Read(r.Context(), nil, nil), transparency.ErrInvalid)
			r.wantErr("Write(nil)", p.Write(r.Context(), nil, nil), transparency.ErrInvalid)
			_, err := replica.Query[int, C](r.Context(), p, nil, nil)
			r.wantErr("Query(nil)", err, transparency.ErrInvalid)
		}},
		{"a callback that panics does so to its caller", false, nil, func(r *run[C]) {
			p := r.pool(&replica.Options{MaxConcurrent: 1})
			r.warm(p)
			for range 3 { // its place is given back
				func() {
					defer func() {
						if v := recover(); v != "boom" {
							r.Errorf("recover() = %v, want what the callback panicked with", v)
						}
					}()
					_ = p.Read(r.Context(), nil, func(context.Context, C) error { panic("boom") })
				}()
			}
			if _, err := r.where(p, nil); err != nil {
				r.Errorf("Read after panics = %v, want nil", err)
			}
		}},
		{"what a callback left behind does touches nobody", false, nil, func(r *run[C]) {
			p := r.pool(nil)
			r.warm(p)
			release := make(chan struct{})
			calls := make(chan int, 1)
			calls <- 0
			got, err := replica.Query(r.Context(), p, &replica.ReadOptions{AttemptTimeout: r.attempt()}, func(_ context.Context, c C) (string, error) {
				n := <-calls
				calls <- n + 1
				if n == 0 {
					<-release // ignores its context
				}
				return fmt.Sprint("call ", n), nil
			})
			if got != "call 1" || err != nil {
				r.Errorf("Query = %q, %v, want the second call's value", got, err)
			}
			if n := p.Stats().Left; n != 1 {
				r.Errorf("Stats.Left = %d, want the callback that was left behind", n)
			}
			close(release)
			r.eventually("the callback has ended", testkit.Limit, func() bool { return p.Stats().Left == 0 })
			if got != "call 1" {
				r.Errorf("the value became %q", got)
			}
		}},
		{"RP-53 concurrent queries get their own values", false, nil, func(r *run[C]) {
			p := r.pool(nil)
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					got, err := replica.Query(r.Context(), p, nil, func(ctx context.Context, c C) (int, error) {
						_, _, err := r.Get(ctx, c, "key")
						return i, err
					})
					if got != i || err != nil {
						r.Errorf("Query %d = %d, %v", i, got, err)
					}
				})
			}
			wg.Wait()
		}},
	}
}
