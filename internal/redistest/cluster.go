package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Cluster is a Redis Cluster of three primaries, without replicas.
type Cluster struct {
	nodes  []*process
	prefix string
}

const slots = 16384

// StartCluster returns a cluster of redis-server processes of this test's own, ready for use and
// stopped at its cleanup. It skips the test where there is no redis-server. It takes some seconds:
// a cluster node does not serve right after its start.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	requireServer(tb)
	Silence()
	c := &Cluster{prefix: newPrefix()}
	for range 3 {
		node, err := startProcess(tb.TempDir(), "--cluster-enabled", "yes", "--cluster-node-timeout", "5000")
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(node.kill)
		c.nodes = append(c.nodes, node)
		if err := c.join(node); err != nil {
			tb.Fatal(err)
		}
	}
	if err := c.ready(); err != nil {
		tb.Fatal(err)
	}
	tb.Logf("redistest: redis-server %s cluster on %s", c.nodes[0].version, strings.Join(c.Addrs(), ", "))
	return c
}

// join gives the newest node its third of the slots and makes it known to the first.
func (c *Cluster) join(node *process) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	i := len(c.nodes) - 1
	// Different epochs from the start save the nodes from settling them among themselves.
	err := node.admin.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err()
	if err == nil {
		err = node.admin.ClusterAddSlotsRange(ctx, slots*i/3, slots*(i+1)/3-1).Err()
	}
	if err == nil && i > 0 {
		err = c.nodes[0].admin.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(node.port)).Err()
	}
	if err != nil {
		return fmt.Errorf("redistest: cluster: %w", err)
	}
	return nil
}

// ready waits until every node knows all three and says that all slots are served.
func (c *Cluster) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for _, node := range c.nodes {
		err := poll(ctx, node.exited, func() error {
			info, err := node.admin.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			for _, want := range []string{"cluster_state:ok", "cluster_known_nodes:3", "cluster_slots_ok:16384"} {
				if !strings.Contains(info, want) {
					return errors.New("not yet " + want)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("redistest: cluster node %s: %w", node.addr(), err)
		}
	}
	return nil
}

// Addrs returns the host:port of each node.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		addrs[i] = node.addr()
	}
	return addrs
}

// Prefix returns what this test puts before its keys, as [Server.Prefix] does.
func (c *Cluster) Prefix() string { return c.prefix }

// Options returns fresh client options for the cluster, in the manner of [Server.Options]. MaxRedirects
// stays at its default: it bounds the answers MOVED and ASK, which a cluster client must follow.
func (c *Cluster) Options() *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs:                    c.Addrs(),
		ContextTimeoutEnabled:    true,
		MaxRetries:               -1,
		DialerRetries:            1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Client returns a new client of the cluster, closed at tb's cleanup.
func (c *Cluster) Client(tb testing.TB) *redis.ClusterClient {
	tb.Helper()
	client := redis.NewClusterClient(c.Options())
	tb.Cleanup(func() { _ = client.Close() })
	return client
}
