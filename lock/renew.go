package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// The keeper is the one goroutine that keeps a Locker's leases. It ends leases
// whose time is over and starts renewals, but waits for none, so that a store
// that does not answer never delays the news of a loss. It is there while
// there are leases, and then until its next look.
//
// A lease of TTL T is first renewed T/3 after the attempt that won it was
// sent, or a little earlier together with others. A try lasts T/6 at most and
// the next follows within T/30, so that three fit into what is valid.
type keeper struct {
	kick    chan struct{} // holds one: look again
	running bool
	next    time.Time // of its next look
	flights int       // renewals under way
}

// maxLook is how long the keeper goes without looking, and so how long it stays
// when there is nothing left to keep. It does not end with each last lease, or
// locking and unlocking would start it every time.
const maxLook = 30 * time.Second

// maxFlights bounds the renewals under way when the store is slow to answer.
const maxFlights = 4

func (s *Lease) before(o *Lease) bool { return s.due.at.Before(o.due.at) }
func (s *Lease) place() *int          { return &s.index }

// keep puts a lease under the keeper. It requires l.mu.
func (l *Locker) keep(s *Lease) {
	l.leases.push(s)
	l.lookAt(s.due.at)
}

// lookAt has the keeper look no later than at. It requires l.mu.
func (l *Locker) lookAt(at time.Time) {
	k := &l.keeper
	switch {
	case !k.running:
		wait := min(time.Until(at), maxLook)
		k.running, k.next = true, time.Now().Add(wait)
		l.tasks.Add(1)
		go l.keepAll(wait)
	case at.Before(k.next):
		select {
		case k.kick <- struct{}{}:
		default:
		}
	}
}

func (l *Locker) keepAll(wait time.Duration) {
	defer l.tasks.Done()
	k := &l.keeper
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-k.kick:
		case <-l.done: // Close has ended the leases
		}
		l.mu.Lock()
		now := l.now()
		if batch := l.takeDue(now); len(batch) > 0 {
			k.flights++
			l.tasks.Add(1)
			go l.renew(batch)
		}
		if len(l.leases) == 0 {
			k.running = false
			l.unlockAside()
			return
		}
		wait := min(l.leases[0].due.at.Sub(now.at), maxLook)
		k.next = now.at.Add(wait)
		l.unlockAside()
		timer.Reset(wait)
	}
}

// takeDue ends the leases that are over and returns those to renew. It
// requires l.mu.
func (l *Locker) takeDue(now instant) []*Lease {
	var batch []*Lease
	for len(l.leases) > 0 {
		s := l.leases[0]
		if s.check(now); s.state != held {
			continue // and so it has left the heap
		}
		var early time.Duration // so that many go together
		if !s.renewing && !s.retrying {
			early = s.claim.TTL / 12
		}
		if s.due.at.Sub(now.at) > early {
			break
		}
		switch {
		case s.renewing:
			s.due = s.valid
		case l.keeper.flights >= maxFlights:
			s.retryAt(now)
		default:
			s.renewing = true
			s.due = s.valid
			batch = append(batch, s)
		}
		l.leases.move(s)
	}
	return batch
}

// retryAt decides when to try a renewal again, or for the first time. It
// requires the Locker's mu.
func (s *Lease) retryAt(now instant) {
	pause := s.claim.TTL / 60
	s.retrying, s.due = true, now.add(pause+rand.N(pause+1))
	if s.valid.at.Before(s.due.at) {
		s.due = s.valid
	}
}

// renew renews leases in one exchange with the store.
func (l *Locker) renew(batch []*Lease) {
	defer l.tasks.Done()
	claims := make([]Claim, len(batch))
	timeout := l.opts.Timeout
	for i, s := range batch {
		claims[i] = s.claim
		timeout = min(timeout, s.claim.TTL/6)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	start := l.now()
	results := l.driver.Renew(ctx, claims)

	l.mu.Lock()
	defer l.unlock()
	l.keeper.flights--
	now := l.now()
	for i, s := range batch {
		err := errNoResult
		if len(results) == len(batch) {
			err = results[i]
		}
		s.renewing = false
		if s.state == held { // else whoever looked has been told that it ended
			l.renewed(s, start, now, err)
		}
	}
	if len(l.leases) > 0 {
		l.lookAt(l.leases[0].due.at)
	}
}

var errNoResult = errors.New("the driver gave no result")

// renewed notes the result of one renewal, sent at start. It requires l.mu.
func (l *Locker) renewed(s *Lease, start, now instant, err error) {
	switch {
	case err == nil:
		l.stats.Renewed++
		s.failures, s.retrying = 0, false
		s.valid = start.add(s.claim.TTL - margin(s.claim.TTL))
		s.due = start.add(s.claim.TTL / 3)
	case errors.Is(err, ErrLost):
		l.lose(s, fmt.Errorf("%w: the key is not its own any more", ErrLost))
		return
	default:
		l.stats.RenewalsFailed++
		if s.failures++; s.failures == 1 {
			l.report("lock: renewal failed, trying again", s, err)
		}
		s.retryAt(now)
	}
	l.leases.move(s)
}

// lose ends a lease that was not unlocked. It requires l.mu.
func (l *Locker) lose(s *Lease, cause error) {
	l.end(s, lost, cause)
	l.stats.Lost++
	l.leave(s)
	l.report("lock: lease lost", s, cause)
}

// end ends a lease that is held. It requires l.mu.
func (l *Locker) end(s *Lease, as state, cause error) {
	s.state, s.cause = as, cause
	if now := l.now(); now.at.Before(s.valid.at) {
		s.valid = now
	}
	l.leases.take(s)
	if s.cancel != nil {
		s.cancel(s.err())
	}
}

// remaining is for how long the lease is valid yet.
func (s *Lease) remaining(now instant) time.Duration {
	return max(s.valid.at.Sub(now.at), 0)
}

// report has the logger told once l.mu is free: a handler is the caller's
// code. It requires l.mu.
func (l *Locker) report(msg string, s *Lease, err error) {
	l.reports = append(l.reports, func() {
		l.opts.Logger.Warn(msg, "key", s.claim.Key, "fence", s.fence, "error", err)
	})
}

// unlock frees l.mu and then tells the logger what there is to tell.
func (l *Locker) unlock() {
	for _, report := range l.takeReports() {
		report()
	}
}

// unlockAside is unlock for the keeper, which a slow logger must not keep from
// the other leases.
func (l *Locker) unlockAside() {
	if reports := l.takeReports(); len(reports) > 0 {
		l.tasks.Go(func() {
			for _, report := range reports {
				report()
			}
		})
	}
}

func (l *Locker) takeReports() []func() {
	defer l.mu.Unlock()
	reports := l.reports
	l.reports = nil
	return reports
}
