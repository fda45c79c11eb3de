package replica_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/faultnet"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/replica"
)

type redisPool = replica.Pool[*redis.Client]

// whereRedis reads once and returns the address of the server.
func whereRedis(ctx context.Context, p *redisPool, opts *replica.ReadOptions) (string, error) {
	return replica.Query(ctx, p, opts, func(ctx context.Context, c *redis.Client) (string, error) {
		_, _, err := redisGet(ctx, c, "key")
		return c.Options().Addr, err
	})
}

func incr(ctx context.Context, c *redis.Client) error { return c.Incr(ctx, "count").Err() }

func TestRedisRP12NeverSynced(t *testing.T) {
	c := startRedis(t, 1)
	lone := redistest.StartServer(t)
	client := lone.Client(t)
	if err := client.Do(t.Context(), "replicaof", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("a replica that never synced answers PING with %v", err)
	}
	nodes := append(c.nodes, replica.Node[*redis.Client]{Name: "lone", Client: client})
	p := newPool(t, replica.NewRedisBackend(nil), nodes, nil)
	warm(t, p)
	for range 30 {
		if addr, err := whereRedis(t.Context(), p, nil); err != nil || addr != c.servers["b"].Addr() {
			t.Fatalf("Read = %s, %v, want the replica that has the data", addr, err)
		}
	}
	if n := stateOf(t, p, "lone"); n.State != replica.StateNotReady || n.LagKnown || n.Err == nil {
		t.Errorf("the replica without data is %+v, want not ready and its lag unknown", n)
	}
}

func TestRedisRP13PrimaryKilled(t *testing.T) {
	c := startRedis(t, 1)
	opts := &replica.Options{ProbeInterval: 50 * time.Millisecond, MaxLinkDown: time.Hour, PrimaryShare: -1}
	p := c.pool(t, opts)
	warm(t, p)
	opts.MaxLinkDown = time.Second
	particular := c.pool(t, opts)
	warm(t, particular)
	c.stop("a")
	eventually(t, "the primary is known to be down", testkit.Limit, func() bool { return stateOf(t, p, "a").State == replica.StateDown })
	if _, err := whereRedis(t.Context(), p, nil); err != nil {
		t.Errorf("Read after the primary was killed = %v, want it served by the replica", err)
	}
	eventually(t, "the replica is left out", testkit.Limit, func() bool { return stateOf(t, particular, "b").State == replica.StateNotReady })
	_, err := whereRedis(t.Context(), particular, nil)
	wantErr(t, "Read beyond MaxLinkDown", err, replica.ErrNoReplica, transparency.ErrUnavailable)
}

// The proxy loses the answer of a command that the server has executed.
func TestRedisRP34AnswerLost(t *testing.T) {
	s := redistest.StartServer(t)
	proxy := faultnet.New(t, s.Addr())
	opts := s.Options()
	opts.Addr = proxy.Addr()
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	nodes := []replica.Node[*redis.Client]{{Name: "a", Client: client}}
	p := newPool(t, replica.NewRedisBackend(nil), nodes, &replica.Options{ProbeInterval: time.Hour})
	warm(t, p)
	calls := 0
	write := func(ctx context.Context, c *redis.Client) error {
		if calls++; calls == 1 {
			if err := c.Ping(ctx).Err(); err != nil { // there is a connection now
				return err
			}
			proxy.CutAfter(faultnet.ToClient, 0)
		}
		return incr(ctx, c)
	}
	err := p.Write(t.Context(), nil, write)
	wantErr(t, "Write whose answer is lost", err, replica.ErrMaybeExecuted, transparency.ErrUncertain)
	if n, _ := s.Client(t).Get(t.Context(), "count").Int(); n != 1 || calls != 1 {
		t.Errorf("count = %d after %d calls, want 1 after one", n, calls)
	}
	calls = 0
	if err := p.Write(t.Context(), &replica.WriteOptions{Idempotent: true}, write); err != nil || calls != 2 {
		t.Errorf("idempotent Write = %v after %d calls, want nil after two", err, calls)
	}

	// Not sent at all.
	proxy.Refuse(true)
	proxy.Reset()
	eventually(t, "Write at a server that refuses is told from one that was sent", testkit.Limit, func() bool {
		err := p.Write(t.Context(), nil, incr)
		return transparency.Retryable(err) && errors.Is(err, replica.ErrNoPrimary)
	})
	if n, _ := s.Client(t).Get(t.Context(), "count").Int(); n != 3 {
		t.Errorf("count = %d, want 3", n)
	}
}

// A client that sends a command again by itself knows only of the last try.
func TestRedisClientThatResends(t *testing.T) {
	s := redistest.StartServer(t)
	var log bytes.Buffer
	opts := s.Options()
	opts.MaxRetries, opts.MinRetryBackoff, opts.ContextTimeoutEnabled = 1, -1, false
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	b := replica.NewRedisBackend(&replica.RedisOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p := newPool(t, b, []replica.Node[*redis.Client]{{Name: "a", Client: client}}, &replica.Options{ProbeInterval: time.Hour})
	warm(t, p)
	s.Kill()
	err := p.Write(t.Context(), nil, incr)
	wantErr(t, "Write by a client that resends", err, replica.ErrMaybeExecuted)
	for _, option := range []string{"MaxRetries", "ContextTimeoutEnabled"} {
		if n := strings.Count(log.String(), option); n != 1 {
			t.Errorf("the log names %s %d times, want once: %s", option, n, log.String())
		}
	}
}

func TestRedisRP35UnblockedByFailover(t *testing.T) {
	c := startRedis(t, 1)
	p := c.pool(t, &replica.Options{ProbeInterval: time.Hour})
	warm(t, p)
	got := make(chan error, 1)
	var mu sync.Mutex
	var at []string
	go func() {
		got <- p.Write(t.Context(), &replica.WriteOptions{AttemptTimeout: -1}, func(ctx context.Context, cl *redis.Client) error {
			mu.Lock()
			at = append(at, cl.Options().Addr)
			mu.Unlock()
			return cl.BLPop(ctx, 0, "list").Err()
		})
	}()
	eventually(t, "it is blocked", testkit.Limit, func() bool {
		n, _ := c.admin["a"].InfoMap(t.Context(), "clients").Result()
		return n["Clients"]["blocked_clients"] == "1"
	})
	c.promote("b")
	if err := c.admin["b"].RPush(t.Context(), "list", "x").Err(); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "the end of Write", got); err != nil {
		t.Errorf("Write = %v, want it made again at the new primary", err)
	}
	if want := fmt.Sprint([]string{c.servers["a"].Addr(), c.servers["b"].Addr()}); fmt.Sprint(at) != want {
		t.Errorf("it was made at %v, want %v", at, want)
	}
}

// A write that was mistaken for a read fails at the replica, and goes once to
// the primary.
func TestRedisRP39MisroutedRead(t *testing.T) {
	c := startRedis(t, 1)
	p := c.pool(t, nil)
	warm(t, p)
	var at []string
	err := p.Read(t.Context(), nil, func(ctx context.Context, cl *redis.Client) error {
		at = append(at, cl.Options().Addr)
		return incr(ctx, cl)
	})
	if want := fmt.Sprint([]string{c.servers["b"].Addr(), c.servers["a"].Addr()}); err != nil || fmt.Sprint(at) != want {
		t.Errorf("Read = %v at %v, want nil at %v", err, at, want)
	}
	if n := stateOf(t, p, "b"); n.State != replica.StateUp || n.Failures != 0 {
		t.Errorf("the replica is %+v, want up", n)
	}
	err = p.Read(t.Context(), &replica.ReadOptions{NoPrimary: true}, incr)
	wantErr(t, "Read with NoPrimary that writes", err, replica.ErrNoReplica)
}

// An old primary that was paused, and comes back claiming, is not believed. It
// would still accept what it is sent: that is for the servers to prevent.
func TestRedisRP38PausedPrimaryResumes(t *testing.T) {
	c := startRedis(t, 2)
	p := c.pool(t, &replica.Options{ProbeInterval: 50 * time.Millisecond})
	warm(t, p)
	c.servers["a"].Pause()
	eventually(t, "the primary is known to be down", testkit.Limit, func() bool { return stateOf(t, p, "a").State == replica.StateDown })
	c.mu.Lock()
	c.down["a"] = true // not to be told to follow
	c.mu.Unlock()
	c.promote("b")
	eventually(t, "writes go on", testkit.Limit, func() bool { return p.Write(t.Context(), nil, incr) == nil })
	c.servers["a"].Resume()
	eventually(t, "the old primary claims again", testkit.Limit, func() bool {
		n := stateOf(t, p, "a")
		return n.Role == replica.RolePrimary && n.State == replica.StateUp
	})
	for range 20 {
		err := p.Write(t.Context(), nil, func(ctx context.Context, cl *redis.Client) error {
			if addr := cl.Options().Addr; addr != c.servers["b"].Addr() {
				return fmt.Errorf("sent to %s", addr)
			}
			return incr(ctx, cl)
		})
		if err != nil {
			t.Fatalf("Write = %v, want it at the new primary", err)
		}
	}
	if err := c.admin["a"].Set(t.Context(), "lost", "1", time.Minute).Err(); err != nil {
		t.Errorf("the old primary refuses (%v): the package page says that it does not", err)
	}
}

// One server under two names would get twice its share, and as the primary is
// not believed.
func TestRedisOneServerTwice(t *testing.T) {
	s := redistest.StartServer(t)
	p := newPool(t, replica.NewRedisBackend(nil), []replica.Node[*redis.Client]{
		{Name: "a", Client: s.Client(t)}, {Name: "b", Client: s.Client(t)},
	}, nil)
	warm(t, p)
	wantErr(t, "Write", p.Write(t.Context(), nil, incr), replica.ErrAmbiguousPrimary, transparency.ErrUnavailable)
	if n, err := s.Client(t).Exists(t.Context(), "count").Result(); n != 0 || err != nil {
		t.Errorf("count exists: %d, %v, want nothing written", n, err)
	}
}

// A replica that restarts as a primary looks like one that was promoted. The
// package page says so; this test shows it.
func TestRedisReplicaThatRestartsAsPrimary(t *testing.T) {
	c := startRedis(t, 1)
	p := c.pool(t, &replica.Options{ProbeInterval: 50 * time.Millisecond})
	warm(t, p)
	if err := c.admin["b"].Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	c.servers["b"].Kill()
	c.servers["b"].Restart(t)
	eventually(t, "it says that it is a primary", testkit.Limit, func() bool { return stateOf(t, p, "b").Role == replica.RolePrimary })
	var at string
	err := p.Write(t.Context(), nil, func(ctx context.Context, cl *redis.Client) error {
		at = cl.Options().Addr
		return incr(ctx, cl)
	})
	if b := c.servers["b"].Addr(); err != nil || at != b {
		t.Errorf("Write = %v at %s, want it at %s: the package page says so", err, at, b)
	}
}

func TestRedisRP43MasterDown(t *testing.T) {
	c := startRedis(t, 2)
	if err := c.admin["b"].ConfigSet(t.Context(), "replica-serve-stale-data", "no").Err(); err != nil {
		t.Fatal(err)
	}
	p := c.pool(t, &replica.Options{ProbeInterval: 50 * time.Millisecond})
	warm(t, p)
	c.stop("a")
	eventually(t, "the replica refuses", testkit.Limit, func() bool {
		_, _, err := redisGet(t.Context(), c.admin["b"], "key")
		return err != nil
	})
	for range 20 {
		if addr, err := whereRedis(t.Context(), p, nil); err != nil || addr != c.servers["c"].Addr() {
			t.Fatalf("Read = %s, %v, want the replica that answers", addr, err)
		}
	}
	eventually(t, "it is known to be not ready", testkit.Limit, func() bool { return stateOf(t, p, "b").State == replica.StateNotReady })
	if n := stateOf(t, p, "b"); n.Failures != 0 {
		t.Errorf("%d refusals count as failures", n.Failures)
	}
}

func TestRedisDenied(t *testing.T) {
	const password = "hunter2"
	s := redistest.StartServer(t)
	if err := s.Client(t).ConfigSet(t.Context(), "requirepass", password).Err(); err != nil {
		t.Fatal(err)
	}
	wrong := s.Options()
	wrong.Password = "not-" + password
	for name, opts := range map[string]*redis.Options{"no password": s.Options(), "wrong password": wrong} {
		client := redis.NewClient(opts)
		p := newPool(t, replica.NewRedisBackend(nil), []replica.Node[*redis.Client]{{Name: "a", Client: client}}, nil)
		warm(t, p)
		err := p.Write(t.Context(), nil, incr)
		wantErr(t, "Write with "+name, err, replica.ErrNoPrimary)
		if !errors.Is(err, transparency.ErrDenied) || strings.Contains(err.Error(), password) {
			t.Errorf("Write with %s = %v, want ErrDenied and no password", name, err)
		}
		_, err = whereRedis(t.Context(), p, nil)
		wantErr(t, "Read with "+name, err, replica.ErrNoReplica, transparency.ErrDenied)
		_ = client.Close()
	}
}

// A user who may not ask a server what it is.
func TestRedisProbeDenied(t *testing.T) {
	s := redistest.StartServer(t)
	for _, command := range []string{"ping", "info"} {
		if err := s.Client(t).Do(t.Context(), "acl", "setuser", "hunter2", "reset", "on", "nopass", "~*", "+@all", "-"+command).Err(); err != nil {
			t.Fatal(err)
		}
		opts := s.Options()
		opts.Username, opts.Password = "hunter2", "any"
		client := redis.NewClient(opts)
		p := newPool(t, replica.NewRedisBackend(nil), []replica.Node[*redis.Client]{{Name: "a", Client: client}}, nil)
		err := p.Write(t.Context(), nil, incr)
		wantErr(t, "Write without "+command, err, replica.ErrNoPrimary, transparency.ErrDenied)
		_, err = whereRedis(t.Context(), p, nil)
		wantErr(t, "Read without "+command, err, replica.ErrNoReplica, transparency.ErrDenied)
		if transparency.Retryable(err) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Read without %s = %v, want it not worth another try, and no user name", command, err)
		}
		_ = client.Close()
	}
}

// A read is what the callback sends, and nothing beside it.
func TestRedisReadSendsNothingOfItsOwn(t *testing.T) {
	c := startRedis(t, 1)
	p := c.pool(t, &replica.Options{ProbeInterval: time.Hour})
	warm(t, p)
	if err := c.admin["a"].ConfigSet(t.Context(), "repl-ping-replica-period", "3600").Err(); err != nil {
		t.Fatal(err)
	}
	c.servers["b"].AwaitSync(t, c.servers["a"]) // with the last of those pings
	before := c.servers["b"].Commands(t)
	for range 100 {
		if _, err := whereRedis(t.Context(), p, nil); err != nil {
			t.Fatal(err)
		}
	}
	after := c.servers["b"].Commands(t)
	for name, n := range after {
		if n -= before[name]; name == "get" && n != 100 || name != "get" && name != "replconf" && n != 0 {
			t.Errorf("100 reads sent %s %d times", name, n)
		}
	}
}

// The lab's fifth task: a replica that cannot be reached costs no read.
func TestStaticRolesAndABadReplica(t *testing.T) {
	var nodes []replica.Node[*redis.Client]
	for _, name := range []string{"master", "replica-1", "replica-2"} {
		n := replica.Node[*redis.Client]{Name: name, Role: replica.RoleReplica, Client: redistest.StartMini(t).Client(t)}
		if name == "master" {
			n.Role = replica.RolePrimary
		}
		nodes = append(nodes, n)
	}
	bad := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = bad.Close() })
	nodes = append(nodes, replica.Node[*redis.Client]{Name: "replica-bad", Role: replica.RoleReplica, Client: bad})
	p := newPool(t, replica.NewRedisBackend(&replica.RedisOptions{StaticRoles: true}), nodes, nil)
	master := nodes[0].Client.Options().Addr
	for range 50 {
		if addr, err := whereRedis(t.Context(), p, nil); err != nil || addr == master {
			t.Errorf("Read = %s, %v, want a replica", addr, err)
		}
	}
	if err := p.Write(t.Context(), nil, func(ctx context.Context, c *redis.Client) error {
		if c.Options().Addr != master {
			t.Errorf("Write went to %s", c.Options().Addr)
		}
		return incr(ctx, c)
	}); err != nil {
		t.Errorf("Write = %v", err)
	}
	eventually(t, "three of four are healthy", testkit.Limit, func() bool { return p.Stats().Healthy == 3 })

	nodes[1].Role = replica.RoleUnknown
	p = newPool(t, replica.NewRedisBackend(&replica.RedisOptions{StaticRoles: true}), nodes, nil)
	warm(t, p)
	if n := stateOf(t, p, "replica-1"); n.State == replica.StateUp || n.Err == nil {
		t.Errorf("a node without a role is %+v, want it refused", n)
	}
}
