package replica

import (
	"context"
	"sync"
	"time"
)

// A ReplicaPool runs callbacks at the nodes of one replicated database. What
// a callback is for is said by the method, never guessed from a statement: a
// read may go to any replica, a write goes to the primary. The callback gets
// the client of one node, so that a transaction or a pipeline made with it
// stays there. It is safe for concurrent use.
//
// The context that fn gets ends when the caller's does, or when the attempt's
// time is up. fn is to return then. If it does not, the call returns without
// it, and it runs on by itself: what it captured must not be touched by the
// caller then; [Query] hands results over by value. The context of a
// callback that was left behind has ended before fn is called again.
//
// What fn returns is taken for what became of all that it did. One that was
// answered and then fails is to return an error that wraps ErrUncertain of the
// root package, or to send what belongs together in one transaction. And fn is
// to talk to its node alone: a network error of anything else looks like one
// of the node.
type ReplicaPool[C any] interface {
	// Read calls fn with the client of a replica. When the node fails, fn is
	// called again with another, at most [ReadOptions.Attempts] different ones,
	// and among them the primary if the budget for that allows.
	//
	// An error of fn that is an answer of the database is returned as it is.
	// Any other comes as an [*AttemptsError] that matches [ErrNoReplica] or
	// [ErrTooStale] and a class of the root package: ErrUnavailable,
	// ErrRejected when the budget for reads from the primary was spent, or
	// ErrDenied. When ctx ends Read returns at once, with its error in the
	// tree.
	Read(ctx context.Context, opts *ReadOptions, fn func(ctx context.Context, c C) error) error

	// Write calls fn with the client of the primary, once. It calls fn again
	// only when the node has certainly executed nothing and another is known
	// to be the primary now, or if [WriteOptions.Idempotent] says that twice
	// is as good as once.
	//
	// An error of fn that is an answer of the database is returned as it is.
	// Any other comes as an [*AttemptsError]: it matches [ErrMaybeExecuted],
	// and with it ErrUncertain of the root package, if fn may have had an
	// effect; else [ErrNoPrimary] or [ErrAmbiguousPrimary], and ErrUnavailable
	// or ErrDenied. When ctx ends Write returns at once, with its error in
	// the tree.
	Write(ctx context.Context, opts *WriteOptions, fn func(ctx context.Context, c C) error) error
}

// ReadOptions changes how one read is done. Nil is fine.
type ReadOptions struct {
	// MaxLag is how far behind the primary the replica may be, judged by the
	// latest probes, which know it no finer than about twice
	// [Options.ProbeInterval]. Zero and negative mean any distance.
	MaxLag time.Duration

	// NoPrimary keeps the read off the primary, whatever happens.
	NoPrimary bool

	// Attempts is how many different nodes are tried at most. Zero means the
	// pool's; negative means one.
	Attempts int

	// AttemptTimeout bounds one call of fn. Zero means the pool's; negative
	// means none beside ctx.
	AttemptTimeout time.Duration
}

// WriteOptions changes how one write is done. Nil is fine.
type WriteOptions struct {
	// Idempotent says that fn has the same effect when it is executed twice. A
	// write whose outcome is not known is then made again.
	Idempotent bool

	// AttemptTimeout bounds one call of fn. Zero means the pool's; negative
	// means none beside ctx.
	AttemptTimeout time.Duration
}

// Query reads by fn from pool and returns what the call of fn that counted
// returned. A call that was left behind cannot touch it.
func Query[T, C any](ctx context.Context, pool ReplicaPool[C], opts *ReadOptions, fn func(ctx context.Context, c C) (T, error)) (T, error) {
	if fn == nil {
		var zero T
		return zero, pool.Read(ctx, opts, nil)
	}
	var mu sync.Mutex // guards over and value
	var over bool
	var value T
	err := pool.Read(ctx, opts, func(ctx context.Context, c C) error {
		v, err := fn(ctx, c)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		// The context of a call that was left behind ended before the next
		// call began, so what is stored last is of the one that counts.
		if !over && ctx.Err() == nil {
			value = v
		}
		return ctx.Err()
	})
	mu.Lock()
	defer mu.Unlock()
	over = true
	if err != nil {
		var zero T
		return zero, err
	}
	return value, nil
}
