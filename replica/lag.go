package replica

import "time"

// A sample says how far the history of the primary had grown.
type sample struct {
	epoch  string
	offset uint64
	at     time.Duration // before it was asked
}

// maxSamples bounds what is remembered of the primary: about two minutes.
const maxSamples = 128

// measure brings the lag of the replicas up to date. What a replica has is
// compared with what the primary had at known instants, so that no clock but
// this process's is used, and a primary that is idle makes nobody lag.
// Requires p.mu.
func (p *Pool[C]) measure(primary *node[C], now time.Duration) {
	if primary != nil {
		at := primary.asked
		last := len(p.samples) - 1
		if primary.status.Offset != 0 && (last < 0 || p.samples[last].at < at) {
			if last+1 == maxSamples {
				p.samples = append(p.samples[:0], p.samples[1:]...)
			}
			p.samples = append(p.samples, sample{primary.status.Epoch, primary.status.Offset, at})
		}
	}
	for _, n := range p.nodes {
		if n.role != RoleReplica || n.dead {
			continue
		}
		p.stray(n, primary, now)
		for i := len(p.samples) - 1; i >= 0; i-- {
			s := p.samples[i]
			if n.asOf.Load() >= int64(s.at) {
				break
			}
			if s.epoch == n.status.Epoch && n.status.Offset != 0 && s.offset <= n.status.Offset {
				n.asOf.Store(int64(s.at))
				break
			}
		}
	}
}

// stray notes since when a replica is in another history than the primary: it
// follows one that was left behind, and what it has may never have happened.
// Requires p.mu.
func (p *Pool[C]) stray(n, primary *node[C], now time.Duration) {
	switch {
	case primary == nil || primary.status.Epoch == "" || n.status.Epoch == "" || n.status.Epoch == primary.status.Epoch:
		n.strayed = unknown
	case n.strayed == unknown:
		n.strayed = int64(now)
	}
	if n.strayed != unknown {
		n.asOf.Store(unknown)
	}
}
