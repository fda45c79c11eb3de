package lock

import (
	"context"
	"sync/atomic"
	"testing"
)

// registered is a context that counts what waits for its end.
type registered struct {
	context.Context
	done chan struct{}
	n    atomic.Int32
}

func (c *registered) Done() <-chan struct{} { return c.done }

func (c *registered) AfterFunc(func()) (stop func() bool) {
	c.n.Add(1)
	return func() bool { c.n.Add(-1); return true }
}

// Do leaves nothing behind in a context that lives on.
func TestDoUnlinks(t *testing.T) {
	l := NewMemory(nil)
	defer l.Close()
	ctx := &registered{Context: context.WithoutCancel(t.Context()), done: make(chan struct{})}
	err := Do(ctx, l.Mutex("k", nil), func(context.Context, uint64) error {
		if ctx.n.Load() == 0 {
			t.Errorf("the section is not linked to the caller's context; the check shows nothing")
		}
		return nil
	})
	if err != nil || ctx.n.Load() != 0 {
		t.Errorf("Do = %v, and %d functions still wait for the end of the caller's context", err, ctx.n.Load())
	}
}
