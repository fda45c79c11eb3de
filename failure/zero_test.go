package failure_test

import (
	"testing"

	"github.com/go-transparency/transparency/failure"
	"github.com/go-transparency/transparency/internal/testkit"
)

// What is nil, or was made by no constructor, is an error of every call, and
// panics nowhere.
func TestZero(t *testing.T) {
	for _, v := range []any{
		(*failure.LocalBreaker)(nil), new(failure.LocalBreaker), (*failure.SharedBreaker)(nil), new(failure.SharedBreaker),
		(*failure.Retry)(nil), new(failure.Retry), (*failure.Timeout)(nil), new(failure.Timeout),
		(*failure.Hedge)(nil), new(failure.Hedge), (*failure.Bulkhead)(nil), new(failure.Bulkhead),
		(*failure.RateLimit)(nil), new(failure.RateLimit), (*failure.Fallback[int])(nil), new(failure.Fallback[int]),
		(*failure.Standard)(nil), (*failure.Transport)(nil), new(failure.Transport),
		(*failure.MemoryDriver)(nil), (*failure.RedisDriver)(nil), new(failure.RedisDriver),
	} {
		testkit.Zero(t.Context(), t, v, "Close")
	}
	testkit.Zero(t.Context(), t, new(failure.Standard), "Do") // it only calls
	testkit.Zero(t.Context(), t, (*failure.Error)(nil), "Error", "Unwrap")
}
