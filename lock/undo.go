package lock

import (
	"context"
	"errors"
	"time"

	"github.com/go-transparency/transparency"
)

// An undoing is a release that nobody waits for: of an attempt that was given
// up, or of an Unlock that got no answer. Releasing a token that has nothing
// does no harm, so it can be tried until its TTL has done the work.
type undoing struct {
	claim    Claim
	lease    *Lease // of the Unlock
	again    bool   // the attempt may still be under way, so look twice
	at       time.Time
	until    time.Time
	failures int
	index    int
}

func (u *undoing) before(o *undoing) bool { return u.at.Before(o.at) }
func (u *undoing) place() *int            { return &u.index }

// The undoer makes the releases, one after another, in a goroutine that is
// there while there are any.
type undoer struct {
	kick    chan struct{}
	running bool
	list    heap[*undoing]
}

const (
	// secondLook is when an attempt of unknown outcome is undone once more.
	secondLook = time.Second
	// maxUndoing bounds the list. What does not fit is left to its TTL.
	maxUndoing = 1 << 14
)

// undo requires l.mu.
func (l *Locker) undo(u *undoing) {
	if l.closed && u.lease != nil {
		return // Close may have waited already; Unlock can be called again
	}
	if len(l.undoer.list) >= maxUndoing {
		return
	}
	u.at = time.Now()
	u.until = u.at.Add(u.claim.TTL)
	l.undoer.list.push(u)
	if !l.undoer.running {
		l.undoer.running = true
		l.tasks.Add(1)
		go l.undoAll()
		return
	}
	select {
	case l.undoer.kick <- struct{}{}:
	default:
	}
}

func (l *Locker) undoAll() {
	defer l.tasks.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last context.Context // once the Locker is closed
	for {
		l.mu.Lock()
		if l.closed && last == nil {
			ctx, cancel := context.WithTimeout(context.Background(), l.opts.Timeout)
			defer cancel()
			last = ctx
		}
		list := &l.undoer.list
		if len(*list) == 0 || last != nil && last.Err() != nil {
			*list, l.undoer.running = nil, false
			l.unlock()
			return
		}
		u := (*list)[0]
		wait := time.Until(u.at)
		l.unlock()
		if wait > 0 && last == nil {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-l.undoer.kick:
			case <-l.done:
			}
			continue
		}
		l.undoOne(last, u)
	}
}

// undoOne makes one release and decides on what follows.
func (l *Locker) undoOne(last context.Context, u *undoing) {
	parent := last
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, l.opts.Timeout)
	owned, err := l.driver.Release(ctx, u.claim)
	cancel()

	l.mu.Lock()
	defer l.unlock()
	now := time.Now()
	switch {
	case last != nil || !now.Before(u.until):
	case err == nil && u.again && !owned:
		u.again = false
		u.at = now.Add(secondLook)
		l.undoer.list.move(u)
		return
	case err != nil && !errors.Is(err, transparency.ErrDenied) && !errors.Is(err, transparency.ErrInvalid):
		u.at = now.Add(retryPolicy.Delay(u.failures))
		u.failures++
		l.undoer.list.move(u)
		return
	}
	if err == nil && u.lease != nil {
		u.lease.freed = true
	}
	l.undoer.list.take(u)
}
