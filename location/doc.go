// Package location hides where a service runs: a [Locator] turns its name into
// the endpoints of its instances, fixed, from the environment, or from a
// registry in memory or in Redis, behind one interface.
//
// What still shows: a look can fail or last, a service can have many instances
// or none, and what is known of them can be old. Unknown, empty, unreachable
// and stale are four different answers. An endpoint is where an instance was;
// only a call to it tells whether it is there.
//
// # Usage
//
// A service makes itself known, and is kept known until it says otherwise:
//
//	registry := location.NewRedis(client, nil) // or location.NewMemory(nil)
//	defer registry.Close()
//
//	reg, err := registry.Register(ctx, "user-service", location.Endpoint{Host: "10.0.0.7", Port: 8080})
//	if err != nil {
//		return err
//	}
//	defer reg.Deregister(context.WithoutCancel(ctx))
//
// Clients hold names only. [URL] gives the URL of one instance; a [Balancer]
// watches the service and picks among its instances for nothing:
//
//	balancer := location.NewBalancer(registry, nil)
//	defer balancer.Close()
//
//	picked, err := balancer.Pick(ctx, "user-service")
//	if err != nil {
//		return err
//	}
//	resp, err := get(ctx, "http://"+picked.Addr()+"/users/1")
//	picked.Done(err)
//
// [NewStatic] and [NewEnv] need no registry, and [Addrs] hands the addresses to
// whoever takes a function for them.
//
// # Four answers
//
// The states are those of the Addr of Finagle (Eriksen, "Your Server as a
// Function", PLOS 2013), with staleness added:
//
//	unknown      ErrUnknownService: no instance was ever heard of, or none for a week
//	empty        ErrNoInstances: the service is known and has none
//	unreachable  a class of the root package; nothing is known that could be served
//	stale        no error: the last known endpoints, Snapshot.Stale and Snapshot.AsOf
//
// A Registry serves the last known endpoints while the store does not answer,
// and also when the store answers that there are none although nobody took
// them out: then leases ran out, which is what an outage of the registry looks
// like, or the store has lost its data. It does so for MaxStale and no longer.
// Where the last instance was deregistered, the service is empty at once.
//
// # Guarantees
//
//	registration    is kept for ever: heartbeats at a third of the TTL, and after an outage of
//	                any length the instance is back within two thirds of it, by itself
//	crash           an instance that ends without a word is gone after its TTL, by the
//	                registry's clock; the clocks of instances and clients do not matter
//	identity        each registration has a token: a late heartbeat or deregistration of a
//	                former holder of an id changes nothing, and one that was ended stays ended
//	a taken id      ErrInstanceConflict, or a takeover when asked for; who was replaced is told,
//	                and stays out
//	deregistering   bounded; if the registry is down, tried on in the background until the TTL
//	                does the work
//	changes         of a registration come in order, and none is left out
//	Resolve         on a registry, is answered by the store after it was asked, or is marked
//	                stale
//	Watch           begins with the present state; each event is the whole set, sorted, without
//	                doubles, and none says the same as the last; removals while cut off show
//	                in the first event after
//	hints           save time only: without them a change shows within five thirds of Poll
//	load            one poller for all who watch a service, hints followed at most twice a second,
//	                heartbeats of instances spread over their interval
//	coming back     after all were gone, those that are not back yet stay in the set for two
//	                thirds of the TTL, marked as stale, so that the first gets no rush
//	names           one spelling for many, and a grammar that no key or prefix can be confused by
//	Pick            takes no lock, asks nobody and allocates nothing; shares by weight among
//	                the first priority
//
// Leases are those of Gray and Cheriton ("Leases: an efficient fault-tolerant
// mechanism for distributed file cache consistency", SOSP 1989).
//
// Not promised:
//
//   - That an endpoint answers. A crashed instance is listed until its TTL has
//     passed, and one that hangs but sends heartbeats for ever.
//   - That everyone sees the same set at the same time.
//   - That all are remembered when the store can be read and not written for
//     longer than a TTL, as a replica is. Leases then run out one by one, as
//     if the instances crashed, and the last known are those that were last.
//   - That a failover of Redis loses nothing. What a promoted replica does not
//     know is registered again with the next heartbeat, and a tombstone that
//     it does not know is as if the instance had crashed.
//
// # Redis
//
// Keys are API. For a prefix P ("location:") and a service S they are, in one
// slot,
//
//	P{S}:live  zset    ids by the end of their leases, in ms of the server's clock; TTL of the
//	                   longest lease, twice
//	P{S}:data  hash    id to "token endpoint", the endpoint as JSON; TTL likewise
//	P{S}:meta  hash    epoch, generation, emptied, void: see list.lua; TTL 7 days
//	P{S}:gone  zset    tokens that ended, by when they are forgotten; TTL 10 minutes
//	Pnews      channel the names of services whose endpoints changed
//
// where %, { and } in P are written %25, %7B and %7D in a key. While meta
// lasts, for 7 days after the last heartbeat, a service without instances is
// empty; after that it is unknown. The four scripts are register.lua,
// renew.lua, deregister.lua and list.lua. A heartbeat is one call and a look
// is one call, and a look whose version has not changed brings no endpoints.
// list.lua writes nothing, so that who only looks needs no right to write;
// only sending it takes the scripting commands, and SUBSCRIBE on Pnews, without
// which changes are polled for. Where memory is full nobody new is registered;
// who is registered stays.
//
// The client should have ContextTimeoutEnabled set, or a command whose caller
// has gone keeps its connection until ReadTimeout; a Warn line says so. Its
// MaxRetries do not matter: what changes something is sent once. At most 48
// commands of a Registry are under way, and 16 heartbeats, and one connection
// is added while anything is watched. Redis 6.2 or newer is needed. With a Ring
// hints may not arrive.
//
// # Errors
//
// The package's own answers are [ErrUnknownService], [ErrNoInstances],
// [ErrInstanceConflict], [ErrLost], [ErrDeregistered] and [ErrClosed]. Trouble
// with the store wraps a class of the root package: ErrUnavailable,
// ErrUncertain, ErrDenied, ErrInvalid; ErrRejected says that more services are
// watched than may be. User information in an endpoint is refused, and no
// error quotes an endpoint or a name that it could be in.
//
// # Testing
//
// NewMemory keeps the same promises by the same engine and waits on nothing
// but channels and timers, so it runs in a testing/synctest bubble. Package
// locationtest is the suite that every [Driver] passes.
package location
