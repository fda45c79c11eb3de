package replica

import "time"

// A State is what a pool thinks of a node.
type State uint8

// The states of a node.
const (
	StateUnknown  State = iota // not asked yet
	StateUp                    // in use
	StateNotReady              // answers, and is not to be used now: loading, or without its primary for too long
	StateEjected               // left out for a while, because calls to it failed
	StateDown                  // does not answer
)

// String returns the name of the state in lower case.
func (s State) String() string { return name(int(s), "unknown", "up", "not ready", "ejected", "down") }

// A NodeStatus is what a pool knows of a node.
type NodeStatus struct {
	Name  string
	Role  Role
	State State
	Since time.Time // of the present role and state
	Err   error     // why it is not up; nil if it is

	// Lag is how far behind the primary a replica may be at most, by the
	// latest probes, and zero for a primary. LagKnown is false when that is
	// not known, which is not the same as none.
	Lag      time.Duration
	LagKnown bool

	Latency  time.Duration // of its answers, weighted to the slow and the recent
	InFlight int           // callbacks under way there, those left behind included
	Calls    uint64        // callbacks started there
	Failures uint64        // callbacks whose failure counted against the node
}

// Stats counts what a [Pool] has done.
type Stats struct {
	Nodes   int // all
	Healthy int // nodes that are up, in either role
	Running int // callbacks under way
	Left    int // callbacks that run on although their callers have gone

	Reads, Writes uint64 // calls
	Retries       uint64 // callbacks beyond the first of a call
	ToPrimary     uint64 // reads that went to the primary for want of a replica
	OverBudget    uint64 // reads that were refused because that budget was spent
	Ejections     uint64 // nodes taken out of use
	MaybeExecuted uint64 // writes whose outcome is not known
}
