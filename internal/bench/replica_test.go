package main

import (
	"context"
	"testing"

	"github.com/go-transparency/transparency/replica"
)

func TestValue(t *testing.T) {
	v := value(12)
	if err := v.check(v.String()); err != nil {
		t.Errorf("check of what was written = %v, want nil", err)
	}
	for _, got := range []string{"", "12", "value ", "value 11", "value 120", "value x"} {
		if err := v.check(got); err == nil {
			t.Errorf("check(%q) = nil, want an error", got)
		}
	}
}

// Reads that the primary served, or that are not accounted for, are found out.
func TestOnlyReplicas(t *testing.T) {
	read := func(pool *replica.Pool[*replica.MemoryNode], n int) {
		t.Helper()
		for range n {
			if err := pool.Read(t.Context(), nil, func(context.Context, *replica.MemoryNode) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name     string
		replicas int
		reads    uint64
		ok       bool
	}{
		{"both read", 2, 50, true},
		{"one more than there were", 2, 51, false},
		{"the primary read", -1, 50, false},
	} {
		cluster := replica.NewMemoryCluster(&replica.MemoryOptions{Replicas: tt.replicas})
		pool, err := replica.New(cluster, cluster.Nodes(), nil)
		if err != nil {
			t.Fatal(err)
		}
		read(pool, 1)
		if err := allUp(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		read(pool, 49)
		if err := onlyReplicas(pool, tt.reads); (err == nil) != tt.ok {
			t.Errorf("%s: onlyReplicas = %v, want ok %v", tt.name, err, tt.ok)
		}
		if err := pool.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
