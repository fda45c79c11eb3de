package main

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync"
)

// A wire counts what a client says on all its connections.
type wire struct {
	mu    sync.Mutex
	trips int64 // times that writing began after something was read, or at first
	sent  int64 // commands
}

func (w *wire) counts() (trips, sent int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trips, w.sent
}

// dial is a redis.Options.Dialer.
func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: conn, wire: w}, nil
}

type wireConn struct {
	net.Conn
	wire *wire

	// Guarded by wire.mu.
	asking   bool // written since the last read
	requests requestScanner
}

func (c *wireConn) Write(p []byte) (int, error) {
	c.wire.mu.Lock()
	if !c.asking {
		c.asking = true
		c.wire.trips++
	}
	c.wire.sent += int64(c.requests.scan(p))
	c.wire.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.wire.mu.Lock()
		c.asking = false
		c.wire.mu.Unlock()
	}
	return n, err
}

// A requestScanner finds the commands in what a client writes, which are RESP
// arrays of bulk strings: "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".
type requestScanner struct {
	line []byte // of a header that has not ended yet
	skip int    // bytes of a bulk string, its line end included, still to come
}

// scan returns how many commands begin in p, which may end anywhere.
func (s *requestScanner) scan(p []byte) (commands int) {
	for len(p) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(p))
			s.skip -= n
			p = p[n:]
			continue
		}
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		s.line = append(s.line, part...)
		if !ended {
			return commands
		}
		switch header := string(bytes.TrimSuffix(s.line, []byte("\r"))); {
		case len(header) > 1 && header[0] == '*':
			commands++
		case len(header) > 1 && header[0] == '$':
			if n, err := strconv.Atoi(header[1:]); err == nil && n >= 0 {
				s.skip = n + len("\r\n")
			}
		}
		s.line, p = s.line[:0], rest
	}
	return commands
}
