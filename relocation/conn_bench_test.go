package relocation

import (
	"context"
	"runtime"
	"testing"
)

// benchPeer answers an opening, acknowledges everything at once, and keeps
// nothing.
func benchPeer(ctx context.Context, tr Transport) {
	if _, err := tr.Read(ctx); err != nil {
		return
	}
	terms := opened{Version: 1, Token: []byte("t"), Generation: 1, MaxMessage: 1 << 20, Window: 1 << 20}
	b := appendOpened(nil, kindWelcome, terms)
	for tr.Write(ctx, b) == nil {
		p, err := tr.Read(ctx)
		if err != nil {
			return
		}
		b = b[:0]
		for len(p) > 0 {
			k, body, rest, _ := nextFrame(p)
			switch k {
			case kindData:
				seq, _, _, _ := parseData(body)
				b = appendNumber(b[:0], kindAck, seq)
			case kindClose:
				return
			}
			p = rest
		}
	}
}

func benchConn(b *testing.B) *Conn {
	n := NewNetwork()
	b.Cleanup(n.Listen("a", benchPeer))
	c, err := Dial(b.Context(), Addresses([]string{"a"}), n, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// BenchmarkConnSend is one message of 128 bytes to a server that acknowledges
// at once.
func BenchmarkConnSend(b *testing.B) {
	c := benchConn(b)
	p := make([]byte, 128)
	b.ReportAllocs()
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		if err := c.Send(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkConnIdle reports the bytes that an idle Conn holds, with the
// transport's two ends and the server's goroutine.
func BenchmarkConnIdle(b *testing.B) {
	n := NewNetwork()
	b.Cleanup(n.Listen("a", benchPeer))
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	const count = 2000
	for b.Loop() {
		before := used()
		conns := make([]*Conn, count)
		for i := range conns {
			c, err := Dial(b.Context(), Addresses([]string{"a"}), n, nil)
			if err != nil {
				b.Fatal(err)
			}
			conns[i] = c
		}
		b.ReportMetric(float64(used()-before)/count, "bytes/conn")
		for _, c := range conns {
			c.Close(b.Context())
		}
	}
}
