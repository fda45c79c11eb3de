package redistest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
)

// The primary dies, the client goes on with the promoted replica, and the dead one comes back as
// its replica.
func TestSentinelPromotesTheReplica(t *testing.T) {
	s := redistest.StartSentinel(t)
	client := s.Client(t)
	key := s.Prefix() + "k"
	set(t, client, key, "before", 0)
	s.Replica().AwaitSync(t, s.Primary())

	s.Primary().Kill()
	s.AwaitPrimary(t, s.Replica())
	if got := get(t, s.Replica().Client(t), key); got != "before" {
		t.Errorf("GET of the promoted = %q, want %q", got, "before")
	}
	waitFor(t, "the client finds the promoted", func() bool { return try(t, client, key, "after") == nil })
	if got := get(t, s.Replica().Client(t), key); got != "after" {
		t.Errorf("GET of the promoted = %q, want %q", got, "after")
	}

	s.Primary().Restart(t)
	s.Primary().AwaitSync(t, s.Replica())
	if got := get(t, s.Primary().Client(t), key); got != "after" {
		t.Errorf("GET of the one that came back = %q, want %q", got, "after")
	}
}

// A hung primary is replaced like a dead one, and what only it knew is gone when it wakes.
func TestSentinelReplacesAHungPrimary(t *testing.T) {
	s := redistest.StartSentinel(t)
	s.Primary().Pause()
	s.AwaitPrimary(t, s.Replica())
	client := s.Client(t)
	waitFor(t, "the client finds the promoted", func() bool { return try(t, client, s.Prefix()+"k", "v") == nil })
	s.Primary().Resume()
	s.Primary().AwaitSync(t, s.Replica())
	if got := get(t, s.Primary().Client(t), s.Prefix()+"k"); got != "v" {
		t.Errorf("GET of the one that woke = %q, want %q", got, "v")
	}
}

func TestReplica(t *testing.T) {
	primary := redistest.StartServer(t)
	client := primary.Client(t)
	key := primary.Prefix() + "k"
	set(t, client, key, "v", 0)
	replica := redistest.StartReplica(t, primary)
	if got := replica.Prefix(); got != primary.Prefix() {
		t.Errorf("Prefix() of the replica = %q, want %q", got, primary.Prefix())
	}
	copied := replica.Client(t)
	if got := get(t, copied, key); got != "v" {
		t.Errorf("GET of the replica = %q, want %q", got, "v")
	}
	for _, val := range []string{"a", "b", "c"} {
		set(t, client, key, val, 0)
		replica.AwaitSync(t, primary)
		if got := get(t, copied, key); got != val {
			t.Errorf("GET of the replica = %q, want %q", got, val)
		}
	}
	if err := try(t, copied, key, "w"); !redis.HasErrorPrefix(err, "READONLY") {
		t.Errorf("SET on the replica error = %v, want READONLY", err)
	}
	if err := copied.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	set(t, copied, key, "w", 0)
}

// A wait for what does not come fails, and says why.
func TestAwaitSyncOfAServerThatDied(t *testing.T) {
	primary := redistest.StartServer(t)
	other := redistest.StartServer(t)
	other.Kill()
	r := record(t, func(tb testing.TB) { other.AwaitSync(tb, primary) })
	if !strings.HasPrefix(r.outcome, "fatal: redistest: AwaitSync: 127.0.0.1:") || !strings.Contains(r.outcome, "exited early") {
		t.Errorf("outcome = %q, want fatal, exited early", r.outcome)
	}
}

// try sets a key, and gives up after a second.
func try(t *testing.T, client *redis.Client, key, val string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return client.Set(ctx, key, val, 0).Err()
}
