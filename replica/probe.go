package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-transparency/transparency"
)

// watch probes one node until the pool is closed. Every node has a goroutine
// of its own, so that one that hangs delays the news of no other.
func (p *Pool[C]) watch(n *node[C]) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-n.kick:
		case <-timer.C:
		}
		p.mu.Lock()
		n.begun++
		p.mu.Unlock()
		began := p.now()
		status, err := p.probe(n)
		if p.ctx.Err() != nil {
			return
		}
		p.learn(n, began, status, err)
		// A fifth more or less, so that many pools do not ask in step.
		timer.Reset(time.Duration(float64(p.opts.ProbeInterval) * (0.8 + 0.4*rand.Float64())))
	}
}

func (p *Pool[C]) probe(n *node[C]) (Status, error) {
	ctx, cancel := context.WithTimeout(p.ctx, p.opts.ProbeTimeout)
	defer cancel()
	status, err := p.backend.Probe(ctx, n.Node)
	if err == nil && status.Role != RolePrimary && status.Role != RoleReplica {
		err = errors.New("the node did not tell its role")
	}
	return status, err
}

// learn takes the result of a probe that began at began.
func (p *Pool[C]) learn(n *node[C], began time.Duration, status Status, err error) {
	class := ClassApp
	if err != nil {
		class = p.backend.Classify(err, n.Role)
		if errors.Is(err, transparency.ErrDenied) {
			class = ClassDenied // an answer to a call, but not to a probe
		}
		if isContext(err) {
			class = ClassUnknown
			err = fmt.Errorf("no answer to a probe within %v", p.opts.ProbeTimeout)
		} else {
			err = p.show(err)
		}
	}
	p.mu.Lock()
	now := p.now()
	n.ended++
	switch {
	case err == nil:
		p.proven(n, status, began, now)
	case class == ClassOverload || n.lastOK.Load() > int64(began):
		// It answers calls; the probe could not get through.
	case class == ClassDown || class == ClassUnknown || class == ClassDenied:
		n.dead, n.err, n.class, n.good = true, err, class, 0
		n.asOf.Store(unknown)
		p.eject(n, now)
	default:
		n.dead, n.unready, n.err, n.class, n.good = false, true, err, ClassNotReady, 0
	}
	p.recompute(now)
	close(p.changed)
	p.changed = make(chan struct{})
	p.unlock()
}

// The life of an ejection.
const (
	failuresToEject = 3
	firstEjection   = 5 * time.Second
	longestEjection = time.Minute
	forgetEjection  = time.Minute // of health, for each
	probesToReturn  = 2
	coolDown        = time.Second
)

// proven takes a good probe. Requires p.mu.
func (p *Pool[C]) proven(n *node[C], status Status, began, now time.Duration) {
	n.dead, n.unready = false, false
	another := n.role != status.Role || n.status.Epoch != status.Epoch
	if another {
		n.gen.Add(1)
		n.fails.Store(0)
	}
	if another || status.Offset < n.status.Offset {
		n.asOf.Store(unknown)
	}
	n.role, n.status, n.asked = status.Role, status, began
	n.good++
	switch {
	case n.role == RolePrimary:
		// There is no other, so that it is used as soon as it answers.
		if n.ejected {
			n.ejected = false
			n.gen.Add(1)
		}
		n.rampFrom.Store(unknown)
	case n.ejected:
		if n.good >= probesToReturn && now >= n.until {
			n.ejected = false
			n.steady = now
			n.gen.Add(1)
			n.fails.Store(0)
			n.meter.reset()
			n.rampFrom.Store(int64(now))
		}
	case n.ejections > 0 && now-n.steady >= forgetEjection:
		n.ejections--
		n.steady = now
	}
}

// eject leaves a node out for a while, longer each time. Requires p.mu.
func (p *Pool[C]) eject(n *node[C], now time.Duration) {
	if n.ejected {
		return
	}
	n.ejected, n.good = true, 0
	n.until = now + min(firstEjection<<min(n.ejections, 10), longestEjection)
	n.ejections++
	n.gen.Add(1)
	n.fails.Store(0)
	n.meter.reset() // should it be needed nevertheless, it may show what it can
	p.counts.ejections.Add(1)
}

// fault takes a failure that counts against the node, whose generation was gen
// when the call began.
func (p *Pool[C]) fault(n *node[C], gen uint32, err error, now time.Duration) {
	n.failures.Add(1)
	n.hint(now)
	if n.fails.Add(1) < failuresToEject {
		return
	}
	p.mu.Lock()
	defer p.unlock()
	if n.gen.Load() != gen || n.role == RolePrimary || n.state != StateUp || !p.mayEject() {
		return
	}
	n.err, n.class = err, ClassUnknown
	p.eject(n, now)
	p.recompute(now)
}

// mayEject reports whether one more replica may be left out because of failed
// calls: at most half of them are, but one always. Requires p.mu.
func (p *Pool[C]) mayEject() bool {
	out, all := 0, 0
	for _, n := range p.nodes {
		if n.role != RolePrimary {
			all++
			if n.state != StateUp {
				out++
			}
		}
	}
	return out == 0 || (out+1)*2 <= all
}

// cool leaves a node that said that it is not ready alone for a moment.
func (p *Pool[C]) cool(n *node[C], err error, now time.Duration) {
	p.mu.Lock()
	defer p.unlock()
	n.coolUntil, n.err, n.class = now+coolDown, err, ClassNotReady
	p.recompute(now)
	n.hint(now)
}

// show returns err as it may be shown.
func (p *Pool[C]) show(err error) error {
	if err == nil {
		return nil
	}
	return &cause{p.redact(err).Error(), err}
}
