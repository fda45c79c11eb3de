// Package relocation hides that a service moves during use: a [Conn] goes on
// when the server behind it drains, crashes or is replaced, and what was sent
// over it is neither lost, doubled nor reordered.
//
// What still shows: a message takes its time, and a session can end. Send says
// that a message will be delivered, or never; [Conn.SendAck] and [Conn.Flush]
// say that it was handled; [Conn.Changes] says what the connection is doing; and
// when a session is lost an error says why and [Conn.Unacked] what is open.
// Where a message may have been handled before, it says so itself.
//
// # Usage
//
// Servers run a [Hub] each, over one [Store]. The Hub has messages handled, and
// any Hub sends to any client:
//
//	store := relocation.NewRedisStore(client, nil) // or relocation.NewMemoryStore(nil)
//	hub := relocation.NewHub(store, func(ctx context.Context, s *relocation.Session, m relocation.Message) error {
//		return s.Reply(bytes.ToUpper(m.Data)) // committed together with m
//	}, &relocation.HubOptions{Keys: keys})
//	http.Handle("/talk", hub.WebSocket(&relocation.WebSocketOptions{Authenticate: who}))
//
//	err := hub.Drain(ctx, nil) // before the process ends
//
// A client dials any of them:
//
//	conn, err := relocation.Dial(ctx, addresses, &relocation.WebSocketDialer{}, nil)
//	if err != nil {
//		return err
//	}
//	defer conn.Close(ctx)
//	err = conn.Send(ctx, []byte("one"))
//	m, err := conn.Receive(ctx)
//
// addresses is any function that gives the addresses of the moment, such as
// [Addresses] or location.Addrs.
//
// # Guarantees
//
// Within a session, each way, a message that was taken is passed to the other
// side's handler in order and exactly once, if
//
//   - the client process lives, and comes back within HubOptions.Resume;
//   - the store keeps what it has confirmed;
//   - the instance that owned the session finished or handed over, as it does in
//     a planned move, on Drain, Migrate and when a connection breaks.
//
// If that instance crashed, was cut off or was taken over instead, what it may
// have handled and not committed comes again, and has Message.Redelivered set.
// It is no more than was under way. If the store lost something, both sides
// learn it: [ErrSessionLost], [ErrStateRegressed]. Nothing is sent again by
// itself when a session could not be resumed.
//
//   - Send: nil means that the message will be delivered, and an error that it
//     never will. The buffer is bounded; when it is full, Send waits.
//   - Reply: what a handler replies is committed with the message that it
//     answers, both or neither.
//   - Owner: one instance owns a session, under a generation that only rises.
//     The store refuses every change under an older one. An owner that could
//     not renew its lease hands nothing to the handler any more, and ends the
//     handler's context.
//   - A planned move: the new server is dialled first. Messages wait for about two
//     round trips, and none comes twice.
//   - One-way death: noticed within HubOptions.Ping plus Silence. Only that of
//     the way to a server that goes on speaking takes another Silence.
//   - Storms: the first attempt, too, comes at a random moment.
//   - A stolen or copied token: at most one client owns the session; the other
//     gets [ErrSessionTaken] and does not come back.
//
// Not promised:
//
//   - That an effect happens once. A handler can have its effect and die before
//     that is known. In the mode [Atomic] it commits the number of the message
//     with the effect, which [SQLPosition] and [RedisPosition] do; else it has to
//     bear repetition, for which Session.ID, Message.Seq and Session.Generation
//     are there.
//   - That a process that was paused after it looked at its lease handles
//     nothing more. It can finish one message, whose commit is refused.
//   - Anything across a crash of the client process. It begins a new session.
//   - That a Redis keeps what it confirmed. It replicates asynchronously; that
//     something was lost is noticed when the client or the owner next says how
//     far it was.
//
// The design is that of stream management in XMPP (XEP-0198), both ways, with
// the fenced leases of Gray and Cheriton (1989) for owners, and the graceful
// GOAWAY of HTTP/2 (RFC 9113, section 6.8) for moves. The protocol is written
// down in docs/relocation-protocol.md, with vectors, for clients in other
// languages.
//
// # Modes
//
// [AtLeastOnce] commits a message when its handler has returned nil,
// [AtMostOnce] before the handler is called, and in the mode [Atomic] the
// handler's own database has the last word.
//
// # Redis
//
// Keys are API. For a prefix P ("relocation:"), a session S and an instance I
// they are, the first two in one slot,
//
//	P{S}      hash    the session: owner, generation, how far it came; TTL
//	P{S}:out  stream  what the client has not acknowledged, as 0-<number>; TTL
//	Pto:I     channel hints from instance to instance
//
// Both TTLs are pushed on while an instance is attached, and then run for
// Resume; the hash stays for Tombstone after that. Each change is one script,
// one round trip for all that came meanwhile. The client should have
// ContextTimeoutEnabled set; its MaxRetries do not matter, for what changes
// something is sent once. Redis 7.0 is needed, and noeviction: an evicted
// session is lost, and says so.
//
// # Errors
//
// An error reads "relocation: operation: class: cause". [ErrClosed],
// [ErrBufferFull], [ErrTooLarge], [ErrNoServer] and [ErrUnconfirmed] end a call;
// a [*LostError] ends the session, and its Reason says why. Tokens, sessions,
// credentials and messages are in no error and no log.
//
// # Testing
//
// [Network] carries transports within a process, with faults, and with
// NewMemoryStore everything runs in a testing/synctest bubble. Package
// relocationtest has the suite that every Store passes, and a Checker for
// histories of messages.
package relocation
