package failure

import (
	"context"
	"errors"

	"github.com/go-transparency/transparency"
)

// FallbackOptions configures a [Fallback]. Nil is fine.
type FallbackOptions struct {
	// When decides which errors are replaced. Nil means all but
	// [transparency.ErrInvalid] and [transparency.ErrDenied], which no second
	// best should hide.
	When func(err error) bool
}

// A Fallback is a [Policy] that answers in the place of a call that failed.
type Fallback[T any] struct {
	answer func(ctx context.Context, err error) (T, error)
	when   func(err error) bool
}

// NewFallback returns a Fallback by answer, which is told the error. T must be
// the type of the [Call].
func NewFallback[T any](answer func(ctx context.Context, err error) (T, error), opts *FallbackOptions) *Fallback[T] {
	f := &Fallback[T]{answer: answer, when: replaceable}
	if opts != nil && opts.When != nil {
		f.when = opts.When
	}
	return f
}

func replaceable(err error) bool {
	return !errors.Is(err, transparency.ErrInvalid) && !errors.Is(err, transparency.ErrDenied)
}

// Do implements [Policy]. Nothing is answered to a caller whose context was
// cancelled: he has gone. If the answer fails too, the error is an [*Error]
// wrapping both, whose class is that of the call.
func (f *Fallback[T]) Do(ctx context.Context, next Next) (any, error) {
	if f == nil || f.answer == nil || next == nil {
		return nil, failed("fallback", "", invalid("the function is nil"))
	}
	result, err := next(ctx)
	if err == nil || ctx.Err() == context.Canceled || !f.when(err) { //nolint:errorlint // Err returns it unwrapped
		return result, err
	}
	answer, again := f.answer(ctx, err)
	if again != nil {
		return answer, &Error{Policy: "fallback", Reason: aside{again}, Last: err}
	}
	return answer, nil
}

// aside is an error that stands beside that of the call, without its class: an
// answer that was unavailable does not make the call one that had no effect.
type aside struct{ error }

func (a aside) Is(target error) bool {
	switch target { //nolint:errorlint // the very ones
	case transparency.ErrUnavailable, transparency.ErrUncertain, transparency.ErrRejected,
		transparency.ErrDenied, transparency.ErrInvalid:
		return false
	}
	return errors.Is(a.error, target)
}

func (a aside) As(target any) bool { return errors.As(a.error, target) }
