// Package faultnet is a TCP proxy that misbehaves on command, to stand between a client and a
// server in tests: it delays, freezes, drops, resets and cuts, each way on its own.
//
// Faults apply to the connections that are open and to those still to come, until they are taken
// back. They combine: a chunk waits while its direction is frozen, then for the delay, and only
// then is it dropped, cut or passed on.
package faultnet

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// Dir is a direction of flow.
type Dir uint8

// The directions.
const (
	ToServer Dir = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// Proxy forwards TCP connections to one target. Its methods are safe for concurrent use.
type Proxy struct {
	tb     testing.TB
	target string
	addr   string

	ctx    context.Context // ends at cleanup
	cancel context.CancelFunc
	wg     sync.WaitGroup // every goroutine of the proxy

	mu       sync.Mutex // guards what follows
	listener net.Listener
	links    map[*link]struct{}
	ways     [2]way
}

// A way is one direction of the proxy: its faults and its count.
type way struct {
	delay   time.Duration
	frozen  bool
	drop    bool
	cut     int64         // bytes until the armed cut; negative: none is armed
	bytes   int64         // forwarded so far
	changed chan struct{} // closed, and replaced, whenever delay or frozen changes
}

// New starts a proxy to target on a loopback port of its own. It is closed at tb's cleanup, with
// all its connections and goroutines.
func New(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := listen()
	if err != nil {
		tb.Fatalf("faultnet: %v", err)
	}
	p := &Proxy{tb: tb, target: target, addr: l.Addr().String(), listener: l, links: make(map[*link]struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	for i := range p.ways {
		p.ways[i].cut = -1
		p.ways[i].changed = make(chan struct{})
	}
	p.wg.Go(func() { p.accept(l) })
	tb.Cleanup(p.close)
	return p
}

// Addr returns the host:port at which the proxy listens.
func (p *Proxy) Addr() string { return p.addr }

// Delay makes every chunk that flows in dir wait for d before it is passed on; chunks are what one
// read gave, and the next is read after that. Zero or less ends the delay, for a chunk that waits too.
func (p *Proxy) Delay(dir Dir, d time.Duration) {
	p.change(dir, func(w *way) { w.delay = d })
}

// Freeze stops the flow in dir. Connections stay open and nothing is lost: what is sent meanwhile,
// the end of a stream included, arrives after [Proxy.Thaw].
func (p *Proxy) Freeze(dir Dir) {
	p.change(dir, func(w *way) { w.frozen = true })
}

// Thaw ends a freeze.
func (p *Proxy) Thaw(dir Dir) {
	p.change(dir, func(w *way) { w.frozen = false })
}

// Drop makes dir a black hole while on: what is sent is read and thrown away, the end of a stream
// included, and the other side is told nothing.
func (p *Proxy) Drop(dir Dir, on bool) {
	p.change(dir, func(w *way) { w.drop = on })
}

// CutAfter arms a cut: of the connections open now or later, the first to pass n bytes in dir,
// counted from now, is reset with exactly these passed on. With n = 0 that is when the next byte
// wants through; a negative n disarms. A cut hits one connection.
//
// What the receiver has not read yet is still there for it to read before it sees the reset, as
// long as it fits in the kernel's buffers.
func (p *Proxy) CutAfter(dir Dir, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.each(dir, func(i int, w *way) {
		w.cut = n
		for l := range p.links {
			l.passed[i] = 0
		}
	})
}

// Reset breaks all present connections, on both sides, with a TCP reset.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetAll()
}

// Refuse closes the proxy's port while on, so that new connections are refused as if nothing
// listened there; present ones are left alone.
func (p *Proxy) Refuse(on bool) {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if on == (p.listener == nil) || p.ctx.Err() != nil {
		return
	}
	if on {
		_ = p.listener.Close()
		p.listener = nil
		return
	}
	l, err := p.relisten()
	if err != nil {
		p.tb.Errorf("faultnet: listen again: %v", err)
		return
	}
	p.listener = l
	p.wg.Go(func() { p.accept(l) })
}

// Conns returns the number of connections that are open.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Bytes returns the number of bytes passed on in dir so far, dropped ones not among them.
func (p *Proxy) Bytes(dir Dir) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var n int64
	p.each(dir, func(_ int, w *way) { n += w.bytes })
	return n
}

func (p *Proxy) change(dir Dir, set func(*way)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.each(dir, func(_ int, w *way) {
		set(w)
		close(w.changed)
		w.changed = make(chan struct{})
	})
}

// each calls f for the ways of dir. Requires p.mu.
func (p *Proxy) each(dir Dir, f func(i int, w *way)) {
	for i := range p.ways {
		if dir&(1<<i) != 0 {
			f(i, &p.ways[i])
		}
	}
}

// resetAll leaves no link, so that Conns is zero right after. Requires p.mu.
func (p *Proxy) resetAll() {
	for l := range p.links {
		l.reset()
	}
	clear(p.links)
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.cancel()
	if p.listener != nil {
		_ = p.listener.Close()
	}
	p.resetAll()
	p.mu.Unlock()
	p.wg.Wait()
}
