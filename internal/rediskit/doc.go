// Package rediskit is how this module talks to Redis: keys that share a slot,
// embedded scripts, commands that end with their caller, and go-redis errors
// sorted into the classes of the root package.
//
// Three rules of go-redis v9 shape it. A client sees the end of a context only
// between reads, so a caller that must return at once has to leave its command
// behind: [Do] runs each command beside the caller and [Gate] bounds how many
// may be under way. A client sends a command again after EOF, a timeout,
// LOADING or READONLY, so that the first attempt may execute while the last
// reports a refused dial: [Script.Run] marks its commands as not to be sent
// again, whatever the client's MaxRetries, which makes "not sent" a fact when
// the dial or the pool fails. And a reply is an answer: the server refused, and
// its first word says why ([Classify]).
package rediskit
