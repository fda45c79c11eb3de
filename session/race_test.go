//go:build race

package session_test

// The race detector makes a thousand callers slow by themselves.
const slowdown = 5
