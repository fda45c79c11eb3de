package replica

import "time"

// tell queues the changes since it was last called, and sees to it that they
// are delivered in order. Requires p.mu.
func (p *Pool[C]) tell() {
	for _, n := range p.nodes {
		if n.role == n.told.role && n.state == n.told.state {
			continue
		}
		n.since = time.Now()
		p.events = append(p.events, Change{
			Node: n.Name, OldRole: n.told.role, Role: n.role,
			OldState: n.told.state, State: n.state, At: n.since, Err: n.err,
		})
		n.told.role, n.told.state = n.role, n.state
	}
	if len(p.events) > 0 && !p.telling && p.phase.Load() != closed {
		p.telling = true
		p.tasks.Go(p.deliverChanges)
	}
}

func (p *Pool[C]) deliverChanges() {
	for {
		p.mu.Lock()
		events := p.events
		p.events = nil
		p.telling = len(events) > 0
		p.mu.Unlock()
		if len(events) == 0 {
			return
		}
		for _, c := range events {
			level := p.opts.Logger.Info
			if c.State != StateUp {
				level = p.opts.Logger.Warn
			}
			level("replica: a node changed", "node", c.Node, "role", c.Role.String(),
				"from", c.OldState.String(), "to", c.State.String(), "error", c.Err)
			if p.opts.OnChange != nil {
				p.opts.OnChange(c)
			}
		}
	}
}
