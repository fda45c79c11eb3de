package faultnet_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-transparency/transparency/internal/faultnet"
	"github.com/go-transparency/transparency/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An echo is a server that sends back what it gets, and remembers it.
type echo struct {
	net.Listener
	wg sync.WaitGroup

	mu  sync.Mutex // guards what follows
	got bytes.Buffer
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{Listener: l}
	e.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			e.wg.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, io.TeeReader(conn, e))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		e.wg.Wait()
	})
	return e
}

func (e *echo) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got.Write(b)
}

func (e *echo) received() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got.String()
}

func newProxy(t *testing.T) (*faultnet.Proxy, *echo) {
	t.Helper()
	e := newEcho(t)
	return faultnet.New(t, e.Addr().String()), e
}

func dial(t *testing.T, p *faultnet.Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

func send(t *testing.T, conn net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(conn, s); err != nil {
		t.Fatalf("write %q: %v", s, err)
	}
}

func expect(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_ = conn.SetReadDeadline(time.Now().Add(testkit.Limit))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v, want %q", got, err, want)
	}
}

// expectNothing gives bytes that must not come a while to show up.
func expectNothing(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	n, err := conn.Read(make([]byte, 1))
	if netErr := net.Error(nil); n != 0 || !errors.As(err, &netErr) || !netErr.Timeout() {
		t.Fatalf("read %d bytes, %v, want none and a timeout", n, err)
	}
}

func expectReset(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(testkit.Limit))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("read %d bytes, %v, want none and a reset", n, err)
	}
}

func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, what, testkit.Limit, cond)
}

// expectRest reads to the end.
func expectRest(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(testkit.Limit))
	if got, err := io.ReadAll(conn); err != nil || string(got) != want {
		t.Fatalf("read %d bytes, %v, want %.40q and the end", len(got), err, want)
	}
}

func TestForwardsAndCounts(t *testing.T) {
	p, _ := newProxy(t)
	a, b := dial(t, p), dial(t, p)
	send(t, a, "hello")
	expect(t, a, "hello")
	send(t, b, "you")
	expect(t, b, "you")
	if got := p.Conns(); got != 2 {
		t.Errorf("Conns() = %d, want 2", got)
	}
	for dir, want := range map[faultnet.Dir]int64{faultnet.ToServer: 8, faultnet.ToClient: 8, faultnet.Both: 16} {
		if got := p.Bytes(dir); got != want {
			t.Errorf("Bytes(%d) = %d, want %d", dir, got, want)
		}
	}
	// The end of one direction leaves the other open.
	send(t, a, "last")
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	expectRest(t, a, "last")
	_ = b.Close()
	waitFor(t, "both connections have ended", func() bool { return p.Conns() == 0 })
}

func TestLargeTransferIsUnchanged(t *testing.T) {
	p, _ := newProxy(t)
	conn := dial(t, p)
	want := make([]byte, 4<<20)
	for i := range want {
		want[i] = byte(i * 7 >> 3)
	}
	go func() {
		_, _ = conn.Write(want)
		_ = conn.CloseWrite()
	}()
	expectRest(t, conn, string(want))
}

func TestDelay(t *testing.T) {
	for _, dir := range []faultnet.Dir{faultnet.ToServer, faultnet.ToClient} {
		p, _ := newProxy(t)
		conn := dial(t, p)
		p.Delay(dir, 40*time.Millisecond)
		start := time.Now()
		send(t, conn, "x")
		expect(t, conn, "x")
		if d := time.Since(start); d < 40*time.Millisecond {
			t.Errorf("Delay(%d, 40ms): round trip took %v", dir, d)
		}
		p.Delay(dir, time.Hour)
		send(t, conn, "y")
		expectNothing(t, conn)
		p.Delay(dir, 0) // for the chunk under way too
		expect(t, conn, "y")
	}
}

func TestFreezeToServer(t *testing.T) {
	p, e := newProxy(t)
	conn := dial(t, p)
	send(t, conn, "a")
	expect(t, conn, "a")
	p.Freeze(faultnet.ToServer)
	send(t, conn, "bc")
	expectNothing(t, conn)
	if got := e.received(); got != "a" {
		t.Errorf("the server got %q, want %q", got, "a")
	}
	send(t, conn, "d")
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	expectNothing(t, conn)
	p.Thaw(faultnet.ToServer)
	expectRest(t, conn, "bcd")
}

func TestFreezeToClient(t *testing.T) {
	p, e := newProxy(t)
	conn := dial(t, p)
	p.Freeze(faultnet.ToClient)
	send(t, conn, "abc")
	waitFor(t, "the server gets it", func() bool { return e.received() == "abc" })
	expectNothing(t, conn)
	p.Thaw(faultnet.Both)
	expect(t, conn, "abc")
}

func TestFreezeHoldsLaterConnections(t *testing.T) {
	p, _ := newProxy(t)
	p.Freeze(faultnet.Both)
	conn := dial(t, p)
	send(t, conn, "abc")
	expectNothing(t, conn)
	p.Thaw(faultnet.ToServer)
	expectNothing(t, conn)
	p.Thaw(faultnet.ToClient)
	expect(t, conn, "abc")
}

func TestDrop(t *testing.T) {
	p, e := newProxy(t)
	conn := dial(t, p)
	send(t, conn, "a")
	expect(t, conn, "a")
	p.Drop(faultnet.ToServer, true)
	send(t, conn, "lost")
	expectNothing(t, conn)
	p.Drop(faultnet.ToServer, false)
	send(t, conn, "b")
	expect(t, conn, "b")
	if got := e.received(); got != "ab" {
		t.Errorf("the server got %q, want %q", got, "ab")
	}
	if got := p.Bytes(faultnet.ToServer); got != 2 {
		t.Errorf("Bytes(ToServer) = %d, want 2", got)
	}
	p.Drop(faultnet.ToServer, true)
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	expectNothing(t, conn) // the server was not told of the end
}

func TestDropToClient(t *testing.T) {
	p, e := newProxy(t)
	conn := dial(t, p)
	p.Drop(faultnet.ToClient, true)
	send(t, conn, "abc")
	waitFor(t, "the server gets it", func() bool { return e.received() == "abc" })
	expectNothing(t, conn)
}

func TestReset(t *testing.T) {
	p, _ := newProxy(t)
	a, b := dial(t, p), dial(t, p)
	for _, conn := range []net.Conn{a, b} {
		send(t, conn, "x")
		expect(t, conn, "x")
	}
	p.Freeze(faultnet.Both) // breaks those too that are held up
	send(t, a, "y")
	p.Reset()
	if got := p.Conns(); got != 0 {
		t.Errorf("Conns() after Reset = %d, want 0", got)
	}
	expectReset(t, a)
	expectReset(t, b)
	p.Thaw(faultnet.Both)
	c := dial(t, p)
	send(t, c, "z")
	expect(t, c, "z")
}

func TestRefuse(t *testing.T) {
	p, _ := newProxy(t)
	old := dial(t, p)
	send(t, old, "x")
	expect(t, old, "x")
	for range 3 {
		p.Refuse(true)
		p.Refuse(true)
		if conn, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("Dial = %v, %v, want refused", conn, err)
		}
		send(t, old, "y")
		expect(t, old, "y")
		p.Refuse(false)
		p.Refuse(false)
		conn := dial(t, p)
		send(t, conn, "z")
		expect(t, conn, "z")
	}
}

func TestUnreachableTargetIsAReset(t *testing.T) {
	p := faultnet.New(t, "127.0.0.1:1") // nothing listens there, and no outgoing connection gets it
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil { // the reset may come as early as that
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Dial error = %v, want a reset", err)
		}
		return
	}
	defer conn.Close()
	expectReset(t, conn)
}

func TestCutAfter(t *testing.T) {
	const payload = "0123456789"
	for n := range int64(len(payload) + 1) {
		p, e := newProxy(t)
		conn := dial(t, p)
		send(t, conn, "before")
		expect(t, conn, "before")
		p.CutAfter(faultnet.ToServer, n)
		send(t, conn, payload)
		waitFor(t, "the cut", func() bool { return p.Conns() == 0 })
		want := "before" + payload[:n]
		waitFor(t, "the server gets "+want, func() bool { return e.received() == want })

		next := dial(t, p) // one cut, one connection
		send(t, next, payload)
		expect(t, next, payload)
	}
	for n := range int64(len(payload) + 1) {
		p, _ := newProxy(t)
		p.CutAfter(faultnet.ToClient, n)
		conn := dial(t, p)
		send(t, conn, payload)
		expect(t, conn, payload[:n])
		expectReset(t, conn)
	}
}

func TestCutAfterCountsEachConnectionFromTheArming(t *testing.T) {
	p, _ := newProxy(t)
	a, b := dial(t, p), dial(t, p)
	send(t, a, "aaaaaaaa")
	expect(t, a, "aaaaaaaa")
	p.CutAfter(faultnet.ToClient, 4)
	for _, conn := range []net.Conn{a, b} {
		send(t, conn, "123")
		expect(t, conn, "123")
	}
	send(t, b, "456")
	expect(t, b, "4")
	expectReset(t, b)
	send(t, a, "456789")
	expect(t, a, "456789")

	p.CutAfter(faultnet.Both, 2)
	p.CutAfter(faultnet.Both, -1) // thought better of it
	send(t, a, "456789")
	expect(t, a, "456789")
}

func TestCleanupEndsWhatHangs(t *testing.T) {
	e := newEcho(t)
	var conns []net.Conn
	t.Run("inner", func(t *testing.T) {
		p := faultnet.New(t, e.Addr().String())
		p.Freeze(faultnet.ToServer)
		p.Delay(faultnet.ToClient, time.Hour)
		for range 10 {
			conn, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			send(t, conn, "x")
			conns = append(conns, conn)
		}
		waitFor(t, "all are connected", func() bool { return p.Conns() == len(conns) })
	})
	for _, conn := range conns {
		expectReset(t, conn)
		_ = conn.Close()
	}
}

func TestConcurrentUse(t *testing.T) {
	p, _ := newProxy(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				conn, err := net.Dial("tcp", p.Addr())
				if err != nil {
					continue // refused just now
				}
				_ = conn.SetDeadline(time.Now().Add(5 * time.Millisecond))
				_, _ = io.WriteString(conn, "hello")
				_, _ = io.ReadFull(conn, make([]byte, 5))
				_ = conn.Close()
			}
		})
	}
	for range 4 {
		wg.Go(func() {
			for range 20 {
				p.Delay(faultnet.Both, time.Millisecond)
				p.Freeze(faultnet.ToServer)
				p.Drop(faultnet.ToClient, true)
				p.CutAfter(faultnet.Both, 3)
				p.Refuse(true)
				p.Reset()
				_, _ = p.Conns(), p.Bytes(faultnet.Both)
				p.Refuse(false)
				p.Drop(faultnet.ToClient, false)
				p.Thaw(faultnet.ToServer)
				p.Delay(faultnet.Both, 0)
			}
		})
	}
	wg.Wait()
}
