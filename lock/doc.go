// Package lock hides who else uses a resource: a [Mutex] spans goroutines and
// processes, in memory or in Redis, behind one interface.
//
// What still shows: asking can fail, last, or end with its outcome unknown. A
// lock between processes is a lease. It outlives a holder that crashed by its
// TTL and no longer, so a holder that was paused can lose it; the holder is
// told in time, and every lease has a fence with which the resource can refuse
// the one who was not there to be told.
//
// # Usage
//
// A [Locker] holds the locks of one process. [Do] covers a section:
//
//	locker := lock.NewRedis(client, nil) // or lock.NewMemory(nil)
//	defer locker.Close()
//
//	stock := locker.Mutex("stock:7", nil)
//	err := lock.Do(ctx, stock, func(ctx context.Context, fence uint64) error {
//		return warehouse.Take(ctx, 7, fence) // refuses a smaller fence than it has seen
//	})
//
// Lock and TryLock give the [Lease] itself. The Locker renews it by itself, in
// one goroutine for all leases, until it is unlocked or lost.
//
// A [Semaphore] is for what several may have at a time, and its permits are
// leases too. [RunLeader] keeps one process of many at work:
//
//	err = locker.Semaphore("api", 10, nil).Do(ctx, call) // ten calls at once, of all processes
//	err = lock.RunLeader(ctx, locker.Mutex("cron", nil), nil, work)
//
// Who is refused is told for how long, and by whom if the holder's Options say
// so ([HeldError]); an operator can end what hangs ([Locker.Break]).
//
// # The fence
//
// A process can be paused, between any two instructions, for longer than any
// TTL, and write on waking as if nothing had happened. No lock can prevent
// that, for the lock is not asked. The resource is: it remembers the greatest
// fence that it has seen, and refuses a smaller one. Each lease has a greater
// fence than the leases of its key before. Without such a check at the resource a
// lock saves work, and is wrong once in a while (Kleppmann, "How to do
// distributed locking", 2016; the fence is the sequencer of Burrows, "The
// Chubby lock service for loosely-coupled distributed systems", OSDI 2006;
// leases are those of Gray and Cheriton, "Leases: an efficient fault-tolerant
// mechanism for distributed file cache consistency", SOSP 1989).
//
// The check has to stand with the data: [Guard] is for a resource in this
// process, [RedisGuard] for data in Redis, [CheckFenced] for a row in an SQL
// database. With a new lease, call the guard's Check before the first read: the
// holder before can then not write any more what was read.
//
// # Guarantees
//
//	                             valid leases of a key  fences           loss is told
//	memory                       one                    rise             in time
//	one Redis, a steady Cluster  one                    rise             in time
//	Redis, after a failover or   two, until the older   rise, as far as  by the next
//	a restart that forgets       one's next renewal     clocks agree     renewal
//
// A guarded resource outside that Redis takes writes under the newest fence
// only, in every line. With n permits, a [Semaphore] has n where the table says
// one. In detail:
//
//   - Holders: on one store, at most one lease of a key is valid at a time,
//     judged by Lease.Err and Lease.ValidUntil; the history of holders is
//     linearizable as long as clocks run at rates that differ by less than the
//     margin, a tenth of the TTL and at most one second.
//   - Fences: strictly rising for each key, also after the store lost the last
//     one, as long as its clock was not set back meanwhile.
//   - Validity: counts from before the request that won was sent, less the
//     margin.
//   - Loss: told by a local timer no later than the key can expire, with no
//     reply needed; told at once when the store says that the key is
//     another's.
//   - Renewal: at a third of the TTL; trouble shorter than what is valid is
//     survived; a key that is gone is never made again.
//   - Suspend: time is over when either the monotonic or the wall clock says
//     so.
//   - A context ends: Lock returns at once and without a lease; what it may
//     have got is freed within moments, or by the TTL when the store cannot be
//     reached.
//   - Unlocking: frees only what is the lease's own; idempotent; works when
//     its context has ended; an unanswered release is tried again in the
//     background.
//   - Waiting: one contender for a key and process, first come first served
//     inside it, processes in turn; a release wakes one waiter. A turn costs
//     three round trips and five commands, for eight processes as for many.
//   - Lost wake-ups: cost at most a second, for every waiter asks that often,
//     whether one was lost or the subscription is dead. A waiter that died
//     costs nothing on a single server; there if it is paused, and elsewhere
//     in any case, 50 ms plus that second.
//   - A crashed holder: its key is free after the TTL and taken within
//     milliseconds.
//   - Breaking: the next in line has the lock at once; the holder that was
//     broken is told by its next renewal.
//
// The wall clock being set forward can end leases early. It never prolongs
// one: only durations are sent to the store.
//
// Not promised:
//
//   - That there is one holder across a failover, or a restart of a Redis that
//     does not persist. Redis replicates asynchronously, and a replica that is
//     promoted may not know the lock: then two leases are valid until the
//     older one's next renewal. Their fences still rise, if the clocks of the
//     servers agree, so what a resource outside that Redis accepts never goes
//     back. Waiting for replicas (WAIT) is not offered: it narrows the gap and
//     does not close it, for the replica that is promoted may be another.
//   - Strict order among processes. It is the order in which they asked, until
//     one fails to take what it was handed in time, or a holder crashes, whose
//     key goes to whoever asks first.
//   - That a section stops. Its context ends; it has to look.
//
// # What is absent
//
// Reentrancy: a goroutine has no identity that a lock could recognise, and a
// function that may or may not hold the lock cannot say what it relies on.
// Lock in the caller and pass the Lease, or the fence, down.
//
// Redlock: it asks a majority of independent servers, and still rests on
// bounded pauses and clocks, so it needs the same fence as one server does and
// cannot mint it. One server, or a Redis with Sentinel or Cluster, plus fences,
// promises as much for a fifth of the requests.
//
// # Redis
//
// Keys are API. For a prefix P ("lock:") and a key K they are, in one slot,
//
//	P{K}         string  the token of the holder, and after it " by " and its
//	                     Options.Holder, as redislock keeps token and metadata;
//	                     TTL as given
//	P{K}:fence   string  the fence last given; TTL one hour
//	P{K}:line    zset    the tokens that wait; TTL ten seconds, while any does
//	Pwake:O      channel the wake-ups of the Locker O, for all its keys
//
//	P{K}:permits        zset  of a semaphore, the same for each permit held, by
//	                          the time of its end; TTL of the longest
//	P{K}:permits:fence        as above
//	P{K}:permits:line         as above, each token with its number of permits
//
//	guard:{K}    string  the greatest fence that a RedisGuard accepted for its
//	                     key K; no TTL unless its options ask for one
//
// where %, { and } in P and K are written %25, %7B and %7D in a key. A lock is
// obtained by [github.com/bsm/redislock] with a random token, and in the same
// round trip mint.lua mints the fence or puts the token in line. renew.lua,
// release.lua and break.lua do the rest; all leases that are due are renewed in
// one pipeline. Releasing hands the key to the first in line for 50 ms (its
// token is followed by " next" until it has taken it), and redislock takes it
// from there, for it obtains a key anew that has its token. redislock's own
// script costs nothing beside it, and its refresh and its release are not used:
// a Lock from here and one obtained with redislock on the same key exclude each
// other. Semaphores, which redislock does not know, are permit.lua,
// permit_renew.lua and permit_release.lua, one round trip each.
//
// A client is made by go-redis v9:
//
//	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
//
// It should have ContextTimeoutEnabled set, or a command whose caller
// has gone keeps its connection until ReadTimeout; a Warn line says so. Its
// MaxRetries do not matter: what changes something is sent once. At most 48
// commands of a Locker are under way, and 4 renewals, and one connection is
// added while anyone waits. Redis 6.2 or newer is needed, with TIME, PUBLISH
// and the scripting commands allowed, and the channels Pwake:*. With a Ring,
// wake-ups may not arrive, and waiters poll.
//
// # Errors
//
// An error reads "lock: operation key: class: cause". The package's own
// answers are [ErrHeld], [ErrLost], [ErrReleased], [ErrClosed] and, of guards,
// [ErrStaleFence]: somebody has had the lock since, and nothing was written.
// Trouble with the store wraps a class of the root package: ErrUnavailable,
// ErrUncertain, ErrDenied, ErrInvalid. A waiter that was told to wait sits out
// trouble shorter than its TTL; who asks for the first time is told of it. When
// a context ends, its error is there too. A store that takes more than a sixth
// of the TTL to answer, twice, is ErrUnavailable: a lease that cannot be
// renewed in time is none. A Redis that is out of memory grants no lock and
// renews what is held; a Cluster's node that hangs costs the leases of its own
// keys.
//
// # Testing
//
// NewMemory keeps the same promises by the same engine and waits on nothing
// but channels and timers, so it runs in a testing/synctest bubble. Package
// locktest is the suite that every [Driver] passes.
package lock
