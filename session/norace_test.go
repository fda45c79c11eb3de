//go:build !race

package session_test

const slowdown = 1
