package replica

import (
	"math"
	"sync/atomic"
	"time"
)

// unknown is an instant that there was not.
const unknown = math.MinInt64

// A node is what a pool knows of a [Node]. Instants are by Pool.now.
type node[C any] struct {
	Node[C]
	slots    chan struct{} // one for each callback under way, those left behind too
	waiting  atomic.Int32  // calls that wait for a slot
	left     atomic.Int32  // callbacks that were left behind
	meter    meter
	calls    atomic.Uint64
	failures atomic.Uint64
	fails    atomic.Int32  // failures since the last success
	lastOK   atomic.Int64  // when a call last succeeded
	gen      atomic.Uint32 // grows when the node becomes another one; see fault
	rampFrom atomic.Int64  // when its slow start began, or unknown
	asOf     atomic.Int64  // it has what the primary had then, or unknown
	hinted   atomic.Int64  // when a call last asked for a probe
	kick     chan struct{} // asks for a probe

	// Guarded by Pool.mu.
	role      Role
	state     State
	since     time.Time
	status    Status        // by the last good probe
	asked     time.Duration // when that began
	err       error         // of the last bad probe or failure; nil when it is up
	class     Class         // of err
	begun     uint64        // probes
	ended     uint64
	dead      bool // the last probe got no answer
	unready   bool // the last probe said so
	coolUntil time.Duration
	ejected   bool
	until     time.Duration // earliest end of the ejection
	ejections int           // the more, the longer the next; forgotten with time
	steady    time.Duration // when it came back, or an ejection was forgotten
	good      int           // good probes in a row
	strayed   int64         // since when it is in another history than the primary, or unknown
	out       chan struct{} // closed when it is not up any more
	told      struct {      // what was last told of it
		role  Role
		state State
	}
}

func newNode[C any](n Node[C], share int, now time.Time) *node[C] {
	x := &node[C]{
		Node: n, role: n.Role, since: now, strayed: unknown,
		slots: make(chan struct{}, share), kick: make(chan struct{}, 1), out: make(chan struct{}),
	}
	for _, instant := range []*atomic.Int64{&x.lastOK, &x.rampFrom, &x.asOf, &x.hinted} {
		instant.Store(unknown)
	}
	x.told.role = n.Role
	return x
}

// poke asks for a probe as soon as the one under way, if any, has ended.
func (n *node[C]) poke() {
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// hintEvery bounds how often calls can cause probes.
const hintEvery = 100 * time.Millisecond

// hint asks for a probe, unless one was asked for just now.
func (n *node[C]) hint(now time.Duration) {
	last := n.hinted.Load()
	if last != unknown && now-time.Duration(last) < hintEvery {
		return
	}
	if n.hinted.CompareAndSwap(last, int64(now)) {
		n.poke()
	}
}
