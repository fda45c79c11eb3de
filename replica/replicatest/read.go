package replicatest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/replica"
)

var errOwn = errors.New("no such customer")

func readChecks[C any]() []check[C] {
	return []check[C]{
		{"reads spread over the replicas and leave the primary alone", false, nil, func(r *run[C]) {
			p := r.pool(nil)
			r.warm(p)
			used := counts{}
			for range 300 {
				name, err := r.where(p, nil)
				if err != nil {
					r.Fatalf("Read error = %v", err)
				}
				used[name]++
			}
			if used[r.primary()] != 0 {
				r.Errorf("reads went to %v, want none to the primary", used)
			}
			for _, name := range r.replicas() {
				// In real time only that each has some.
				if used[name] == 0 || r.fake && used[name] < 300/len(r.replicas())/2 {
					r.Errorf("reads went to %v, want an even share for %s", used, name)
				}
			}
		}},
		{"RP-26 an answer is returned as it is, once", false, nil, func(r *run[C]) {
			p := r.pool(nil)
			r.warm(p)
			var calls atomic.Int32
			for range 1000 {
				err := p.Read(r.Context(), nil, func(context.Context, C) error { calls.Add(1); return errOwn })
				if err != errOwn { //nolint:errorlint // it is to be the very error
					r.Fatalf("Read = %v, want the callback's own error, bare", err)
				}
			}
			if n := calls.Load(); n != 1000 {
				r.Errorf("1000 reads made %d calls, want one each", n)
			}
			if s := p.Stats(); s.Healthy != len(r.Nodes) || s.Ejections != 0 {
				r.Errorf("Stats = %+v after 1000 answers, want every node up", s)
			}
		}},
		{"RP-27 callers that leave eject nobody", false, nil, func(r *run[C]) {
			p := r.pool(nil)
			r.warm(p)
			for range 200 {
				ctx, cancel := context.WithCancel(r.Context())
				err := p.Read(ctx, nil, func(ctx context.Context, _ C) error {
					cancel()
					<-ctx.Done()
					return ctx.Err()
				})
				r.wantErr("Read by a caller that left", err, context.Canceled)
				cancel()
			}
			if s := p.Stats(); s.Healthy != len(r.Nodes) || s.Ejections != 0 {
				r.Errorf("Stats = %+v after 200 cancels, want every node up", s)
			}
		}},
		{"a read is served although a replica is down", false, canStop[C], func(r *run[C]) {
			p := r.pool(nil)
			r.warm(p)
			bad := r.replicas()[0]
			r.Down(bad)
			for range 50 {
				name, err := r.where(p, nil)
				if err != nil || name == bad {
					r.Fatalf("Read = %q, %v, want it served elsewhere", name, err)
				}
			}
			r.eventually("the replica is known to be down", testkit.Limit, func() bool {
				return r.state(p, bad).State == replica.StateDown
			})
			if got, want := p.Stats().Healthy, len(r.Nodes)-1; got != want {
				r.Errorf("Healthy = %d, want %d", got, want)
			}
		}},
		{"RP-54 a pool starts with a replica down, which joins later", false, canStop[C], func(r *run[C]) {
			bad := r.replicas()[0]
			r.Down(bad)
			p := r.pool(nil)
			if name, err := r.where(p, nil); err != nil || name == bad || name == r.primary() {
				r.Fatalf("first Read = %q, %v, want it served by the other replica", name, err)
			}
			r.eventually("the replica is known to be down", testkit.Limit, func() bool { return r.state(p, bad).State == replica.StateDown })
			r.Heal(bad)
			r.eventually("the replica joins", 2*testkit.Limit, func() bool { return r.state(p, bad).State == replica.StateUp })
			r.eventually("the replica is read from", 2*testkit.Limit, func() bool {
				name, err := r.where(p, nil)
				return err == nil && name == bad
			})
		}},
		{"RP-19 without replicas reads go to the primary within the budget", false, canStop[C], func(r *run[C]) {
			p := r.pool(nil)
			r.warm(p)
			for _, name := range r.replicas() {
				r.Down(name)
			}
			r.eventually("the replicas are known to be down", testkit.Limit, func() bool { return p.Stats().Healthy == 1 })
			const reads = 400
			served := 0
			for range reads {
				start := time.Now()
				name, err := r.where(p, nil)
				switch {
				case err == nil && name == r.primary():
					served++
				case err == nil:
					r.Fatalf("Read went to %q, which is down", name)
				default:
					r.wantErr("Read beyond the budget", err, replica.ErrNoReplica, transparency.ErrRejected)
					r.wantAtOnce("Read beyond the budget", time.Since(start))
				}
			}
			if served < reads/5 || served > reads/5+10 {
				r.Errorf("%d of %d reads went to the primary, want a fifth and at most 10 more", served, reads)
			}
			if _, err := r.where(p, &replica.ReadOptions{NoPrimary: true}); !errors.Is(err, replica.ErrNoReplica) || !transparency.Retryable(err) {
				r.Errorf("Read with NoPrimary = %v, want a retryable ErrNoReplica", err)
			}
		}},
		{"RP-22 with everything dead a few nodes are tried, each once", false, nil, func(r *run[C]) {
			p := r.pool(nil)
			r.warm(p)
			var mu sync.Mutex
			var tried []string
			err := p.Read(r.Context(), &replica.ReadOptions{AttemptTimeout: r.attempt()}, func(ctx context.Context, c C) error {
				mu.Lock()
				tried = append(tried, r.name(c))
				mu.Unlock()
				<-ctx.Done()
				return ctx.Err()
			})
			r.wantErr("Read of a dead cluster", err, replica.ErrNoReplica, transparency.ErrUnavailable)
			if errors.Is(err, context.DeadlineExceeded) {
				r.Errorf("Read error = %v, passes for the end of the caller's context", err)
			}
			mu.Lock()
			defer mu.Unlock()
			distinct := slices.Compact(slices.Sorted(slices.Values(tried)))
			if len(tried) != replica.DefaultAttempts || len(distinct) != len(tried) {
				r.Errorf("Read tried %v, want %d different nodes", tried, replica.DefaultAttempts)
			}
			for _, name := range tried {
				if !strings.Contains(err.Error(), name) {
					r.Errorf("Read error = %q, does not name %s", err, name)
				}
			}
		}},
		{"RP-28 RP-29 a replica that hangs holds nobody beyond his context, and is found out", false, canHang[C], func(r *run[C]) {
			p := r.pool(&replica.Options{ProbeInterval: time.Hour, ProbeTimeout: 100 * time.Millisecond})
			r.warm(p)
			bad := r.replicas()[0]
			r.Hang(bad)
			const bound = 50 * time.Millisecond
			hung := 0
			r.eventually("the replica is known to be down", testkit.Limit, func() bool {
				ctx, cancel := context.WithTimeout(r.Context(), bound)
				defer cancel()
				start := time.Now()
				err := p.Read(ctx, nil, func(ctx context.Context, c C) error {
					_, _, err := r.Get(ctx, c, "key")
					return err
				})
				if err != nil {
					hung++
					r.wantErr("Read at a replica that hangs", err, context.DeadlineExceeded)
				}
				if took := time.Since(start); took > bound+50*time.Millisecond && r.fake {
					r.Errorf("Read took %v, want at most %v", took, bound)
				}
				return r.state(p, bad).State == replica.StateDown
			})
			if hung == 0 {
				r.Errorf("no read met the replica that hangs")
			}
			if n := r.state(p, bad); n.Failures != 0 {
				r.Errorf("%d callers that left count as failures of the replica", n.Failures)
			}
		}},
		{"a read finds what was written", false, replicated[C], func(r *run[C]) {
			p := r.pool(nil)
			if _, err := r.write(p, nil, "1"); err != nil {
				r.Fatalf("Write error = %v", err)
			}
			r.eventually("the write is read", testkit.Limit, func() bool {
				v, err := replica.Query(r.Context(), p, nil, func(ctx context.Context, c C) (string, error) {
					v, _, err := r.Get(ctx, c, "key")
					return v, err
				})
				return err == nil && v == "1"
			})
		}},
		{"a read within MaxLag waits for no one", false, replicated[C], func(r *run[C]) {
			p := r.pool(nil)
			r.warm(p)
			if _, err := r.write(p, nil, "1"); err != nil {
				r.Fatalf("Write error = %v", err)
			}
			r.eventually("the lag of each replica is known", testkit.Limit, func() bool {
				for _, name := range r.replicas() {
					if n := r.state(p, name); !n.LagKnown || n.Lag > 5*time.Second {
						return false
					}
				}
				return true
			})
			name, err := r.where(p, &replica.ReadOptions{MaxLag: 5 * time.Second, NoPrimary: true})
			if err != nil || name == r.primary() {
				r.Errorf("Read within MaxLag = %q, %v, want a replica", name, err)
			}
			r.eventually("a read with a MaxLag of 1ns is refused", testkit.Limit, func() bool {
				_, err = r.where(p, &replica.ReadOptions{MaxLag: 1, NoPrimary: true})
				return err != nil
			})
			r.wantErr("Read with a MaxLag of 1ns", err, replica.ErrTooStale, transparency.ErrUnavailable)
		}},
	}
}
