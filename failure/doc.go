// Package failure hides failures of what is called, where they can be hidden:
// policies around a call repeat it, bound it, replace it, or keep it from being
// made. A [Breaker] is one of them, for one process or for a whole fleet.
//
// What still shows: that a call can fail, be refused on this side, last as long
// as its time limit, or end with its outcome unknown. Nothing is repeated that
// may have had an effect, unless the caller says that it may; and no policy
// puts a zero value, or an error of its own alone, where the real error was.
//
// # Usage
//
// [Call] makes a call through policies, the outermost first:
//
//	breaker := failure.NewLocalBreaker(&failure.BreakerOptions{Name: "users"})
//	retry := failure.NewRetry(nil)
//	limit := failure.NewTimeout(time.Second, nil)
//
//	user, err := failure.Call(ctx, func(ctx context.Context) (User, error) {
//		return users.Load(ctx, 7)
//	}, retry, breaker, limit)
//
// Policies are made once and shared: what a breaker has learned and what a
// budget has left belong to the service, not to the call.
//
// # Order
//
// A [Standard] is a policy that puts others in this order, from the outside:
//
//	Fallback   answers whatever happened (not in a Standard, for it has a type)
//	Whole      a Timeout of all of it: the attempts and the pauses between them
//	Retry      outside of the rest, so that each attempt is admitted, counted and bounded by itself
//	Hedge      outside of the breaker, which sees its attempts; those that it cancels are ignored
//	Breaker    outside of the limits of this side: it ignores what they refuse, and while it is open
//	           nobody waits for them
//	RateLimit  outside of the time limit: to wait for a turn takes none of the service's time
//	Timeout    of each attempt
//	Bulkhead   next to the call, so that one which was abandoned keeps its place until it ends
//
// Other orders are possible, and mostly wrong: a Retry within a breaker hides
// its attempts from it; a Timeout around a Retry alone lets one attempt use up
// the time of all; a Bulkhead around an abandoning Timeout has free places while
// the service has none.
//
// # Policies
//
// [Retry] makes a call again that had no effect, or may be made twice
// ([WithIdempotent] says so of one call). A [Budget] bounds what this adds to
// the load. [Timeout] gives a call a time limit, and waits for one that does not
// heed it, or abandons it. [Hedge] makes a slow call a second time beside the
// first. [Bulkhead] bounds how many are under way, [RateLimit] how many in a
// time. [LocalBreaker] and [SharedBreaker] keep calls from a service that fails.
// [Fallback] answers in the place of a call that failed.
//
// [Transport] is all of them for HTTP, with policies for each host, and package
// grpcpolicy, a module of its own, for gRPC.
//
// # Guarantees
//
// Of every breaker:
//
//	a refusal          is told as ErrOpen with when to come again, at once; the call is not made
//	probes             exactly as many as wanted, of any number of callers at once
//	panic, Goexit      pass through unchanged; they are not counted, and a probe's place is free again
//	a hung probe       holds its place for ProbeTimeout; what comes of it later is dropped
//	late results       of calls begun before a change of state are dropped
//	cancelled callers  are not counted; deadlines that pass are failures
//	failures in a row  are counted however far apart; a ratio, of failures or of slow calls, within a window,
//	                   to which a call belongs by its end
//	slow calls         are those longer than Slow, if that is set; a slow probe has failed
//	clocks             a wall clock set back changes nothing; a suspend ages the window and the open time,
//	                   and so does a wall clock set forward
//	changes            are told in order and numbered; no reader of them can delay a call
//
// Of a shared one, moreover:
//
//	calls              read local state; they send nothing and wait for nobody
//	opening            takes a quorum of the live instances; one alone opens for itself
//	news               reach the others by Pub/Sub at once, and by polling within Poll when that is lost
//	open times         are kept by the server's clock; set back, it at most doubles them
//	probing            one instance at a time, after the open time, until its lease ends; a call that
//	                   comes first then is refused with a short time to wait, and asks for the lease
//	verdicts           count once, from who holds the lease, for the opening that it was granted for
//	a lost store       dead, slow, flushed, or written by another version: its errors reach no caller,
//	                   and each instance goes on as a LocalBreaker until the store answers
//
// Of a [Retry]: what may have had an effect is not repeated unless Idempotent;
// the budget is charged when an attempt is scheduled, and the first attempt
// never; it never waits for what cannot come before the deadline; the last real
// error is in its error, and so is that an earlier attempt may have had an
// effect.
//
// Of the others:
//
//	Hedge      makes a call twice only if it may be; takes the first success; cancels the other attempts,
//	           and gives what they bring late to Discard; a failure is told when all have failed
//	Bulkhead   never has more calls under way than places; first come, first served; a caller that
//	           goes away costs the others nothing
//	RateLimit  tells who would wait too long when to come again, at once, and takes no turn for that
//	Timeout    returns on time when it abandons, and makes no call while too many abandoned ones go on
//	Transport  sends a request twice only by net/http's rule or if it is PUT or DELETE, and a body only as
//	           GetBody gives it again; closes every response but the one it returns, which can be read
//	           until it is closed; keeps policies for a bounded number of hosts
//	panics     pass through all of them, from other goroutines too, and so does Goexit; of a call that
//	           nobody waits for any more they are logged
//
// Not promised:
//
//   - That an abandoned call ends. Its context does; a [Timeout] that does not
//     abandon waits for it.
//   - That a place in a bulkhead, or a Timeout, spans the body of an HTTP
//     response: in a Transport they end with its head.
//   - That one instance probes while the store is lost. Each does then.
//   - That retries in several processes know of each other. [Attempt] tells
//     what is known in this one, to be passed on.
//
// # gobreaker
//
// A [LocalBreaker] stands on [github.com/sony/gobreaker/v2], which counts the
// calls, judges them by the rules given here, and admits the probes; its
// clockwork and its lock are most of the cost of a call. The gate in front of it
// adds what it lacks: permits that come back from a panic, a Goexit or a hang;
// open times that grow and differ; a rule of slow calls; a time to come again;
// the switches by hand; and changes told outside its lock. Its distributed
// breaker is not used: that holds a lock of the whole fleet while a call runs.
//
// # Redis
//
// Keys are API. For a prefix P ("breaker:") and a name N they are, in one slot,
//
//	P{N}        hash    the breaker, since it first opened; TTL one hour beyond its open time
//	P{N}:live   zset    the live instances by the end of their lives; TTL as theirs
//	P{N}:votes  zset    those whose own calls have opened it; TTL likewise
//	P{N}:wake   channel tells that something was decided
//
// where %, { and } in P and N are written %25, %7B and %7D. exchange.lua is the
// one script: each instance runs it once in a Poll, and at once when it has
// something to say or hears that there is something to learn. It tells the
// fields of the hash.
//
// The client should have ContextTimeoutEnabled set, or a command that gets no
// answer keeps its connection until ReadTimeout; a Warn line says so. Its
// MaxRetries do not matter: what changes something is sent once. One command
// of a breaker is under way at a time, and it has one subscription. Redis 6.2
// or newer is needed, with TIME, PUBLISH and the scripting commands allowed, and
// the channels P*:wake. Under a user that may not PEXPIRE nothing is written
// (before Redis 7.0, which cannot tell, a key may stay).
//
// # Errors
//
// Why a policy ended a call is one of [ErrOpen], [ErrFull], [ErrLimited],
// [ErrTimeout], [ErrAttempts], [ErrBudget] and [ErrNoTime], in an [*Error] which
// also has the call's own error, and with it its class. Of these the first
// three have a class themselves: ErrRejected of the root package. Options that make no sense are ErrInvalid
// from the first call on. All other errors are those of the call, as they were.
//
// # Testing
//
// All waiting is on channels and timers, so policies and breakers run in a
// testing/synctest bubble. A [SharedBreaker] over a [MemoryDriver] is a fleet
// in one process. Package failuretest is the suite that every [Breaker] and
// every [Driver] passes, and has faults for tests of what uses the policies.
package failure
