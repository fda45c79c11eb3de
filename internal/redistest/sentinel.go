package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Sentinel is a primary with one replica, and three sentinels that promote the replica when the
// primary has been dead or paused for half a second.
type Sentinel struct {
	primary, replica *Server
	sentinels        []*process
}

const (
	// sentinelName is what the sentinels call their primary.
	sentinelName = "transparency"

	// A shorter down-after would promote the replica of a primary that only waits for its turn on a
	// busy machine.
	sentinelConfig = `sentinel monitor ` + sentinelName + ` 127.0.0.1 %d 2
sentinel down-after-milliseconds ` + sentinelName + ` 500
sentinel failover-timeout ` + sentinelName + ` 1000
`
)

// StartSentinel returns a primary, a replica in sync with it and three sentinels that know all of
// them: redis-server processes of this test's own, stopped at its cleanup. It skips the test where
// there is no redis-server.
func StartSentinel(tb testing.TB) *Sentinel {
	tb.Helper()
	primary := StartServer(tb)
	s := &Sentinel{primary: primary, replica: StartReplica(tb, primary)}
	s.replica.prefix = primary.prefix
	for range 3 {
		p, err := startSentinel(tb.TempDir(), primary.process().port)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(p.kill)
		s.sentinels = append(s.sentinels, p)
	}
	s.await(tb, primary, func(state map[string]string) error {
		if state["num-other-sentinels"] != "2" || state["num-slaves"] != "1" {
			return fmt.Errorf("knows %s sentinels and %s replicas", state["num-other-sentinels"], state["num-slaves"])
		}
		return nil
	})
	tb.Logf("redistest: sentinels on %s", strings.Join(s.Addrs(), ", "))
	return s
}

func startSentinel(dir string, primary int) (*process, error) {
	file := filepath.Join(dir, "sentinel.conf") // a sentinel writes down there what it learns
	if err := os.WriteFile(file, fmt.Appendf(nil, sentinelConfig, primary), 0o600); err != nil {
		return nil, err
	}
	p, err := startProcess(dir, file, "--sentinel")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	// What it asks or says every second to ten it now does at once, and when it could not run for a
	// while it mistrusts its clock for a second, not thirty. Before Redis 7.0 there is no such
	// command, and all takes longer.
	_ = p.admin.Do(ctx, "SENTINEL", "DEBUG",
		"INFO-PERIOD", 100, "PUBLISH-PERIOD", 100, "ASK-PERIOD", 100, "TILT-PERIOD", 1000).Err()
	return p, nil
}

// Primary returns the server that was the primary at first, whatever became of it.
func (s *Sentinel) Primary() *Server { return s.primary }

// Replica returns the server that was the replica at first, whatever became of it.
func (s *Sentinel) Replica() *Server { return s.replica }

// Addrs returns the host:port of each sentinel.
func (s *Sentinel) Addrs() []string {
	addrs := make([]string, len(s.sentinels))
	for i, p := range s.sentinels {
		addrs[i] = p.addr()
	}
	return addrs
}

// Prefix returns what this test puts before its keys, as [Server.Prefix] does.
func (s *Sentinel) Prefix() string { return s.primary.Prefix() }

// Options returns fresh client options for the primary, in the manner of [Server.Options].
func (s *Sentinel) Options() *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName:            sentinelName,
		SentinelAddrs:         s.Addrs(),
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		DialerRetries:         1,
		DisableIdentity:       true,
	}
}

// Client returns a new client of the primary, whichever that is, closed at tb's cleanup.
func (s *Sentinel) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	client := redis.NewFailoverClient(s.Options())
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// AwaitPrimary returns when all sentinels name want as the primary, and it takes writes. What is
// to bring that about is for the test: kill or pause the other.
func (s *Sentinel) AwaitPrimary(tb testing.TB, want *Server) {
	tb.Helper()
	s.await(tb, want, func(map[string]string) error { return nil })
}

// await polls until every sentinel sees want as a primary in good health, with ok content as well.
func (s *Sentinel) await(tb testing.TB, want *Server, ok func(state map[string]string) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	p := want.own("AwaitPrimary")
	for _, sentinel := range s.sentinels {
		err := poll(ctx, sentinel.exited, func() error {
			cmd := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", sentinelName)
			if err := sentinel.admin.Process(ctx, cmd); err != nil {
				return err
			}
			state := cmd.Val()
			if state["port"] != strconv.Itoa(p.port) || state["flags"] != "master" {
				return fmt.Errorf("names %s:%s (%s)", state["ip"], state["port"], state["flags"])
			}
			return ok(state)
		})
		if err != nil {
			sentinel.kill()
			tb.Fatalf("redistest: sentinel %s: %v\n%s", sentinel.addr(), err, sentinel.log.String())
		}
	}
	err := poll(ctx, p.exited, func() error {
		switch role, err := p.replication(ctx); {
		case err != nil:
			return err
		case role["role"] != "master":
			return errors.New("is a " + role["role"])
		}
		return nil
	})
	if err != nil {
		tb.Fatalf("redistest: primary %s: %v", p.addr(), err)
	}
}
