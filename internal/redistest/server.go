package redistest

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// The kinds of backend, as [Server.Kind] tells them.
const (
	KindServer = "server" // a redis-server of this test's own
	KindURL    = "url"    // the shared server at REDIS_URL
	KindMini   = "mini"   // miniredis, inside this process
)

// Server is one Redis backend, ready for use. Its methods may be called at the same time, Pause,
// Resume, Kill and Restart excepted: those are for the goroutine that runs the test.
type Server struct {
	tb     testing.TB
	kind   string
	prefix string
	opts   redis.Options // Addr, credentials, TLS, DB

	mu    sync.Mutex
	proc  *process // nil unless a redis-server of our own
	dir   string   // of proc
	infos int64    // INFO commands sent by Commands to proc
}

// Start returns a fresh backend for this test, stopped at its cleanup: the server at REDIS_URL
// when that is set (under a prefix of this test's own), else a redis-server of its own when one is
// on the PATH, else miniredis.
func Start(tb testing.TB) *Server {
	tb.Helper()
	if url := sharedURL(); url != "" {
		return startURL(tb, url)
	}
	err := missing()
	switch {
	case err == nil:
		return startServer(tb)
	case required():
		tb.Fatal(err)
	}
	return StartMini(tb)
}

// StartServer returns a redis-server process of this test's own, for tests that stop it, kill it,
// count its commands or change its users. It skips the test where there is none.
func StartServer(tb testing.TB) *Server {
	tb.Helper()
	requireServer(tb)
	return startServer(tb)
}

// StartMini returns a miniredis of this test's own. Its keys expire by the clock.
func StartMini(tb testing.TB) *Server {
	tb.Helper()
	Silence()
	m, err := startMini()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(m.Close)
	tb.Log("redistest: miniredis (embedded)")
	return &Server{tb: tb, kind: KindMini, prefix: newPrefix(), opts: redis.Options{Addr: m.Addr()}}
}

func startMini() (*miniredis.Miniredis, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, err
	}
	return m, nil
}

func startServer(tb testing.TB) *Server {
	tb.Helper()
	Silence()
	s := &Server{tb: tb, kind: KindServer, prefix: newPrefix(), dir: tb.TempDir()}
	proc, err := startProcess(s.dir)
	if err != nil {
		tb.Fatal(err)
	}
	s.proc = proc
	s.opts.Addr = proc.addr()
	tb.Cleanup(func() { s.process().kill() })
	tb.Logf("redistest: %v", proc)
	return s
}

// Kind reports what the backend is: [KindServer], [KindURL] or [KindMini].
func (s *Server) Kind() string { return s.kind }

// Addr returns the backend's host:port.
func (s *Server) Addr() string { return s.opts.Addr }

// Prefix returns what this test puts before its keys, like "t1a2b3c4d:". It is unique and has no
// braces and no glob characters. Where the backend is shared, the keys under it are removed at cleanup.
func (s *Server) Prefix() string { return s.prefix }

// Options returns fresh client options for the backend, as the packages of this module want them:
// contexts are obeyed, and neither commands nor dials are tried twice.
func (s *Server) Options() *redis.Options {
	opts := s.opts
	return tune(&opts)
}

// Client returns a new client of the backend, closed at tb's cleanup.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	return newClient(tb, s.Options())
}

// Pause stops the redis-server in its tracks (SIGSTOP): its connections stay open, new ones are
// still accepted by the kernel, and nothing answers. It is resumed at cleanup, before all that was
// registered earlier.
func (s *Server) Pause() {
	s.tb.Helper()
	if err := s.own("Pause").pause(); err != nil {
		s.tb.Fatalf("redistest: Pause: %v", err)
	}
	s.tb.Cleanup(s.Resume)
}

// Resume lets a paused redis-server go on with what was sent to it meanwhile. It does nothing to
// one that runs, or is dead.
func (s *Server) Resume() {
	s.tb.Helper()
	p := s.own("Resume")
	select {
	case <-p.exited:
		return
	default:
	}
	if err := p.resume(); err != nil {
		s.tb.Errorf("redistest: Resume: %v", err)
	}
}

// Kill ends the redis-server at once (SIGKILL), and with it all its data. It returns when the
// process is gone.
func (s *Server) Kill() {
	s.tb.Helper()
	s.own("Kill").kill()
}

// Restart starts a redis-server on the same port, empty, its counts at zero; one that still runs
// is killed first.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	old := s.own("Restart")
	old.kill()
	proc, err := startProcessAgain(old.port, s.dir)
	if err != nil {
		tb.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc, s.infos = proc, 0
}

// own returns the running process, and fails the test for a backend that has none.
func (s *Server) own(method string) *process {
	s.tb.Helper()
	p := s.process()
	if p == nil {
		s.tb.Fatalf("redistest: %s needs a redis-server of the test's own (StartServer), not %q", method, s.kind)
	}
	return p
}

func (s *Server) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

func newPrefix() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return "t" + hex.EncodeToString(b[:]) + ":"
}
