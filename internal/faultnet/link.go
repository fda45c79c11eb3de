package faultnet

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// A link is one client's connection and its counterpart to the target.
type link struct {
	proxy *Proxy
	ends  [2]*net.TCPConn // by the way that leads there: the server's, the client's
	done  chan struct{}   // closed by the first reset
	once  sync.Once

	passed [2]int64 // bytes passed on since a cut was armed; guarded by proxy.mu
}

func (p *Proxy) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				p.tb.Errorf("faultnet: accept: %v", err)
			}
			return
		}
		p.wg.Go(func() { p.serve(conn.(*net.TCPConn)) })
	}
}

// serve connects conn to the target and forwards both ways until both have ended. A target that
// cannot be reached shows to the client as a reset.
func (p *Proxy) serve(client *net.TCPConn) {
	conn, err := new(net.Dialer).DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		abort(client)
		return
	}
	l := &link{proxy: p, ends: [2]*net.TCPConn{conn.(*net.TCPConn), client}, done: make(chan struct{})}
	if !p.add(l) {
		l.reset()
		return
	}
	defer p.remove(l)
	var both sync.WaitGroup
	both.Go(func() { l.pump(0) })
	both.Go(func() { l.pump(1) })
	both.Wait()
}

// add reports false when the proxy is closed: nobody would reset l then.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
	for _, conn := range l.ends {
		_ = conn.Close()
	}
}

// pump forwards one way until its source ends, and then ends its destination in the same manner.
func (l *link) pump(i int) {
	src, dst := l.ends[1-i], l.ends[i]
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if !l.wait(i, n > 0) {
			return
		}
		if n > 0 && !l.forward(i, buf[:n]) {
			return
		}
		switch {
		case err == nil:
		case err != io.EOF:
			l.reset()
			return
		case l.proxy.dropping(i):
			return
		default:
			_ = dst.CloseWrite()
			return
		}
	}
}

// wait holds up way i while it is frozen and for its delay, and reports false when the link was
// reset meanwhile. The end of a stream is not delayed: it brings no chunk.
func (l *link) wait(i int, chunk bool) bool {
	arrived := time.Now()
	for {
		frozen, delay, changed := l.proxy.hold(i)
		var ready <-chan time.Time
		if !frozen {
			left := delay - time.Since(arrived)
			if !chunk || left <= 0 {
				return true
			}
			ready = time.After(left)
		}
		select {
		case <-ready:
			return true
		case <-changed:
		case <-l.done:
			return false
		}
	}
}

// hold returns what holds up way i, and a channel that is closed when that changes.
func (p *Proxy) hold(i int) (frozen bool, delay time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &p.ways[i]
	return w.frozen, w.delay, w.changed
}

func (p *Proxy) dropping(i int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ways[i].drop
}

// forward drops, cuts or passes on one chunk, and reports whether the link goes on.
func (l *link) forward(i int, chunk []byte) bool {
	chunk, cut := l.account(i, chunk)
	if len(chunk) > 0 {
		if _, err := l.ends[i].Write(chunk); err != nil {
			l.reset()
			return false
		}
	}
	if cut {
		l.reset()
	}
	return !cut
}

// account decides what of chunk may pass, and books it before it is written: a test that has seen
// a byte arrive must find it counted.
func (l *link) account(i int, chunk []byte) (pass []byte, cut bool) {
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &p.ways[i]
	if w.drop {
		return nil, false
	}
	if left := w.cut - l.passed[i]; w.cut >= 0 && int64(len(chunk)) >= left {
		chunk, cut = chunk[:left], true
		w.cut = -1
	}
	l.passed[i] += int64(len(chunk))
	w.bytes += int64(len(chunk))
	return chunk, cut
}

// reset breaks both connections with a TCP reset. It may be called again.
func (l *link) reset() {
	l.once.Do(func() {
		close(l.done)
		for _, conn := range l.ends {
			abort(conn)
		}
	})
}

// abort closes conn with a reset in place of the orderly end.
func abort(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// listen takes a port below the ranges from which systems give ports to outgoing connections: none
// of those gets it while it is refused.
func listen() (net.Listener, error) {
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", 22000+rand.IntN(8000))); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// relisten opens the proxy's port again. Somebody may be trying it, so it tries for a while.
// Requires p.mu.
func (p *Proxy) relisten() (net.Listener, error) {
	deadline := time.Now().Add(5 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		l, err := net.Listen("tcp", p.addr)
		if err == nil || time.Now().After(deadline) {
			return l, err
		}
		<-tick.C
	}
}
