// Package transparency maps seven ways to hide distribution behind an
// interface, and holds what they share: the classes of their errors.
//
// # The seven
//
// ISO's reference model of open distributed processing (RM-ODP) and, after
// it, Tanenbaum and van Steen name the ways in which a distributed system can
// look like one machine to the code that uses it. Each is a package here, with
// an in-memory and a Redis form behind one interface:
//
//   - [github.com/go-transparency/transparency/access]: how a resource is
//     reached. A ConfigRepository reads documents from a file, a directory,
//     HTTP, Redis or memory.
//   - [github.com/go-transparency/transparency/location]: where a service
//     runs. A Locator turns logical names into endpoints.
//   - [github.com/go-transparency/transparency/session]: that a service moved
//     between requests (migration). A SessionStore keeps state outside the
//     instance, versioned.
//   - [github.com/go-transparency/transparency/relocation]: that a service
//     moves during use. A Conn outlives its servers, and loses, doubles and
//     reorders nothing.
//   - [github.com/go-transparency/transparency/replica]: how many copies
//     answer (replication). A ReplicaPool spreads reads and keeps writes on
//     the primary.
//   - [github.com/go-transparency/transparency/lock]: who else uses the
//     resource (concurrency). A Mutex spans processes, fences what it guards
//     and tells its holder of loss in time.
//   - [github.com/go-transparency/transparency/failure]: faults and recovery.
//     A Breaker fails fast, alone or with the whole fleet; Retry, Timeout and
//     Fallback go around it.
//
// # Conscious transparency
//
// Where, how, how many, moved and who else are hidden. That a call can be
// slow, fail, or end with its outcome unknown is never hidden, because code
// that cannot see it cannot survive it. So everything that can leave the
// process takes a [context.Context] first and returns an error; when the
// context ends, the call returns at once; a zero value is never an answer;
// what is stale is marked so and has an age; absent, empty, unknown and
// unreachable are four different things; and nothing here prints. (go-redis has
// a logger of its own for the whole process, on standard error; its SetLogger
// silences it.)
//
// # Errors
//
// Each error tells what may be concluded: [ErrUnavailable] (it did not happen,
// trying again is safe), [ErrUncertain] (it may have happened), [ErrRejected]
// (refused on this side), [ErrDenied] (refused for who you are), [ErrInvalid]
// (it can never work). [Retryable] reads them. Beside these stand the
// packages' own answers, such as session.ErrNotFound or lock.ErrHeld, which
// are no failures. The text of an error names the operation, the key (a session
// id aside), the class and the cause; it never holds a token, a password, a
// session id or the bytes of a document.
//
// # A note on names
//
// The textbook (Distributed Systems, section 1.3) lists seven transparencies:
// access, location, migration, relocation, replication, concurrency and
// failure. These are the seven packages; session is its migration and lock its
// concurrency. RM-ODP itself (ISO/IEC 10746-3) names eight: access, failure,
// location, migration, persistence, relocation, replication and transaction.
// Persistence is met here where state outlives a process: in session records
// and in the resume state of a relocated connection. Transaction is not
// offered whole; what stands in for it is said where it is used: compare and
// set in session and access, fences in lock, and in relocation a reply that is
// committed with the message it answers.
//
// RM-ODP also foresees combinations, each adding one to those before: access
// with location, then relocation, migration, failure and transaction. The
// packages do not import each other, so that each can be had alone; they meet
// in function types and small interfaces of standard types, and examples show
// them combined.
package transparency
