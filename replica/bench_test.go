package replica

import (
	"context"
	"testing"
)

func benchPool(b *testing.B, replicas int) *Pool[*MemoryNode] {
	c := NewMemoryCluster(&MemoryOptions{Replicas: replicas})
	p, err := New(c, c.Nodes(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Close() })
	if err := p.Read(context.Background(), nil, func(context.Context, *MemoryNode) error { return nil }); err != nil {
		b.Fatal(err)
	}
	if err := p.await(context.Background(), func(v *view[*MemoryNode]) bool { return v.round }); err != nil {
		b.Fatal(err)
	}
	return p
}

func BenchmarkPick(b *testing.B) {
	for name, replicas := range map[string]int{"two": 2, "ten": 10} {
		b.Run(name, func(b *testing.B) {
			p := benchPool(b, replicas)
			b.ReportAllocs()
			for b.Loop() {
				f := filter[*MemoryNode]{now: p.now()}
				if pick(p.view.Load().readers, &f) == nil {
					b.Fatal("nobody")
				}
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	p := benchPool(b, 2)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	fn := func(context.Context, *MemoryNode) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Read(ctx, nil, fn); err != nil {
			b.Fatal(err)
		}
	}
}
