package replicatest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/replica"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	client  = *replica.MemoryNode
	backend struct {
		*replica.MemoryCluster
		probe    func(ctx context.Context, n replica.Node[client]) (replica.Status, error)
		classify func(err error, role replica.Role) replica.Class
	}
)

func (b *backend) Probe(ctx context.Context, n replica.Node[client]) (replica.Status, error) {
	if b.probe != nil {
		return b.probe(ctx, n)
	}
	return b.MemoryCluster.Probe(ctx, n)
}

func (b *backend) Classify(err error, role replica.Role) replica.Class {
	if b.classify != nil {
		return b.classify(err, role)
	}
	return b.MemoryCluster.Classify(err, role)
}

func open(good *replica.MemoryCluster, b replica.Backend[client]) Cluster[client] {
	return Cluster[client]{
		Backend: b, Nodes: good.Nodes(), Replicated: true,
		Get:     func(ctx context.Context, n client, key string) (string, bool, error) { return n.Get(ctx, key) },
		Set:     func(ctx context.Context, n client, key, value string) error { return n.Set(ctx, key, value) },
		Down:    func(name string) { good.Node(name).SetFault(replica.FaultDown) },
		Hang:    func(name string) { good.Node(name).SetFault(replica.FaultHang) },
		Heal:    func(name string) { good.Node(name).SetFault(replica.FaultNone) },
		Promote: good.Promote,
	}
}

// status changes what every good probe says.
func status(change func(n replica.Node[client], s *replica.Status)) func(*backend) {
	return func(b *backend) {
		b.probe = func(ctx context.Context, n replica.Node[client]) (replica.Status, error) {
			s, err := b.MemoryCluster.Probe(ctx, n)
			if err == nil {
				change(n, &s)
			}
			return s, err
		}
	}
}

// class changes what errors mean.
func class(change func(err error, c replica.Class) replica.Class) func(*backend) {
	return func(b *backend) {
		b.classify = func(err error, role replica.Role) replica.Class {
			return change(err, b.MemoryCluster.Classify(err, role))
		}
	}
}

// from turns one class into another.
func from(wrong, right replica.Class) func(*backend) {
	return class(func(_ error, c replica.Class) replica.Class {
		if c == right {
			return wrong
		}
		return c
	})
}

// A mutant is the memory backend with a fault that such backends have had, and
// the check that has to find it.
var mutants = []struct {
	name  string
	finds string
	spoil func(*backend)
}{
	{"everybody is primary", "a probe tells the role", status(func(_ replica.Node[client], s *replica.Status) { s.Role = replica.RolePrimary })},
	{"unknown lag is a broken link", "a probe tells the role", status(func(_ replica.Node[client], s *replica.Status) { s.LinkDown = -1 })},
	{"no epochs", "offsets tell what has arrived", status(func(_ replica.Node[client], s *replica.Status) { s.Epoch = "" })},
	{"offsets stand still", "offsets tell what has arrived", status(func(_ replica.Node[client], s *replica.Status) { s.Offset = 1 })},
	{"offsets run ahead of the data", "offsets tell what has arrived", func(b *backend) {
		for _, n := range b.Nodes() {
			n.Client.SetLag(time.Second)
		}
		status(func(_ replica.Node[client], s *replica.Status) {
			if s.Role == replica.RoleReplica {
				s.Offset += 5
			}
		})(b)
	}},
	{"the epoch outlives a failover", "RP-36 a promotion begins a history and names the last", status(func(_ replica.Node[client], s *replica.Status) { s.Epoch = "always" })},
	{"a promotion does not name its past", "RP-36 a promotion begins a history and names the last", status(func(_ replica.Node[client], s *replica.Status) { s.Previous = "" })},
	{"roles are those of the start", "RP-36 roles are followed under live connections", status(func(n replica.Node[client], s *replica.Status) {
		s.Role = replica.RoleReplica
		if n.Name == "node-1" {
			s.Role = replica.RolePrimary
		}
	})},
	{"a refused write is an answer", "RP-36 a write at a replica is misrouted", from(replica.ClassApp, replica.ClassMisrouted)},
	{"a demoted primary is down", "RP-33 a write at a primary that was demoted goes once to the new one", from(replica.ClassApp, replica.ClassMisrouted)},
	{"answers are failures", "RP-26 errors of the callback are answers", from(replica.ClassDown, replica.ClassApp)},
	{"answers are tried elsewhere", "RP-26 an answer is returned as it is, once", from(replica.ClassUnknown, replica.ClassApp)},
	{"a caller's end is an answer", "the end of a context tells nothing", class(func(err error, c replica.Class) replica.Class {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return replica.ClassApp
		}
		return c
	})},
	{"what timed out was not sent", "the end of a context tells nothing", from(replica.ClassDown, replica.ClassUnknown)},
	{"a refused dial may have been sent", "a node that is down was sent nothing", from(replica.ClassUnknown, replica.ClassDown)},
	{"probes do not fail", "a read is served although a replica is down", func(b *backend) {
		b.probe = func(_ context.Context, n replica.Node[client]) (replica.Status, error) {
			s := replica.Status{Role: replica.RoleReplica, Epoch: "e", Offset: 1}
			if n.Name == "node-1" {
				s.Role = replica.RolePrimary
			}
			return s, nil
		}
	}},
	{"failed probes say nothing", "RP-21 without a primary reads are served and writes fail fast", from(replica.ClassOverload, replica.ClassDown)},
	{"probes outlast their contexts", "a probe ends with its context", func(b *backend) {
		b.probe = func(ctx context.Context, n replica.Node[client]) (replica.Status, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return b.MemoryCluster.Probe(ctx, n)
		}
	}},
	{"a node that failed once is given up", "RP-54 a pool starts with a replica down, which joins later", func(b *backend) {
		var mu sync.Mutex
		failed := map[string]bool{}
		b.probe = func(ctx context.Context, n replica.Node[client]) (replica.Status, error) {
			mu.Lock()
			defer mu.Unlock()
			s, err := b.MemoryCluster.Probe(ctx, n)
			if err != nil || failed[n.Name] {
				failed[n.Name] = true
				return s, errors.New("given up")
			}
			return s, nil
		}
	}},
}

// A check that has never failed is unproven.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			all := checks[client]()
			i := slices.IndexFunc(all, func(c check[client]) bool { return c.name == m.finds })
			if i < 0 {
				t.Fatalf("there is no check %q", m.finds)
			}
			synctest.Test(t, func(t *testing.T) {
				good := replica.NewMemoryCluster(nil)
				b := &backend{MemoryCluster: good}
				m.spoil(b)
				if found := failures(t, all[i], good, b); len(found) == 0 {
					t.Errorf("check %q does not find it", m.finds)
				}
			})
		})
	}
}

// The good backend passes as a mutant would be run.
func TestNoMutant(t *testing.T) {
	for _, c := range checks[client]() {
		synctest.Test(t, func(t *testing.T) {
			good := replica.NewMemoryCluster(nil)
			if found := failures(t, c, good, &backend{MemoryCluster: good}); len(found) != 0 {
				t.Errorf("check %q fails: %v", c.name, found)
			}
		})
	}
}

// failures runs a check and returns what it reports.
func failures(t *testing.T, c check[client], good *replica.MemoryCluster, b *backend) []string {
	return testkit.Record(t.Context(), func(rec *testkit.Recorder) {
		c.fn(&run[client]{reporter: rec, Cluster: open(good, b), fake: true})
	})
}
