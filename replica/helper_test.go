package replica_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/replica"
)

// newPool returns a pool that is closed at cleanup.
func newPool[C any](t *testing.T, b replica.Backend[C], nodes []replica.Node[C], opts *replica.Options) *replica.Pool[C] {
	t.Helper()
	p, err := replica.New(b, nodes, opts)
	if err != nil {
		t.Fatalf("New error = %v", err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// warm makes the first read, and waits until every node has been asked.
func warm[C any](t *testing.T, p *replica.Pool[C]) {
	t.Helper()
	_ = p.Read(t.Context(), nil, func(context.Context, C) error { return nil })
	eventually(t, "every node has been asked", 10*time.Second, func() bool {
		for _, n := range p.Nodes() {
			if n.State == replica.StateUnknown {
				return false
			}
		}
		return true
	})
}

func stateOf[C any](t *testing.T, p *replica.Pool[C], name string) replica.NodeStatus {
	t.Helper()
	for _, n := range p.Nodes() {
		if n.Name == name {
			return n
		}
	}
	t.Fatalf("no node %q", name)
	return replica.NodeStatus{}
}

func wantErr(t *testing.T, op string, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("%s error = %v, want one wrapping %q", op, err, w)
		}
	}
}

func eventually(t *testing.T, what string, d time.Duration, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, what, d, cond)
}
