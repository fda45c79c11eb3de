package lock

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency/internal/backoff"
)

// An ear hears the wake-ups of all keys that the Locker waits for. It is there
// from the first waiter until idleEar after the last.
type ear struct {
	waiters int
	cancel  context.CancelFunc // of the goroutine that listens; nil when there is none
	idle    *time.Timer
}

const idleEar = 30 * time.Second

// listen sees to it that the Locker hears. It requires l.mu.
func (l *Locker) listen() {
	e := &l.ear
	e.waiters++
	if e.idle != nil {
		e.idle.Stop()
		e.idle = nil
	}
	if e.cancel != nil || l.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	l.tasks.Add(1)
	go l.hear(ctx)
}

// unlisten is called once for each listen. It requires l.mu.
func (l *Locker) unlisten() {
	e := &l.ear
	if e.waiters--; e.waiters > 0 || e.cancel == nil {
		return
	}
	var idle *time.Timer
	idle = time.AfterFunc(idleEar, func() {
		l.mu.Lock()
		defer l.unlock()
		if e.idle == idle {
			l.deafen()
		}
	})
	e.idle = idle
}

// deafen requires l.mu.
func (l *Locker) deafen() {
	e := &l.ear
	if e.idle != nil {
		e.idle.Stop()
		e.idle = nil
	}
	if e.cancel != nil {
		e.cancel()
		e.cancel = nil
	}
}

func (l *Locker) hear(ctx context.Context) {
	defer l.tasks.Done()
	var heard atomic.Bool
	for failures := 0; ; failures++ {
		err := l.driver.Listen(ctx, l.owner, func(key string) {
			heard.Store(true)
			l.wake(key)
		})
		if ctx.Err() != nil {
			return
		}
		if heard.Swap(false) {
			failures = 0
		}
		l.opts.Logger.Debug("lock: wake-ups are not heard, waiters poll", "error", err)
		if backoff.Sleep(ctx, retryPolicy.Delay(failures)) != nil {
			return
		}
	}
}

// wake tells the one who contends for key to ask again, or all who contend
// when key is empty.
func (l *Locker) wake(key string) {
	l.mu.Lock()
	defer l.unlock()
	if key != "" {
		for _, semaphore := range [...]bool{false, true} {
			if s, ok := l.slots.get(slotName{key, semaphore}); ok {
				s.rouse()
			}
		}
		return
	}
	for _, s := range l.slots.m {
		s.rouse()
	}
}

// rouse requires the Locker's mu.
func (s *slot) rouse() {
	switch {
	case s.lease != nil:
	case s.wake == nil:
		s.woken = true
	default:
		select {
		case s.wake <- struct{}{}:
		default: // it has been told
		}
	}
}
