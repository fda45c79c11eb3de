// Package session hides that a service moved between two requests: the state
// of a session lives outside of the instances that serve it, so that any of
// them can serve any request, also after the one before has died.
//
// What still shows: every call can be slow, fail, or end with its outcome
// unknown, and says which; two requests of one user can meet, and then one of
// them decides again on what the other wrote.
//
// # Usage
//
// A [Manager] keeps a value of a type of yours per session and deals in
// tokens:
//
//	carts := session.NewManager[Cart](session.NewRedisStore(client, nil), nil)
//
//	s, err := carts.New(ctx, Cart{})          // give s.Token().Reveal() to the client
//	s, err = carts.Get(ctx, token)            // what the client came back with
//	s, err = carts.Update(ctx, s, func(c *Cart) error {
//		c.Items = append(c.Items, "book")
//		return nil
//	})
//	s, err = carts.Renew(ctx, s)              // at login: another token, the same session
//	err = carts.Destroy(ctx, s)               // at logout
//
// There is no HTTP middleware yet: put what Token().Reveal() returns into a
// cookie that is Secure, HttpOnly and SameSite, and answer trouble with the
// store by 503, not by a new login. The client is one of go-redis v9:
//
//	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
//
// [SaveJSON] and [LoadJSON] hand a value from one process to another under a
// name that both know, and the last writer wins. Beneath both is a
// [SessionStore] of bytes: [NewMemoryStore] for one process and for tests,
// [NewRedisStore] for many.
//
// # Guarantees
//
//   - No write of Save or a Manager is lost: it names the version that it was decided on, and is
//     refused when that is no longer the one stored. Nothing is saved at the
//     end of a request or at any time unless told to.
//   - What is gone stays gone: neither Save, Touch, Update nor Renew creates a
//     session, so a slow request cannot undo a logout.
//   - A session ends when it has not been used for its idle time, and at its
//     deadline however it is used, at that millisecond by the store's clock.
//     Reading through a Manager extends the idle time, with at most one write
//     of each instance per [ManagerOptions.TouchEvery]; [Manager.Peek] does not.
//   - Who chooses an id or token gets nothing: ids are random, the secret half
//     of a token is stored as a hash and compared in constant time, and a
//     renewed token is invalid from that moment on.
//   - Old and new versions of a program can share sessions: JSON members that
//     one does not know survive its updates, arrays aside, and a form of storage
//     that it does not know is [ErrTooNew] and left alone.
//   - What has begun is finished: a caller that leaves does not keep a logout
//     from the store.
//
// On one server, the calls on one session are linearizable. What a store
// cannot promise: Redis replicates asynchronously, so a failover can lose the
// last writes that were answered, a Delete or Renew among them; a server
// without persistence loses all. An id of a SessionStore, unlike a Manager's
// token, is no secret by itself: whoever can name it can load it. There are no
// events at a session's end and no list of sessions.
//
// # Redis
//
// A session is one hash under Prefix and its id, by default session:ID. Its
// fields are v (version), d (data), c (created), s (last seen), i (idle time)
// and a (absolute deadline), times being milliseconds in decimal. The key's
// time to live is what the session has left; there is never a moment without
// one. Each operation is one Lua script of this package on that one key, so a
// single server, Sentinel and Cluster serve alike. Scripts take the time from
// the server, so the clocks of instances do not matter, and one that is run
// twice with the same arguments changes data once and gives the same answer.
// They need the permissions EVALSHA, EVAL, TIME, HMGET, EXISTS, HSET, PEXPIRE,
// HLEN and DEL; a user who lacks one changes nothing by what is refused.
//
// Redis 7.0 or later is wanted, with maxmemory-policy noeviction or
// volatile-ttl, since others drop sessions in use; with appendonly when
// sessions are worth more than a login; and reads from the primary, since a
// replica may not know of a logout yet. The client should have
// ContextTimeoutEnabled set. Its MaxRetries does not matter: commands are
// sent once.
//
// # Errors
//
// [ErrNotFound], [ErrExists] and [ErrConflict] are answers. [ErrTooLarge],
// [ErrCorrupt] and [ErrTooNew] wrap [transparency.ErrInvalid]. All else is in
// the classes of the root package, or a context's error alone when nothing was
// sent: unavailable is not "logged out".
//
// No error, log line, or printed form of a type of this package holds an id, a
// token or data. One exception is package fmt's: in an unexported field of
// another type it prints a [Record], and a [Session] that is not behind its
// pointer, with data.
//
// # Testing
//
// A [MemoryStore] is the fake: it runs the same checks as the Redis form, takes
// its time from package time, and works in a bubble of testing/synctest.
// Package sessiontest holds stores written elsewhere to [SessionStore].
package session
