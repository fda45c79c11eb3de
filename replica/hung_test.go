package replica_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
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
			for _, s := range servers {
				s.Pause()
			}
			testkit.OnTime(t, callers, bound, func(ctx context.Context, _ int) {
				var err error
				if op[0] == 'R' {
					_, err = whereRedis(ctx, p, nil)
				} else {
					err = p.Write(ctx, nil, incr)
				}
				// Or refused at once: as many as may be are without an answer, or
				// on a slow machine the replicas are known to be down meanwhile.
				if !errors.Is(err, context.DeadlineExceeded) && !transparency.Retryable(err) && !errors.Is(err, transparency.ErrRejected) {
					t.Errorf("%s error = %v, want the context's, or a refusal", op, err)
				}
			})
			// The callers' own end a moment later.
			eventually(t, "at most 64 goroutines are left", testkit.Limit, func() bool { return runtime.NumGoroutine()-before <= 64 })
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
	testkit.OnTime(t, 1, 300*time.Millisecond, func(ctx context.Context, _ int) {
		_, err := whereRedis(ctx, p, nil)
		wantErr(t, "Read", err, context.DeadlineExceeded)
	})
}
