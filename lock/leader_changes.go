package lock

import (
	"context"
	"iter"
	"time"
)

// LeaderState is what a [Leader] is doing.
type LeaderState uint8

// The states of a [Leader].
const (
	LeaderIdle        LeaderState = iota // Run was not called, or has returned
	LeaderCampaigning                    // waits for the lock
	LeaderLeading                        // its function runs, under a lease that is held
	LeaderLeaving                        // its function is to stop and has not returned yet
)

// String returns the state in lower case.
func (s LeaderState) String() string {
	switch s {
	case LeaderIdle:
		return "idle"
	case LeaderCampaigning:
		return "campaigning"
	case LeaderLeading:
		return "leading"
	case LeaderLeaving:
		return "leaving"
	}
	return "unknown"
}

// A LeaderChange is a state that a [Leader] came into.
type LeaderChange struct {
	State LeaderState

	// Fence is that of the lease, while leading and leaving.
	Fence uint64

	At time.Time // zero before the first Run

	// Err is why, when it was not as wished: campaigning anew, because the
	// leadership was lost (it wraps [ErrLost] or [ErrStaleFence]) or a campaign
	// failed; leaving, because of a loss or the end of the context; idle,
	// because of what Run returned.
	Err error
}

// A leaderLink is a change and, once done is closed, the next. Who follows
// them holds the one it has seen, so nothing is lost on the slow and nothing
// is kept for the absent.
type leaderLink struct {
	LeaderChange
	next *leaderLink
	done chan struct{}
}

// State returns the present state. When it is [LeaderLeading], no other holder
// had the lock a moment ago; to be sure that it is so when it matters, pass the
// fence to the resource.
func (l *Leader) State() LeaderState {
	if l == nil {
		return LeaderIdle
	}
	return l.present().State
}

// Changes returns the state of this moment and every change after it, in order
// and none left out, until ctx ends. The loop may be slow: nobody waits for it.
func (l *Leader) Changes(ctx context.Context) iter.Seq[LeaderChange] {
	if l == nil {
		return func(func(LeaderChange) bool) {}
	}
	start := l.present()
	return func(yield func(LeaderChange) bool) {
		for at := start; ctx.Err() == nil && yield(at.LeaderChange); {
			select {
			case <-at.done:
				at = at.next
			case <-ctx.Done():
				return
			}
		}
	}
}

func (l *Leader) present() *leaderLink {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil {
		l.now = &leaderLink{done: make(chan struct{})}
	}
	return l.now
}

// change requires l.mu.
func (l *Leader) change(c LeaderChange) {
	c.At = time.Now()
	next := &leaderLink{LeaderChange: c, done: make(chan struct{})}
	if l.now != nil {
		l.now.next = next
		close(l.now.done)
	}
	l.now = next
}

func (l *Leader) campaign(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.change(LeaderChange{State: LeaderCampaigning, Err: err})
}

func (l *Leader) lead(t *term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serving = t
	l.change(LeaderChange{State: LeaderLeading, Fence: t.fence})
}

// leave tells that the term's context has ended, unless its function has
// returned since.
func (l *Leader) leave(t *term, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.serving == t {
		l.change(LeaderChange{State: LeaderLeaving, Fence: t.fence, Err: err})
	}
}

func (l *Leader) left() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serving = nil
}

func (l *Leader) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = false
	l.change(LeaderChange{State: LeaderIdle, Err: err})
}
