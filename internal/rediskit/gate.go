package rediskit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
)

// Limit is how many commands a [Gate] lets be under way at most. It bounds the
// goroutines and connections that a server which stopped answering can hold.
const Limit = 64

// DefaultTimeout bounds one command where the caller's options say nothing.
const DefaultTimeout = 2 * time.Second

// Effect says what a command does, which decides what its silence means.
type Effect uint8

const (
	// Reads marks a command that changes nothing: its outcome is never unknown.
	Reads Effect = iota
	// Writes marks a command that changes something.
	Writes
)

// A Gate bounds the commands of one instance. It is safe for concurrent use.
type Gate struct {
	slots   chan struct{}
	timeout time.Duration
	inline  bool         // the client ends commands at the timeout by itself
	left    atomic.Int32 // commands still running whose caller has gone
}

// NewGate returns a gate whose commands may take timeout each: zero means
// [DefaultTimeout], negative means as long as their contexts.
func NewGate(timeout time.Duration) *Gate { return NewGateOf(Limit, timeout) }

// NewGateOf is NewGate with a limit of its own, for an instance that divides
// [Limit] among several gates.
func NewGateOf(limit int, timeout time.Duration) *Gate {
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	return &Gate{slots: make(chan struct{}, limit), timeout: timeout}
}

// For tells the gate, before its first command, which client the commands are
// for, and returns the gate. A client that is known to end a command at its
// deadline runs it on the caller's goroutine when nothing but the timeout can
// end the call, as with [context.Background]: handing it to another and back
// costs about as much as half a round trip on the loopback.
func (g *Gate) For(client any) *Gate {
	if CheckClient(client) == nil && g.timeout > 0 {
		g.inline, _ = honoursDeadlines(client)
	}
	return g
}

// Abandoned returns how many commands run on although their callers have gone.
func (g *Gate) Abandoned() int { return int(g.left.Load()) }

// The states of a command, decided once between its caller and itself.
const (
	running int32 = iota
	finished
	abandoned
)

type outcome[T any] struct {
	value T
	err   error
}

// errExited stands for the answer of a command that called runtime.Goexit.
var errExited = errors.New("the command's goroutine ended")

// Do runs one command, fn, and returns its result or its error in a class of
// the root package. It returns as soon as ctx ends or the gate's timeout has
// passed. A command that was started by then runs on by itself, and if it
// comes to an end late is told of it, so that what it left behind can be
// undone; late may be nil.
//
// What ends without an answer is [transparency.ErrUncertain] for [Writes] and
// [transparency.ErrUnavailable] for [Reads], joined with the error of ctx when
// that has ended. A context that ended before anything was sent is returned
// bare. When [Limit] commands of the gate are stuck, Do refuses at once with
// [transparency.ErrUnavailable].
func Do[T any](ctx context.Context, g *Gate, effect Effect, fn func(context.Context) (T, error), late func(T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	cmdCtx, cancel := ctx, context.CancelFunc(func() {})
	if g.timeout > 0 {
		cmdCtx, cancel = context.WithTimeout(ctx, g.timeout)
	}
	defer cancel()

	if err := g.enter(ctx, cmdCtx); err != nil {
		return zero, err
	}
	if g.inline && ctx.Done() == nil {
		defer func() { <-g.slots }()
		value, err := fn(cmdCtx)
		return answer(ctx, cmdCtx, g, effect, outcome[T]{value, err})
	}
	var state atomic.Int32
	done := make(chan outcome[T], 1)
	go func() {
		defer func() { <-g.slots }()
		out := outcome[T]{err: errExited}
		defer func() { // also when fn calls runtime.Goexit
			if state.CompareAndSwap(running, finished) {
				done <- out
				return
			}
			defer g.left.Add(-1)
			if late != nil {
				late(out.value, out.err)
			}
		}()
		out.value, out.err = fn(cmdCtx)
	}()

	select {
	case out := <-done:
		return answer(ctx, cmdCtx, g, effect, out)
	case <-cmdCtx.Done():
	}
	// Counted before the command can learn that it is alone, so that the count
	// never falls below the truth.
	g.left.Add(1)
	if !state.CompareAndSwap(running, abandoned) {
		g.left.Add(-1)
		out := <-done
		return answer(ctx, cmdCtx, g, effect, out)
	}
	return zero, g.silence(ctx, effect)
}

// enter waits for a place, no longer than wait lasts.
func (g *Gate) enter(ctx, wait context.Context) error {
	select {
	case g.slots <- struct{}{}:
		return nil
	default:
	}
	limit := cap(g.slots)
	if int(g.left.Load()) >= limit {
		return fmt.Errorf("%w: not sent: %d commands are without an answer", transparency.ErrUnavailable, limit)
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-wait.Done():
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: not sent: %d commands were under way: %w", transparency.ErrUnavailable, limit, err)
	}
	return fmt.Errorf("%w: not sent within %v: %d commands were under way", transparency.ErrUnavailable, g.timeout, limit)
}

// silence is the error of a command that was started and left.
func (g *Gate) silence(ctx context.Context, effect Effect) error {
	class := transparency.ErrUnavailable
	if effect == Writes {
		class = transparency.ErrUncertain
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: no reply yet: %w", class, err)
	}
	return fmt.Errorf("%w: no reply within %v", class, g.timeout)
}

// answer sorts what a command came back with.
func answer[T any](ctx, cmdCtx context.Context, g *Gate, effect Effect, out outcome[T]) (T, error) {
	if out.err == nil {
		return out.value, nil
	}
	var zero T
	// A client that honours contexts sets the deadline on the connection too,
	// and that one can fire a moment before the context does.
	if deadline, ok := cmdCtx.Deadline(); ok && isTimeout(out.err) && time.Until(deadline) < 10*time.Millisecond {
		<-cmdCtx.Done()
	}
	if cmdCtx.Err() != nil && (isContext(out.err) || isTimeout(out.err)) && !notSent(out.err) {
		return zero, g.silence(ctx, effect)
	}
	err := Classify(effect, out.err)
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		err = fmt.Errorf("%w: %w", err, ctxErr)
	}
	return zero, err
}
