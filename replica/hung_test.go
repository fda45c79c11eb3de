package replica_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/replica"
)

// Servers that stop answering hold nobody up beyond his context, and little
// else.
func TestHungRedis(t *testing.T) {
	const callers = 1000
	const bound = 100 * time.Millisecond
	for _, op := range []string{"Read", "Read by clients that ignore deadlines", "Write", "Write by clients that ignore deadlines"} {
		t.Run(op, func(t *testing.T) {
			var servers []*redistest.Server
			var nodes []replica.Node[*redis.Client]
			for _, name := range []string{"a", "b", "c"} {
				s := redistest.StartServer(t)
				opts := s.Options()
				opts.ContextTimeoutEnabled = len(op) < 10
				client := redis.NewClient(opts)
				t.Cleanup(func() { _ = client.Close() })
				role := replica.RoleReplica
				if name == "a" {
					role = replica.RolePrimary
				}
				servers = append(servers, s)
				nodes = append(nodes, replica.Node[*redis.Client]{Name: name, Role: role, Client: client})
			}
			b := replica.NewRedisBackend(&replica.RedisOptions{StaticRoles: true})
			p := newPool(t, b, nodes, nil)
			warm(t, p)
			before := runtime.NumGoroutine()
			// What this machine takes, busy as it is, for no operation at all.
			late := slowest(callers, func() {
				ctx, cancel := context.WithTimeout(context.Background(), bound)
				defer cancel()
				<-ctx.Done()
			}) - bound
			for _, s := range servers {
				s.Pause()
			}
			took := slowest(callers, func() {
				ctx, cancel := context.WithTimeout(context.Background(), bound)
				defer cancel()
				var err error
				if op[0] == 'R' {
					_, err = whereRedis(ctx, p, nil)
				} else {
					err = p.Write(ctx, nil, incr)
				}
				// Or refused at once, when as many as may be are without an answer.
				if !errors.Is(err, context.DeadlineExceeded) && !transparency.Retryable(err) {
					t.Errorf("%s error = %v, want the context's, or one to try again after", op, err)
				}
			})
			left := runtime.NumGoroutine() - before
			for range 50 { // the callers' own are ending yet
				if left > 64 {
					time.Sleep(time.Millisecond)
					left = runtime.NumGoroutine() - before
				}
			}
			t.Logf("slowest %v (timers alone are %v late), %d goroutines left", took, late, left)
			if took > 2*bound+10*late {
				t.Errorf("the slowest came back after %v, want at most %v", took, 2*bound)
			}
			if left > 64 {
				t.Errorf("%d goroutines are left, want at most 64", left)
			}
			for _, s := range servers {
				s.Resume()
			}
			eventually(t, "all are gone", 15*time.Second, func() bool {
				return runtime.NumGoroutine() <= before && p.Stats().Running == 0
			})
			eventually(t, "reads and writes go on", 15*time.Second, func() bool {
				_, err := whereRedis(t.Context(), p, nil)
				return err == nil && p.Write(t.Context(), nil, incr) == nil
			})
		})
	}
}

// RP-29: also a caller alone, at a client that would wait for longer.
func TestRedisRP29HungServer(t *testing.T) {
	s := redistest.StartServer(t)
	opts := s.Options()
	opts.ContextTimeoutEnabled = false // it would wait for ReadTimeout, 3s
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	p := newPool(t, replica.NewRedisBackend(nil), []replica.Node[*redis.Client]{{Name: "a", Client: client}}, nil)
	warm(t, p)
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := whereRedis(ctx, p, nil)
	wantErr(t, "Read", err, context.DeadlineExceeded)
	took := time.Since(start)
	t.Logf("Read with 300ms took %v", took)
	if took > time.Second {
		t.Errorf("Read with 300ms took %v", took)
	}
}

// slowest calls fn n times at once and returns how long the slowest took.
func slowest(n int, fn func()) time.Duration {
	var most atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range n {
		wg.Go(func() {
			<-start
			began := time.Now()
			fn()
			took := int64(time.Since(began))
			for old := most.Load(); took > old && !most.CompareAndSwap(old, took); old = most.Load() {
			}
		})
	}
	close(start)
	wg.Wait()
	return time.Duration(most.Load())
}
