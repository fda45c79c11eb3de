package transparency_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-transparency/transparency"
)

func TestRetryable(t *testing.T) {
	cause := errors.New("connection refused")
	wrap := func(errs ...error) error { return fmt.Errorf("lock: unlock %q: %w", "stock:7", errors.Join(errs...)) }
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"nil", nil, false},
		{"no class", cause, false},
		{"unavailable", wrap(transparency.ErrUnavailable, cause), true},
		{"uncertain", wrap(transparency.ErrUncertain, cause), false},
		{"rejected", wrap(transparency.ErrRejected), false},
		{"denied", wrap(transparency.ErrDenied), false},
		{"invalid", wrap(transparency.ErrInvalid), false},
		{"bare canceled", context.Canceled, false},
		{"unavailable and canceled", wrap(transparency.ErrUnavailable, context.Canceled), false},
		{"unavailable and out of time", wrap(transparency.ErrUnavailable, context.DeadlineExceeded), false},
		{"unavailable here, uncertain there", wrap(transparency.ErrUnavailable, transparency.ErrUncertain), false},
		{"unavailable here, denied there", wrap(transparency.ErrUnavailable, transparency.ErrDenied), false},
		{"unavailable here, invalid there", wrap(transparency.ErrUnavailable, transparency.ErrInvalid), false},
		{"unavailable here, rejected there", wrap(transparency.ErrUnavailable, transparency.ErrRejected), false},
	}
	for _, tt := range tests {
		if got := transparency.Retryable(tt.err); got != tt.want {
			t.Errorf("%s: Retryable(%v) = %v, want %v", tt.name, tt.err, got, tt.want)
		}
	}
}

func TestClassesAreDistinct(t *testing.T) {
	classes := []error{
		transparency.ErrUnavailable, transparency.ErrUncertain, transparency.ErrRejected,
		transparency.ErrDenied, transparency.ErrInvalid,
	}
	for i, a := range classes {
		for j, b := range classes {
			if got, want := errors.Is(a, b), i == j; got != want {
				t.Errorf("errors.Is(%v, %v) = %v, want %v", a, b, got, want)
			}
		}
	}
}
