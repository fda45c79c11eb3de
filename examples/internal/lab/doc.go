// Package lab is the set-up that the example programs have in common, so that
// each program shows its one idea: settings from the environment and .env, one
// function that makes the Redis client, an embedded Redis where none is
// configured, child processes that never outlive their parent, keys that are
// removed at the end, and errors as one line that says what to check.
//
// # Settings
//
// REDIS_URL (redis://user:password@host:port/db, rediss:// for TLS), or
// REDIS_HOST (default localhost), REDIS_PORT (default 6379), REDIS_USERNAME,
// REDIS_PASSWORD and REDIS_TLS, from the environment or from .env in the
// working directory. The environment wins: a REDIS_HOST or REDIS_PORT there
// sets aside the REDIS_URL of .env too. With none of them set, a Redis inside
// this process serves it and its children, and ends with it.
package lab
