package replica_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/replica"
	"github.com/go-transparency/transparency/replica/replicatest"
)

// A redisCluster is a primary and its replicas, each a redis-server of its own.
type redisCluster struct {
	t       *testing.T
	names   []string
	servers map[string]*redistest.Server
	admin   map[string]*redis.Client
	nodes   []replica.Node[*redis.Client]

	mu      sync.Mutex
	primary string
	down    map[string]bool
}

// startRedis starts one primary and n replicas, in step.
func startRedis(t *testing.T, replicas int) *redisCluster {
	t.Helper()
	c := &redisCluster{
		t: t, primary: "a", servers: map[string]*redistest.Server{},
		admin: map[string]*redis.Client{}, down: map[string]bool{},
	}
	for i := range 1 + replicas {
		name := string(rune('a' + i))
		s := redistest.StartServer(t)
		c.names = append(c.names, name)
		c.servers[name] = s
		c.admin[name] = s.Client(t)
		c.nodes = append(c.nodes, replica.Node[*redis.Client]{Name: name, Client: s.Client(t)})
		c.prepare(name)
	}
	for _, name := range c.names[1:] {
		c.follow(name, "a")
	}
	for _, name := range c.names[1:] {
		c.synced(name)
	}
	return c
}

// prepare lets the replicas of an idle primary hear from it often, and so know
// their lag.
func (c *redisCluster) prepare(name string) {
	if err := c.admin[name].ConfigSet(context.Background(), "repl-ping-replica-period", "1").Err(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *redisCluster) follow(name, primary string) {
	host, port, _ := net.SplitHostPort(c.servers[primary].Addr())
	if err := c.admin[name].Do(context.Background(), "replicaof", host, port).Err(); err != nil {
		c.t.Fatalf("replicaof: %v", err)
	}
}

func (c *redisCluster) synced(name string) {
	c.t.Helper()
	b := replica.NewRedisBackend(nil)
	eventually(c.t, name+" has synced", testkit.Limit, func() bool {
		s, err := b.Probe(context.Background(), replica.Node[*redis.Client]{Name: name, Client: c.admin[name]})
		return err == nil && s.Role == replica.RoleReplica && s.LinkDown == 0
	})
}

func (c *redisCluster) stop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down[name] = true
	c.servers[name].Kill()
}

func (c *redisCluster) heal(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.down[name] {
		c.servers[name].Resume()
		return
	}
	delete(c.down, name)
	c.servers[name].Restart(c.t)
	c.admin[name] = c.servers[name].Client(c.t)
	c.prepare(name)
	if name != c.primary {
		c.follow(name, c.primary)
	}
}

func (c *redisCluster) promote(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.primary = name
	if err := c.admin[name].Do(context.Background(), "replicaof", "no", "one").Err(); err != nil {
		c.t.Fatal(err)
	}
	for _, other := range c.names {
		if other != name && !c.down[other] {
			c.follow(other, name)
		}
	}
}

func (c *redisCluster) pool(t *testing.T, opts *replica.Options) *replica.Pool[*redis.Client] {
	return newPool(t, replica.NewRedisBackend(nil), c.nodes, opts)
}

func redisGet(ctx context.Context, c *redis.Client, key string) (string, bool, error) {
	v, err := c.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	return v, err == nil, err
}

func redisSet(ctx context.Context, c *redis.Client, key, value string) error {
	return c.Set(ctx, key, value, time.Minute).Err()
}

func openRedis(t *testing.T) replicatest.Cluster[*redis.Client] {
	c := startRedis(t, 2)
	return replicatest.Cluster[*redis.Client]{
		Backend: replica.NewRedisBackend(nil), Nodes: c.nodes, Replicated: true,
		Get: redisGet, Set: redisSet,
		Down: c.stop, Hang: func(name string) { c.servers[name].Pause() }, Heal: c.heal, Promote: c.promote,
	}
}

// openStatic opens servers that know nothing of each other.
func openStatic(client func(i int) *redis.Client) replicatest.Cluster[*redis.Client] {
	var nodes []replica.Node[*redis.Client]
	for i := range 3 {
		n := replica.Node[*redis.Client]{Name: fmt.Sprint("server-", i), Role: replica.RoleReplica, Client: client(i)}
		if i == 0 {
			n.Role = replica.RolePrimary
		}
		nodes = append(nodes, n)
	}
	return replicatest.Cluster[*redis.Client]{
		Backend: replica.NewRedisBackend(&replica.RedisOptions{StaticRoles: true}),
		Nodes:   nodes, Get: redisGet, Set: redisSet,
	}
}
