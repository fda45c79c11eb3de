package relocation

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeFleet is a service of any number of servers that speak the protocol by
// the book, and have all their sessions in this struct: what is not as it
// should be is said per test by the hooks. Every message that was read is
// handled and committed at once.
type fakeFleet struct {
	t   *testing.T
	net *Network

	// terms are what a WELCOME and a RESUMED say, the generation only if it is
	// not zero.
	terms opened
	// blind servers do not notice when they know less than the client.
	blind bool
	// mute ones write no message by themselves.
	mute bool
	// opening decides on an opening: a REJECT, or nothing. It is called under
	// mu.
	opening func(s *fakePeer, o opening) *reject
	// attached is called when a session was opened or resumed, before
	// anything is read.
	attached func(s *fakePeer)
	// frame sees each frame before it is handled, and may keep it. It is
	// called under mu.
	frame func(s *fakePeer, k kind, body []byte) (keep bool)

	mu       sync.Mutex // guards what follows
	sessions map[string]*fakeSession
	peers    map[string]*fakePeer // by address: the one that attached last
	openings []fakeOpening
	stops    map[string]func()
}

type fakeOpening struct {
	addr string
	at   time.Time
	opening
}

type fakeSession struct {
	id         string
	generation uint64
	confirmed  uint64 // the generation whose token the client has shown to have
	attempt    uint64
	in         uint64
	out        [][]byte
	acked      uint64
	got        []Message
	ended      bool
}

func newFleet(t *testing.T, addrs ...string) *fakeFleet {
	f := &fakeFleet{
		t: t, net: NewNetwork(),
		terms: opened{
			Version: version, Resume: 2 * time.Minute, Ping: 15 * time.Second, Silence: 10 * time.Second,
			MaxMessage: 1 << 20, Window: 1 << 20, Server: []byte("fake"),
		},
		sessions: make(map[string]*fakeSession), peers: make(map[string]*fakePeer), stops: make(map[string]func()),
	}
	for _, addr := range addrs {
		f.start(addr)
	}
	t.Cleanup(func() {
		for addr := range f.stops {
			f.stop(addr)
		}
	})
	return f
}

func (f *fakeFleet) start(addr string) {
	stop := f.net.Listen(addr, func(ctx context.Context, tr Transport) {
		f.serve(&fakePeer{fleet: f, ctx: ctx, tr: tr, addr: addr})
	})
	f.stops[addr] = stop
}

func (f *fakeFleet) stop(addr string) { f.stops[addr]() }

// dial opens a session and closes it at the end of the test.
func (f *fakeFleet) dial(opts *DialOptions, addrs ...string) *Conn {
	f.t.Helper()
	c, err := Dial(f.t.Context(), Addresses(addrs), f.net, opts)
	if err != nil {
		f.t.Fatalf("Dial error = %v, want nil", err)
	}
	f.t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// with calls do under mu.
func (f *fakeFleet) with(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// session returns the only session.
func (f *fakeFleet) session() *fakeSession {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sessions["1"]
}

// got returns what was handled in the only session.
func (f *fakeFleet) got() []string {
	s := f.session()
	f.mu.Lock()
	defer f.mu.Unlock()
	var got []string
	for _, m := range s.got {
		text := string(m.Data)
		if m.Redelivered {
			text += " again"
		}
		got = append(got, text)
	}
	return got
}

func (f *fakeFleet) peer(addr string) *fakePeer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.peers[addr]
}

func (f *fakeFleet) openingsAt(addr string) []fakeOpening {
	f.mu.Lock()
	defer f.mu.Unlock()
	var at []fakeOpening
	for _, o := range f.openings {
		if addr == "" || o.addr == addr {
			at = append(at, o)
		}
	}
	return at
}

// fakePeer is the server's side of one transport.
type fakePeer struct {
	fleet   *fakeFleet
	ctx     context.Context
	tr      Transport
	addr    string
	session *fakeSession
	gen     uint64
	left    bool      // BYE came
	code    CloseCode // what the client closed with
}

func (s *fakePeer) fail(format string, args ...any) {
	s.fleet.t.Errorf(format, args...)
	runtime.Goexit()
}

// write writes frames as one message.
func (s *fakePeer) write(frames ...[]byte) {
	var b []byte
	for _, f := range frames {
		b = append(b, f...)
	}
	_ = s.tr.Write(s.ctx, b)
}

func fakeToken(id string, generation uint64) []byte { return fmt.Appendf(nil, "%s/%d", id, generation) }

func (f *fakeFleet) serve(s *fakePeer) {
	p, err := s.tr.Read(s.ctx)
	if err != nil {
		return
	}
	k, body, rest, err := nextFrame(p)
	if err != nil || k != kindHello && k != kindResume {
		s.fail("the first frame is %#x, %v", k, err)
	}
	o, err := parseOpening(k, body)
	if err != nil {
		s.fail("the opening: %v", err)
	}
	o.Token, o.Credentials = append([]byte(nil), o.Token...), append([]byte(nil), o.Credentials...)
	var refused *reject
	f.with(func() {
		f.openings = append(f.openings, fakeOpening{s.addr, time.Now(), o})
		if f.opening != nil {
			refused = f.opening(s, o)
		}
	})
	if refused != nil {
		s.write(appendReject(nil, *refused))
		s.tr.Close(CloseRefused, "")
		return
	}
	if r := s.attach(k, o); r != nil {
		s.write(appendReject(nil, *r))
		return
	}
	if f.attached != nil {
		f.attached(s)
	}
	s.pump()
	for p = rest; s.frames(p); {
		if p, err = s.tr.Read(s.ctx); err != nil {
			var closed *CloseError
			if errors.As(err, &closed) {
				f.mu.Lock()
				s.code = closed.Code
				f.mu.Unlock()
			}
			return
		}
	}
}

// attach opens or resumes a session.
func (s *fakePeer) attach(k kind, o opening) *reject {
	f := s.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := kindWelcome
	if k == kindHello {
		s.session = &fakeSession{id: strconv.Itoa(len(f.sessions) + 1), in: f.terms.In}
		f.sessions[s.session.id] = s.session
	} else {
		answer = kindResumed
		id, serial, _ := strings.Cut(string(o.Token), "/")
		shown, _ := strconv.ParseUint(serial, 10, 64)
		x := f.sessions[id]
		switch {
		case x == nil:
			return &reject{Code: rejectUnknown}
		case x.ended:
			return &reject{Code: rejectExpired, Handled: x.in, HandledKnown: true}
		case o.Attempt <= x.attempt:
			return &reject{Code: rejectSuperseded}
		case shown < x.confirmed:
			return &reject{Code: rejectTaken}
		case f.blind:
		case o.Received < x.acked:
			return &reject{Code: rejectTaken}
		case o.Acked > x.in || o.Received > f.terms.Out+uint64(len(x.out)):
			return &reject{Code: rejectRegressed}
		}
		x.attempt, x.acked = o.Attempt, o.Received
		s.session = x
	}
	x := s.session
	x.generation++
	s.gen = x.generation
	f.peers[s.addr] = s
	terms := f.terms
	terms.Token, terms.Generation = fakeToken(x.id, x.generation), x.generation
	if f.terms.Generation > 0 {
		terms.Generation = f.terms.Generation
	}
	terms.In, terms.Out = x.in, f.terms.Out+uint64(len(x.out))
	if k == kindHello {
		x.acked = f.terms.Out
	}
	s.write(appendOpened(nil, answer, terms))
	return nil
}

// send appends a message for the client and writes it, if the session is here.
func (s *fakePeer) send(text string) {
	f := s.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	x := s.session
	x.out = append(x.out, []byte(text))
	if s.gen == x.generation {
		s.write(appendData(nil, f.terms.Out+uint64(len(x.out)), 0, []byte(text)))
	}
}

// pump writes what the client has not received.
func (s *fakePeer) pump() {
	f := s.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, p := range s.session.out {
		if f.mute {
			break
		}
		if seq := f.terms.Out + uint64(i) + 1; seq > s.session.acked {
			s.write(appendData(nil, seq, 0, p))
		}
	}
}

// frames handles frames, and reports whether the transport goes on.
func (s *fakePeer) frames(p []byte) bool {
	var reply []byte
	for len(p) > 0 {
		k, body, rest, err := nextFrame(p)
		if err != nil {
			s.fail("a frame: %v", err)
		}
		p = rest
		if s.kept(k, body) {
			continue
		}
		answer, more := s.handle(k, body)
		reply = append(reply, answer...)
		if !more {
			s.write(reply)
			s.tr.Close(CloseNormal, "")
			return false
		}
	}
	if len(reply) > 0 {
		s.write(reply)
	}
	return true
}

func (s *fakePeer) kept(k kind, body []byte) bool {
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	return s.fleet.frame != nil && s.fleet.frame(s, k, body)
}

func (s *fakePeer) handle(k kind, body []byte) (reply []byte, more bool) {
	f := s.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	x := s.session
	if s.gen != x.generation {
		return appendReject(nil, reject{Code: rejectSuperseded}), false
	}
	x.confirmed = s.gen
	switch k {
	case kindData:
		seq, flags, payload, err := parseData(body)
		if err != nil || seq > x.in+1 || s.left {
			s.fleet.t.Errorf("DATA %d after %d, after BYE %v: %v", seq, x.in, s.left, err)
			return nil, false
		}
		if seq == x.in+1 {
			x.in = seq
			x.got = append(x.got, Message{seq, append([]byte(nil), payload...), flags&dataAgain != 0})
		}
		return appendNumber(nil, kindAck, x.in), true
	case kindPing:
		n, _ := parseNumber(body)
		return appendNumber(nil, kindPong, n), true
	case kindAck:
		n, _ := parseNumber(body)
		x.acked = max(x.acked, n)
	case kindBye:
		n, _ := parseNumber(body)
		if s.left = true; n != x.in {
			s.fleet.t.Errorf("BYE %d, and %d came", n, x.in)
		}
		return appendNumber(appendNumber(nil, kindAck, x.in), kindFin, x.in), true
	case kindClose:
		x.ended = true
		return nil, false
	case kindPong:
	default:
		s.fleet.t.Errorf("frame %#x from the client", k)
	}
	return nil, true
}
