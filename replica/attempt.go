package replica

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// The states of a callback, decided once between its caller and itself.
const (
	running int32 = iota
	finished
	abandoned
)

// An outcome is how a callback ended.
type outcome struct {
	err    error
	exited bool // by runtime.Goexit
	panic  any
	stack  []byte
}

var (
	errMoved = errors.New("left out while the call waited for a place")
	errFull  = errors.New("no place")
)

// A verdict is what became of one node in a call.
type verdict struct {
	Attempt
	sent bool // fn may have had an effect
}

// attempt calls fn once at node n and returns what became of it. When the class
// is ClassApp, Err is the callback's own, or nil.
func (p *Pool[C]) attempt(ctx context.Context, n *node[C], role Role, timeout time.Duration, fn func(context.Context, C) error) verdict {
	// It ends with this attempt in any case; see ReplicaPool.
	actx, cancel := bounded(ctx, timeout)
	defer cancel()

	gen := n.gen.Load()
	if err := p.enter(actx, n); err != nil {
		switch {
		case p.ended(ctx) != nil:
			return verdict{Attempt{Node: n.Name, Class: ClassCaller}, false}
		case errors.Is(err, errMoved):
			return verdict{Attempt{Node: n.Name, Class: ClassDown, Err: err}, false}
		}
		return verdict{Attempt{Node: n.Name, Class: ClassOverload, Err: err}, false}
	}
	n.calls.Add(1)
	began := p.now()
	out, left := p.run(actx, n, fn)
	if !left && out.err != nil && isTimeout(out.err) {
		// A client that honours contexts sets the deadline on the connection
		// too, and that one can fire a moment before the context does.
		if deadline, ok := actx.Deadline(); ok && time.Until(deadline) < 10*time.Millisecond {
			<-actx.Done()
		}
	}
	now := p.now()
	took := max(now-began, 1)
	if !left && out.err == nil {
		n.success(took, now)
		return verdict{Attempt{n.Name, ClassApp, nil, took}, true}
	}

	class, err, sent := ClassUnknown, out.err, true
	if !left {
		class = p.backend.Classify(err, role)
		if class == classAborted {
			class = p.aborted(actx, n, role)
		}
		sent = class == ClassUnknown || class == ClassApp
	}
	timeUp := left || isContext(err) || isTimeout(err)
	switch {
	case p.ended(ctx) != nil && (timeUp || class == ClassUnknown || class == ClassDown):
		// Says nothing of the node but how long it did not answer: a client
		// may break its own connection when a context ends.
		if float64(took) > n.meter.read(now) {
			n.meter.observe(took, now)
		}
		n.hint(now)
		return verdict{Attempt{n.Name, ClassCaller, nil, took}, sent}
	case timeUp && actx.Err() != nil:
		class, err = ClassUnknown, fmt.Errorf("no answer within %v", timeout)
	case class != ClassApp:
		err = p.show(err)
	}
	p.blame(n, gen, class, err, took, now)
	return verdict{Attempt{n.Name, class, err, took}, sent}
}

// aborted says what may be concluded from a transaction that node n refused. At
// a replica it may have written. At the primary it was its own fault, unless
// the node is found not to be the primary any more.
func (p *Pool[C]) aborted(ctx context.Context, n *node[C], role Role) Class {
	if role == RoleReplica {
		return ClassMisrouted
	}
	ctx, cancel := context.WithTimeout(ctx, p.opts.ProbeTimeout+100*time.Millisecond)
	defer cancel()
	if p.refresh(ctx, n) == nil && p.view.Load().primary != n {
		return ClassMisrouted
	}
	return ClassApp
}

// bounded is WithTimeout, if there is one.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout > 0 {
		return context.WithTimeout(ctx, timeout)
	}
	return context.WithCancel(ctx)
}

// success notes a call that was answered.
func (n *node[C]) success(took, now time.Duration) {
	n.meter.observe(took, now)
	if n.fails.Load() != 0 {
		n.fails.Store(0)
	}
	n.lastOK.Store(int64(now))
}

// blame notes what an error says of the node. What comes in from an earlier
// life of the node, as from a connection to what was there before it was left
// out, says nothing of the present one.
func (p *Pool[C]) blame(n *node[C], gen uint32, class Class, err error, took, now time.Duration) {
	if class != ClassApp && n.gen.Load() != gen {
		return
	}
	switch class {
	case ClassApp:
		n.success(took, now)
	case ClassOverload:
		n.meter.punish(took, now)
	case ClassMisrouted:
		n.hint(now)
	case ClassNotReady:
		p.cool(n, err, now)
	case ClassDenied:
		n.meter.punish(took, now)
		n.hint(now)
	default:
		n.meter.punish(took, now)
		p.fault(n, gen, err, now)
	}
}

// enter waits for a place at n, until ctx ends, n is left out, or the pool is
// closed. When every place is held by a callback that was left behind, it does
// not wait.
func (p *Pool[C]) enter(ctx context.Context, n *node[C]) error {
	select {
	case n.slots <- struct{}{}:
		return nil
	default:
	}
	if int(n.left.Load()) >= cap(n.slots) {
		return fmt.Errorf("%w: %d callbacks there are without an answer", errFull, cap(n.slots))
	}
	p.mu.Lock()
	up, out := n.state == StateUp, n.out
	p.mu.Unlock()
	if !up {
		out = nil // it was chosen nevertheless
	}
	n.waiting.Add(1)
	defer n.waiting.Add(-1)
	select {
	case n.slots <- struct{}{}:
		return nil
	case <-out:
		return errMoved
	case <-ctx.Done():
		return fmt.Errorf("%w in time: %d callbacks are there", errFull, cap(n.slots))
	case <-p.ctx.Done():
		return ErrClosed
	}
}

// run calls fn beside the caller, and returns when it has ended or ctx has. A
// callback that panics, or calls runtime.Goexit, does so to its caller. It
// requires a place at n, which it gives back when fn has ended.
func (p *Pool[C]) run(ctx context.Context, n *node[C], fn func(context.Context, C) error) (outcome, bool) {
	var state atomic.Int32
	done := make(chan outcome, 1)
	go func() {
		out := outcome{exited: true}
		defer func() {
			if out.exited {
				if v := recover(); v != nil {
					out = outcome{panic: v, stack: debug.Stack()}
				}
			}
			<-n.slots
			if state.CompareAndSwap(running, finished) {
				done <- out
				return
			}
			n.left.Add(-1)
			p.counts.left.Add(-1)
			p.panicked(n, out)
		}()
		err := fn(ctx, n.Client)
		out = outcome{err: err}
	}()
	select {
	case out := <-done:
		return p.deliver(n, out), false
	case <-ctx.Done():
	case <-p.ctx.Done():
	}
	// Counted before the callback can learn that it is alone, so that the
	// count never falls below the truth.
	n.left.Add(1)
	p.counts.left.Add(1)
	if !state.CompareAndSwap(running, abandoned) {
		n.left.Add(-1)
		p.counts.left.Add(-1)
		return p.deliver(n, <-done), false
	}
	return outcome{}, true
}

func (p *Pool[C]) deliver(n *node[C], out outcome) outcome {
	p.panicked(n, out)
	switch {
	case out.panic != nil:
		panic(out.panic)
	case out.exited:
		runtime.Goexit()
	}
	return out
}

// panicked keeps the stack of a panic from being lost on its way to the
// caller, or the panic itself if there is no caller any more.
func (p *Pool[C]) panicked(n *node[C], out outcome) {
	if out.panic != nil {
		p.opts.Logger.Error("a callback panicked", "node", n.Name, "stack", string(out.stack))
	}
}
