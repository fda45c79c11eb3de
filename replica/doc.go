// Package replica hides how many copies of the data there are, and which of
// them answers: a [ReplicaPool] spreads reads over the replicas of a database
// and keeps writes on its primary.
//
// What still shows: a read may see what was true a moment ago, for replicas
// lag; a call can be slow or fail; and a write whose connection broke may have
// happened or not. Whether a call reads or writes is said by the caller. It is
// never guessed from a statement, since a SELECT can write, lock, or need the
// primary for other reasons, and a lock taken at a replica excludes nobody.
//
// # Usage
//
//	pool, err := replica.New(replica.NewRedisBackend(nil), []replica.Node[*redis.Client]{
//		{Name: "a", Client: a},
//		{Name: "b", Client: b},
//		{Name: "c", Client: c},
//	}, nil)
//	if err != nil {
//		return err
//	}
//	defer pool.Close()
//
//	name, err := replica.Query(ctx, pool, nil, func(ctx context.Context, c *redis.Client) (string, error) {
//		return c.Get(ctx, "user:7:name").Result()
//	})
//	err = pool.Write(ctx, nil, func(ctx context.Context, c *redis.Client) error {
//		return c.Set(ctx, "user:7:name", "ada", 0).Err()
//	})
//
// Who is the primary is asked of the nodes, not configured, and followed
// through failovers. A callback gets the client of one node: a transaction or
// pipeline made with it stays there.
//
// # Guarantees
//
//	reads         at different nodes until one answers, at most Attempts, in a loop;
//	              at the primary only within a budget, and never with NoPrimary
//	writes        at the primary, once; again, and then once, only if certainly nothing
//	              was executed and a primary answers; more often only if Idempotent
//	a context     ends: the call returns at once, whatever the client does
//	a node hangs  at most MaxConcurrent callbacks are held by all of them together, each
//	              node's share apart, and calls that find no place wait no longer than
//	              their time limit
//	answers       of the database, and errors of the callback's own, are returned as they
//	              are, are never made again, and count as success
//	callers       that leave say nothing about a node; how long it had not answered does,
//	              and a probe follows
//	old data      a replica that never had its primary's data is not read from, nor one
//	              that has been without its primary for longer than MaxLinkDown
//	failover      is seen within ProbeInterval or by the first write; of two that claim
//	              to be primary it is the one whose history branched from the other's,
//	              or none
//
// Nodes are balanced by latency times load, the better of two that are drawn,
// or of all when there are three or fewer (Mitzenmacher, "The power of two
// choices in randomized load balancing", 2001), where a slow answer weighs at
// once and is forgotten over seconds (the peak EWMA of Finagle). Latencies
// within a factor of two are the same.
//
// Each node is probed every ProbeInterval, and at once when a call gives
// reason. A probe without answer takes it out of use, unless it answered a
// call meanwhile; so do three failures of calls in a row, if that leaves half
// of the replicas or if it is the first one out. A replica that was taken out
// stays out for 5 s, doubled each time up to a minute, until two probes
// in a row have found it well, and comes back to its whole share over 10 s. A minute of
// health takes one doubling back. When less than half are left, those that
// were taken out because of calls, and answer probes, are used too. A node
// that says that it is loading is left alone for a second.
//
// Not promised:
//
//   - Reading your own writes. A read may go to a replica that does not have
//     the write yet; ReadOptions.MaxLag bounds by how much. Where that
//     will not do, read inside Write.
//   - That a primary which was cut off, and does not know, refuses writes
//     sent to it by others. This pool stops sending within a probe of the promotion;
//     what was accepted there before is lost. The servers must prevent it
//     (min-replicas-to-write).
//   - That a promotion is told from a replica which restarts as a primary, out
//     of its own file and without configuration: its history branched from
//     the primary's too, and it is taken for the new one. Configure replicas so
//     that they start as replicas.
//   - That fn has stopped when a call returns early. Its context has ended.
//   - That a Read's callback runs once.
//
// # Redis
//
// A [RedisBackend] takes one *redis.Client for each server, and needs Redis
// 6.2 or later, with PING and INFO allowed. A probe is these two, in one round
// trip, on the connection that the client keeps for pipelines. No keys are used and
// nothing is stored. The role, the histories (master_replid, master_replid2),
// the offset and the link come from INFO replication. How far a replica lags is
// reckoned from offsets seen at this pool's own times, so that no clocks
// are compared and an idle primary leaves nobody behind. A server that never
// had a replica has no offset, and its lag is not known.
//
// Clients should have ContextTimeoutEnabled set, or a command whose caller has
// gone keeps its connection until ReadTimeout; and MaxRetries -1, or the client
// itself sends a write again that may have been executed, and no failed
// write is certain not to have been: [ErrMaybeExecuted] then takes the place
// of ErrUnavailable. A Warn line says so. PoolSize should be no less than the
// node's share of MaxConcurrent, which by default is 48 for all.
//
// A transaction that fails with EXECABORT was not executed, and Redis does not
// always say why. At a replica it is taken for one that writes, and made once
// at the primary; at the primary its error is returned, unless the roles turn
// out to have changed. In a pipeline that is no transaction, commands before
// one that was refused, as with READONLY or OOM, have been executed: the
// callback is to say so, by an error that wraps ErrUncertain.
//
// [RedisOptions.StaticRoles] takes the roles as given, for servers that know no
// replication, as an embedded one. Cluster is not for this package: its client
// routes by itself.
//
// # Errors
//
// The package's own answers are [ErrNoReplica], [ErrTooStale], [ErrNoPrimary],
// [ErrAmbiguousPrimary], [ErrMaybeExecuted] and [ErrClosed]. Those about
// nodes come in an [*AttemptsError], which lists each node and why it did not
// serve, and have a class of the root package: ErrUnavailable, ErrUncertain
// for a write that may have been executed, ErrRejected for a read that the
// budget kept from the primary, ErrDenied. The texts hold no secrets: what
// Redis quotes of keys and users is left out.
//
// # Testing
//
// A [MemoryCluster] is the fake: nodes that lag, hang, refuse, lose answers and
// are promoted as told, under the same pool, in a bubble of testing/synctest if
// you like. Package replicatest holds backends written elsewhere to [Backend],
// and runs against both.
package replica
