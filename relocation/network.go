package relocation

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
)

// A Direction is one of the two ways of a transport, or both.
type Direction uint8

// The directions.
const (
	ToServer Direction = 1 << iota
	ToClient
	BothWays = ToServer | ToClient
)

// A Network carries transports within a process, for tests: its [Network.Dial]
// is that of a [Dialer], and what an address does wrong can be said at any
// time. It waits on channels and timers alone, so that time in a bubble of
// testing/synctest passes by itself.
//
// What is said of an address holds for the transports that it has and for
// those to come, also when its listener was stopped and another came. Between
// the two ends of a transport there is room for 4 MiB, so that a Write soon
// returns nil, as on a real connection, and what was written may still get
// lost. A Network is safe for concurrent use, and the zero value is ready.
type Network struct {
	mu    sync.Mutex // guards hosts
	hosts map[string]*networkHost
}

// NewNetwork returns a network without listeners.
func NewNetwork() *Network { return new(Network) }

var _ Dialer = (*Network)(nil)

// networkHost is an address.
type networkHost struct {
	left [2]atomic.Int64 // messages until the cut; zero means none is planned

	mu       sync.Mutex // guards what follows
	listener *networkListener
	refuse   bool
	hang     bool
	frozen   [2]bool
	delay    [2]time.Duration
	pairs    map[*networkPair]struct{}
	changed  chan struct{} // closed at the next change; nil when nobody waits
}

type networkListener struct {
	ctx     context.Context
	accept  func(context.Context, Transport)
	running sync.WaitGroup
}

// host returns the host of an address, or nil.
func (n *Network) host(addr string) *networkHost {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[addr]
	if h == nil {
		if n.hosts == nil {
			n.hosts = make(map[string]*networkHost)
		}
		h = &networkHost{pairs: make(map[*networkPair]struct{})}
		n.hosts[addr] = h
	}
	return h
}

// Listen calls accept, each time in a new goroutine, with the server's end of
// each transport that is dialled to addr. A later Listen for the same addr
// takes the dials from then on.
//
// The stop function is the end of a server: new dials are refused, the
// transports are cut, the contexts that accept was given end, and stop returns
// when every accept has. It may be called again.
func (n *Network) Listen(addr string, accept func(context.Context, Transport)) (stop func()) {
	h := n.host(addr)
	if h == nil || accept == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &networkListener{ctx: ctx, accept: accept}
	h.set(func() { h.listener = l })
	return func() {
		var cut []*networkPair
		h.set(func() {
			if h.listener == l {
				h.listener = nil
			}
			for p := range h.pairs {
				if p.listener == l {
					cut = append(cut, p)
				}
			}
		})
		cancel()
		for _, p := range cut {
			p.cut()
		}
		l.running.Wait()
	}
}

// Dial opens a transport to addr. An address where nobody listens refuses;
// one that hangs, or is frozen in a direction, lets Dial wait until it does so
// no more or ctx ends.
func (n *Network) Dial(ctx context.Context, addr string) (Transport, error) {
	h := n.host(addr)
	if h == nil {
		return nil, fmt.Errorf("relocation: dial: %w", invalid("the Network is nil"))
	}
	for waited := false; ; {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("relocation: dial: %w: %w", transparency.ErrUnavailable, err)
		}
		client, wait, delay := h.connect(waited)
		switch {
		case client != nil:
			return client, nil
		case delay > 0:
			t := time.NewTimer(delay)
			select {
			case <-t.C:
				waited = true
			case <-ctx.Done():
				t.Stop()
			}
		case wait != nil:
			select {
			case <-wait:
			case <-ctx.Done():
			}
		default:
			return nil, fmt.Errorf("relocation: dial: %w: refused", transparency.ErrUnavailable)
		}
	}
}

// connect returns the client's end of a new transport, or what to wait for, or
// how long, or nothing when it refuses.
func (h *networkHost) connect(waited bool) (*networkEnd, <-chan struct{}, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	round := h.delay[0] + h.delay[1]
	switch {
	case h.hang, h.frozen[0], h.frozen[1]:
		if h.changed == nil {
			h.changed = make(chan struct{})
		}
		return nil, h.changed, 0
	case round > 0 && !waited:
		return nil, nil, round
	case h.refuse, h.listener == nil:
		return nil, nil, 0
	}
	p := newNetworkPair(h, h.listener)
	h.pairs[p] = struct{}{}
	l := h.listener
	l.running.Go(func() {
		defer func() { _ = p.server.Close(CloseNormal, "") }()
		l.accept(l.ctx, &p.server)
	})
	return &p.client, nil, 0
}

// set changes the host under its lock, and tells those who wait in Dial.
func (h *networkHost) set(change func()) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// Refuse lets addr refuse dials, or no more.
func (n *Network) Refuse(addr string, yes bool) {
	h := n.host(addr)
	h.set(func() { h.refuse = yes })
}

// Hang lets dials to addr hang, or no more.
func (n *Network) Hang(addr string, yes bool) {
	h := n.host(addr)
	h.set(func() { h.hang = yes })
}

// Freeze stops what goes in a direction, the news of a Close too. Nothing gets
// lost by it, and neither side is told.
func (n *Network) Freeze(addr string, d Direction) { n.freeze(addr, d, true) }

// Thaw ends a Freeze.
func (n *Network) Thaw(addr string, d Direction) { n.freeze(addr, d, false) }

func (n *Network) freeze(addr string, d Direction, yes bool) {
	h := n.host(addr)
	h.set(func() {
		for _, i := range d.indexes() {
			h.frozen[i] = yes
			for p := range h.pairs {
				p.links[i].set(func(l *networkLink) { l.frozen = yes })
			}
		}
	})
}

// Delay lets everything that is sent in a direction from now on take that
// long, and a dial a round trip. Order stays.
func (n *Network) Delay(addr string, d Direction, delay time.Duration) {
	h := n.host(addr)
	h.set(func() {
		for _, i := range d.indexes() {
			h.delay[i] = delay
			for p := range h.pairs {
				p.links[i].set(func(l *networkLink) { l.delay = delay })
			}
		}
	})
}

// Cut ends the transports of addr at once. What was under way is lost, and
// both sides are told.
func (n *Network) Cut(addr string) {
	h := n.host(addr)
	var cut []*networkPair
	h.set(func() {
		for p := range h.pairs {
			cut = append(cut, p)
		}
	})
	for _, p := range cut {
		p.cut()
	}
}

// CutAfter cuts the transport of addr that delivers the message of that number
// from now in a direction, right after it. Zero takes the plan back.
func (n *Network) CutAfter(addr string, d Direction, messages int) {
	h := n.host(addr)
	h.set(func() {
		for _, i := range d.indexes() {
			h.left[i].Store(int64(max(messages, 0)))
		}
	})
}

// delivered counts a message, and reports whether the cut is due.
func (h *networkHost) delivered(i int) bool {
	left := &h.left[i]
	for {
		n := left.Load()
		if n == 0 {
			return false
		}
		if left.CompareAndSwap(n, n-1) {
			return n == 1
		}
	}
}

func (d Direction) indexes() []int {
	var indexes []int
	if d&ToServer != 0 {
		indexes = append(indexes, 0)
	}
	if d&ToClient != 0 {
		indexes = append(indexes, 1)
	}
	return indexes
}
