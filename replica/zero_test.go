package replica_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/replica"
)

// Zero values refuse to work, and do not panic.
func TestZeroValues(t *testing.T) {
	var p replica.Pool[*redis.Client]
	wantErr(t, "Read of a zero Pool", p.Read(t.Context(), nil, incr), transparency.ErrInvalid)
	wantErr(t, "Write of a zero Pool", p.Write(t.Context(), nil, incr), transparency.ErrInvalid)
	for c := range p.Changes(t.Context()) {
		t.Errorf("a zero Pool tells of %+v", c)
	}
	if n, s := p.Nodes(), p.Stats(); len(n) != 0 || s != (replica.Stats{}) {
		t.Errorf("Nodes, Stats = %v, %+v, want nothing", n, s)
	}
	if err := p.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	for name, b := range map[string]*replica.RedisBackend{"zero": {}, "new": replica.NewRedisBackend(nil)} {
		_, err := b.Probe(t.Context(), replica.Node[*redis.Client]{})
		wantErr(t, "Probe ("+name+") of a nil client", err, transparency.ErrInvalid)
		client := redistest.StartServer(t).Client(t)
		if s, err := b.Probe(t.Context(), replica.Node[*redis.Client]{Client: client}); err != nil || s.Role != replica.RolePrimary {
			t.Errorf("Probe (%s) = %+v, %v, want a primary", name, s, err)
		}
	}
	for _, v := range []any{
		new(replica.Pool[int]), (*replica.Pool[int])(nil),
		new(replica.MemoryCluster), (*replica.MemoryCluster)(nil),
		new(replica.MemoryNode), (*replica.MemoryNode)(nil),
		new(replica.RedisBackend), (*replica.RedisBackend)(nil),
		replica.Node[int]{}, replica.Role(200), replica.State(200), replica.Class(200), replica.Fault(200),
	} {
		testkit.Zero(t.Context(), t, v, "Close", "Redact")
	}
	if got := (&replica.AttemptsError{}).Error(); got != "" {
		t.Errorf("Error of a zero AttemptsError = %q", got)
	}
	if got := (&replica.AttemptsError{Reason: replica.ErrNoReplica}).Error(); got != "no replica" {
		t.Errorf("Error = %q, want the reason alone", got)
	}
}
