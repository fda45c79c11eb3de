package failure

import (
	"context"
	"reflect"
)

// Next is what a [Policy] guards: the call itself, or the policies inside it
// and then the call.
type Next func(ctx context.Context) (any, error)

// A Policy decides whether, when and how often next is called, and what its
// caller is told. It is not generic, so that one policy, with what it has
// learned, guards calls of many types. A Policy is safe for concurrent use.
//
// Do returns what next returned, or an error that says why not. It gives next
// a context made from ctx, and calls it on the caller's goroutine unless its
// documentation says otherwise. A panic or runtime.Goexit of next passes
// through.
type Policy interface {
	Do(ctx context.Context, next Next) (any, error)
}

// Call calls fn through policies, the outermost first, and returns what comes
// out of the outermost: with one policy,
//
//	user, err := failure.Call(ctx, load, breaker)
//
// With none it only calls fn. A value that comes with an error is returned with
// it. Call returns an error wrapping
// [github.com/go-transparency/transparency.ErrInvalid] when fn or a policy is
// nil, before anything is called, or when a policy made up a result of another
// type than T, or none.
func Call[T any](ctx context.Context, fn func(context.Context) (T, error), policies ...Policy) (T, error) {
	var zero T
	if fn == nil {
		return zero, failed("call", "", invalid("the function is nil"))
	}
	for i, policy := range policies {
		if policy == nil {
			return zero, failed("call", "", invalid("policy %d is nil", i))
		}
	}
	result, err := through(ctx, policies, func(ctx context.Context) (any, error) { return fn(unmarked(ctx)) })
	value, ok := result.(T)
	// A nil of an interface type is the one value of T that loses its type on
	// the way.
	if !ok && err == nil && (result != nil || reflect.TypeFor[T]().Kind() != reflect.Interface) {
		return zero, failed("call", "", invalid("a policy returned %T for %v", result, reflect.TypeFor[T]()))
	}
	return value, err
}

// through calls next through policies.
func through(ctx context.Context, policies []Policy, next Next) (any, error) {
	for i := len(policies) - 1; i > 0; i-- {
		policy, inner := policies[i], next
		next = func(ctx context.Context) (any, error) { return policy.Do(ctx, inner) }
	}
	if len(policies) == 0 {
		return next(ctx)
	}
	return policies[0].Do(ctx, next)
}

// unusable is the error of a policy that is nil or a zero value, or that was
// given nothing to call.
func unusable(policy string, next Next) error {
	if next == nil {
		return failed(policy, "", invalid("the function is nil"))
	}
	return unmade(policy)
}

func unmade(policy string) error {
	return failed(policy, "", invalid("it was not made by its constructor"))
}

type attemptKey struct{}

// Attempt returns which attempt a call is, counting from one: one, plus each
// repetition by a [Retry] around it that led to it. Above one, the work is
// being done again.
func Attempt(ctx context.Context) int {
	if n, ok := ctx.Value(attemptKey{}).(int); ok {
		return n
	}
	return 1
}

func withAttempt(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, attemptKey{}, n)
}

type idempotentKey struct{}

// WithIdempotent returns a context which says that the call may be made twice:
// a [Retry] then repeats it also when its outcome is unknown, and a [Hedge]
// makes it again before it has ended. It is for policies that guard calls of
// both kinds. It says nothing of the calls that are made within: the function of
// a [Call] gets a context that does not say so.
func WithIdempotent(ctx context.Context) context.Context {
	return context.WithValue(ctx, idempotentKey{}, true)
}

func isIdempotent(ctx context.Context) bool {
	idempotent, _ := ctx.Value(idempotentKey{}).(bool)
	return idempotent
}

func unmarked(ctx context.Context) context.Context {
	if isIdempotent(ctx) {
		return context.WithValue(ctx, idempotentKey{}, false)
	}
	return ctx
}
