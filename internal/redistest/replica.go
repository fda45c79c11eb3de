package redistest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
)

// StartReplica returns a redis-server process of this test's own that replicates of, which must be
// one as well, and is in sync with it. It stays a redis-server like any other: REPLICAOF NO ONE
// promotes it, and after a Restart it is a primary, empty.
func StartReplica(tb testing.TB, of *Server) *Server {
	tb.Helper()
	primary := of.own("StartReplica")
	s := StartServer(tb)
	s.prefix = of.prefix
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := s.proc.admin.ReplicaOf(ctx, "127.0.0.1", strconv.Itoa(primary.port)).Err(); err != nil {
		tb.Fatalf("redistest: StartReplica: %v", err)
	}
	s.AwaitSync(tb, of)
	return s
}

// AwaitSync returns when s is a replica of primary and has all that was written there before the
// call.
func (s *Server) AwaitSync(tb testing.TB, primary *Server) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	from, to := primary.own("AwaitSync"), s.own("AwaitSync")
	begin, err := from.replication(ctx)
	if err != nil {
		tb.Fatalf("redistest: AwaitSync: %v", err)
	}
	want, _ := strconv.ParseInt(begin["master_repl_offset"], 10, 64)
	err = poll(ctx, to.exited, func() error {
		state, err := to.replication(ctx)
		if err != nil {
			return err
		}
		got, _ := strconv.ParseInt(state["slave_repl_offset"], 10, 64)
		if state["master_port"] != strconv.Itoa(from.port) || state["master_link_status"] != "up" || got < want {
			return fmt.Errorf("is a %s of port %q, link %q, at %d of %d",
				state["role"], state["master_port"], state["master_link_status"], got, want)
		}
		return nil
	})
	if err != nil {
		tb.Fatalf("redistest: AwaitSync: %s: %v", to.addr(), err)
	}
}

// replication returns what a server says of its part in replication.
func (p *process) replication(ctx context.Context) (map[string]string, error) {
	info, err := p.admin.InfoMap(ctx, "replication").Result()
	return info["Replication"], err
}
