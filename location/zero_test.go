package location_test

import (
	"testing"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/location"
)

// What no constructor made has errors, and does not panic.
func TestZeroValues(t *testing.T) {
	for _, v := range []any{
		new(location.Registry), (*location.Registry)(nil),
		new(location.Registration), (*location.Registration)(nil),
		new(location.Balancer), (*location.Balancer)(nil),
		new(location.MemoryDriver), (*location.MemoryDriver)(nil),
		new(location.RedisDriver), (*location.RedisDriver)(nil),
		new(location.Env), (*location.Env)(nil), (*location.Static)(nil),
		location.Endpoint{}, location.Picked{}, location.State(200), location.Instance{},
	} {
		testkit.Zero(t.Context(), t, v, "Close")
	}
	var none location.Snapshot
	for range none.All() {
		t.Error("the zero Snapshot has an endpoint")
	}
}
