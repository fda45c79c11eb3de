package relocation

import "sync/atomic"

// HubStats counts what a [Hub] has done.
type HubStats struct {
	Sessions int // attached now, with those that are about to leave
	Openings int // under way now

	Created, Resumed, Rejected uint64 // openings, since the start
	Released, Ended            uint64 // sessions left to others, and ended
	Fenced, Lost               uint64 // sessions that another instance took, and whose lease ran out
	Handled, HandlerErrors     uint64 // messages
	Duplicates                 uint64 // messages that came twice, and were dropped
	Sent                       uint64 // messages given to transports
	Commits, CommitErrors      uint64 // requests to the store
	ProtocolErrors             uint64
}

type hubCounts struct {
	created, resumed, rejected      atomic.Uint64
	released, ended, fenced, lost   atomic.Uint64
	handled, handlerErrors          atomic.Uint64
	duplicates, sent                atomic.Uint64
	commits, commitErrors, protocol atomic.Uint64
}

// Stats returns the counts of this moment.
func (h *Hub) Stats() HubStats {
	if !h.usable() {
		return HubStats{}
	}
	c := &h.counts
	s := HubStats{
		Created: c.created.Load(), Resumed: c.resumed.Load(), Rejected: c.rejected.Load(),
		Released: c.released.Load(), Ended: c.ended.Load(), Fenced: c.fenced.Load(), Lost: c.lost.Load(),
		Handled: c.handled.Load(), HandlerErrors: c.handlerErrors.Load(),
		Duplicates: c.duplicates.Load(), Sent: c.sent.Load(),
		Commits: c.commits.Load(), CommitErrors: c.commitErrors.Load(), ProtocolErrors: c.protocol.Load(),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Sessions, s.Openings = len(h.all), h.openings
	return s
}
