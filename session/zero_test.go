package session_test

import (
	"testing"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/session"
)

// What no constructor made has errors, and does not panic.
func TestZeroValues(t *testing.T) {
	for _, v := range []any{
		new(session.Manager[int]), (*session.Manager[int])(nil),
		new(session.MemoryStore), new(session.RedisStore),
		new(session.Session[int]), session.Token{}, session.Record{},
	} {
		testkit.Zero(t.Context(), t, v, "MarshalText")
	}
	var none *session.Session[int]
	if none.Token().Reveal() != "" || !none.Created().IsZero() || !none.Expires().IsZero() || !none.Deadline().IsZero() {
		t.Error("a nil Session has a token or a time")
	}
}
