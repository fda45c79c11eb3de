// Package access hides how configuration is reached: a program asks a
// [ConfigRepository] for a document by its key, and whether a file, a
// directory, an HTTP server, Redis or memory answers is decided outside of it.
//
// What still shows is what a program has to live with: a Get can be slow and
// can fail, so it takes a context and returns an error; absent, empty,
// unreachable and forbidden are four different errors; and every [Document]
// carries a version and the time at which it was current.
//
// # Usage
//
//	repo, err := access.FromEnv(nil) // CONFIG_BACKEND, CONFIG_URL
//	if err != nil {
//		return err
//	}
//	defer repo.Close()
//	db, _, err := access.Load[Database](ctx, repo, "database")
//
// [Load] gets and decodes JSON. [ConfigRepository].Get alone returns bytes of
// any kind. [Open] takes a URL instead of the environment, and the
// constructors take what they need: [NewFile], [NewDir], [NewHTTP],
// [NewRedis], [NewMemory]. Code that reads configuration should take a
// ConfigRepository, for which NewMemory is the fake.
//
// # Keys
//
// A key is what names a document on every backend: up to 1024 bytes of
// printable UTF-8 without backslash and percent sign, in segments of up to 255
// bytes between single slashes, none of them "." or "..". Others are refused
// with [ErrInvalidKey] before the backend is asked. Case matters, as far as
// the file system below a directory lets it.
//
// # Guarantees
//
//   - Get returns what is stored when it is called, whole and byte for byte, or
//     an error and nothing else. Nothing is cached.
//   - Get and Put return as soon as their context ends or the repository's
//     Timeout has passed. What a backend that stopped answering holds on to is
//     bounded: at most 64 calls of a repository are under way at once, and when
//     that many are left behind, it refuses further ones without waiting.
//   - A document of more than MaxBytes is refused without being read whole.
//   - Put replaces a document in one step with the check of its conditions: of
//     several writers that read one version and change it, one wins.
//   - No error, and no formatting of a [Document], a [Repository] or of options,
//     shows user information or a query of a URL, a header, or the bytes of a
//     document. Keys, paths of files, hosts and ports do show. For %p and %w,
//     and in an unexported field of another struct, package fmt asks no value
//     how to print it: there a Document and options do show what they hold.
//
// Not promised: two Gets, of one key or of two, can see two generations, so
// what belongs together belongs in one document. A replicated Redis can lose
// a Put in a failover, and with it the order of writers. A version stands for
// content, so after a change and its undoing the old version is valid again; a
// writer that compares it has then read what is stored. JSON names match
// struct fields as in [encoding/json], without regard to case, so that two
// names which differ only by case can fill one field.
//
// # Files
//
// Whoever changes a file should write another one beside it and rename that
// over it; a file that is written in place can be read half written. This
// package does not write files itself: a compare-and-set would hold within
// one process only, since there is no lock on files that all systems and
// network file systems honour, and a Writer whose promise depends on the file
// system is none.
//
// # Redis
//
// A document is the string under its prefix and key, by default config:<key>,
// with nothing around it, so that operators can read and write it:
//
//	redis-cli SET config:database '{"host": "localhost", "port": 5432}'
//
// Reading takes one GETRANGE (and an EXISTS for a key that is absent); writing
// takes one script that compares the SHA-1 of the value and sets it, without
// a TTL. A script is sent at most once, whatever the client's retries. On a
// cluster each document is in the slot of its key. Use a client with
// ContextTimeoutEnabled, or a command that was left behind keeps its
// connection until ReadTimeout; NewRedis tells its Logger.
//
// # Errors
//
// The text of an error is "access: operation key: class: cause". The classes
// are those of package transparency, which say what may be concluded, and
// [transparency.Retryable] reads them. The package's own answers are
// [ErrNotFound], [ErrConflict] and [ErrClosed], which are no failures, and
// [ErrInvalidKey], [ErrTooLarge] and [ErrRedirect], which are of class
// [transparency.ErrInvalid]. [StatusError] has the HTTP status and Retry-After.
// A context error is joined to what was known when the context ended.
//
// # Testing
//
// Package accesstest checks a repository of your own, or a [Driver] under
// [New], for what is promised here. All backends of this package pass it.
package access
