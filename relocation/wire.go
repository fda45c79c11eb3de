package relocation

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// The frames of docs/relocation-protocol.md. A transport message is a row of
// frames; a frame is a kind, the length of its body, and its body.
type kind byte

const (
	kindHello   kind = 0x01
	kindWelcome kind = 0x02
	kindResume  kind = 0x03
	kindResumed kind = 0x04
	kindReject  kind = 0x05
	kindData    kind = 0x06
	kindAck     kind = 0x07
	kindPing    kind = 0x08
	kindPong    kind = 0x09
	kindGoAway  kind = 0x0a
	kindBye     kind = 0x0b
	kindFin     kind = 0x0c
	kindClose   kind = 0x0d

	// optional is set in kinds that a receiver may skip when it does not know
	// them.
	optional kind = 0x80
)

const (
	version = 1 // the only one so far

	maxSeq         = math.MaxInt64 // the last sequence number
	maxToken       = 512
	maxCredentials = 8 << 10
	maxText        = 256
	maxLocations   = 16
)

// An opening is the first frame of a client: HELLO for a new session, RESUME
// for one that has a token.
type opening struct {
	MinVersion, MaxVersion uint64
	Features               uint64 // bits, none so far
	MaxMessage             uint64 // bytes of payload that the client takes
	Window                 uint64 // bytes unacknowledged that it takes
	Credentials            []byte

	Token    []byte // empty in HELLO; the rest too
	Attempt  uint64
	Received uint64 // the last message that the client has
	Acked    uint64 // the last of its own that it saw acknowledged
}

// An opened is the answer: WELCOME or RESUMED.
type opened struct {
	Version    uint64
	Features   uint64
	Token      []byte // for the next RESUME
	Generation uint64
	In         uint64 // the client's messages handled and committed
	Out        uint64 // the last message for the client
	Resume     time.Duration
	Ping       time.Duration // send something that often
	Silence    time.Duration // and give up when a ping is unanswered for that long
	MaxMessage uint64
	Window     uint64
	Server     []byte // a name for logs
}

// A rejectCode says why an opening was refused, or a transport was ended.
type rejectCode uint64

const (
	rejectUnknown    rejectCode = 1 + iota // no such session, or not this client's
	rejectExpired                          // it ended; Handled says how far it came
	rejectSuperseded                       // a later attempt was here first
	rejectTaken                            // another client has the session
	rejectRegressed                        // the store went back
	rejectDenied                           // the credentials
	rejectBusy                             // later, after Retry
	rejectMoved                            // elsewhere: Locations
	rejectVersion                          // no common version
	rejectProtocol                         // the frame made no sense
)

type reject struct {
	Code         rejectCode
	Handled      uint64
	HandledKnown bool
	Retry        time.Duration
	Locations    []string
	Text         string
}

// Flags of a DATA frame.
const (
	dataAckNow = 1 << iota // acknowledge without delay
	dataAgain              // was written to an earlier transport too
)

// A goAway asks the client to move, or when Final tells it that it must.
type goAway struct {
	Final     bool
	Deadline  time.Duration
	Spread    time.Duration
	Locations []string
	In        uint64 // committed, when Final
}

// A closing ends the session.
type closing struct {
	Code closeReason
	Text string
}

type closeReason uint64

const (
	closeDone      closeReason = 1 + iota // by the user's wish
	closeRegressed                        // the store went back
	closeExhausted                        // sequence numbers
	closeTooLarge                         // a message that the other side can never take
	closeProtocol                         // the other side broke the protocol
)

// appendFrame appends a frame whose body is in one piece.
func appendFrame(b []byte, k kind, body []byte) []byte {
	b = append(b, byte(k))
	b = binary.AppendUvarint(b, uint64(len(body)))
	return append(b, body...)
}

// appendNumber appends a frame of one number: ACK, PING, PONG, BYE, FIN.
func appendNumber(b []byte, k kind, n uint64) []byte {
	b = append(b, byte(k))
	b = binary.AppendUvarint(b, uint64(uvarintLen(n))) //nolint:gosec // at most ten
	return binary.AppendUvarint(b, n)
}

// appendData appends a DATA frame.
func appendData(b []byte, seq, flags uint64, payload []byte) []byte {
	b = append(b, byte(kindData))
	b = binary.AppendUvarint(b, uint64(uvarintLen(seq)+uvarintLen(flags)+len(payload))) //nolint:gosec // lengths
	b = binary.AppendUvarint(b, seq)
	b = binary.AppendUvarint(b, flags)
	return append(b, payload...)
}

// dataOverhead is the most that a DATA frame adds to its payload.
const dataOverhead = 1 + 3*binary.MaxVarintLen64

func uvarintLen(n uint64) int {
	length := 1
	for ; n >= 0x80; n >>= 7 {
		length++
	}
	return length
}

func appendOpening(b []byte, o opening) []byte {
	k := kindHello
	body := appendNumbers(nil, o.MinVersion, o.MaxVersion, o.Features, o.MaxMessage, o.Window)
	body = appendBytes(body, o.Credentials)
	if len(o.Token) > 0 {
		k = kindResume
		body = appendBytes(body, o.Token)
		body = appendNumbers(body, o.Attempt, o.Received, o.Acked)
	}
	return appendFrame(b, k, body)
}

func appendOpened(b []byte, k kind, o opened) []byte {
	body := appendNumbers(nil, o.Version, o.Features)
	body = appendBytes(body, o.Token)
	body = appendNumbers(body, o.Generation, o.In, o.Out, millis(o.Resume), millis(o.Ping), millis(o.Silence), o.MaxMessage, o.Window)
	body = appendBytes(body, o.Server)
	return appendFrame(b, k, body)
}

func appendReject(b []byte, r reject) []byte {
	body := appendNumbers(nil, uint64(r.Code), number(r.HandledKnown), r.Handled, millis(r.Retry))
	body = appendLocations(body, r.Locations)
	body = appendBytes(body, []byte(r.Text))
	return appendFrame(b, kindReject, body)
}

func appendGoAway(b []byte, g goAway) []byte {
	body := appendNumbers(nil, number(g.Final), millis(g.Deadline), millis(g.Spread), g.In)
	body = appendLocations(body, g.Locations)
	return appendFrame(b, kindGoAway, body)
}

func appendClosing(b []byte, c closing) []byte {
	body := appendNumbers(nil, uint64(c.Code))
	return appendFrame(b, kindClose, appendBytes(body, []byte(c.Text)))
}

func appendNumbers(b []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func appendBytes(b, p []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p)))
	return append(b, p...)
}

func appendLocations(b []byte, locations []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(locations)))
	for _, l := range locations {
		b = appendBytes(b, []byte(l))
	}
	return b
}

func millis(d time.Duration) uint64 { return uint64(max(d, 0) / time.Millisecond) }

func number(yes bool) uint64 {
	if yes {
		return 1
	}
	return 0
}

// nextFrame returns the first frame of a transport message, and what follows.
// The body is part of b.
func nextFrame(b []byte) (k kind, body, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, nil, malformed("empty")
	}
	length, n := binary.Uvarint(b[1:])
	if n <= 0 || length > uint64(len(b)-1-n) { //nolint:gosec // no less than zero
		return 0, nil, nil, malformed("frame length")
	}
	body, rest = b[1+n:][:length:length], b[1+n:][length:]
	return kind(b[0]), body, rest, nil
}

// A fields reads the fields of a body. Fields that follow those known are
// ignored, so that a later version can add some.
type fields struct {
	b   []byte
	err error
}

func (f *fields) number() uint64 {
	n, length := binary.Uvarint(f.b)
	if length <= 0 {
		f.fail("number")
		return 0
	}
	f.b = f.b[length:]
	return n
}

// seq reads a sequence number, of which zero says none.
func (f *fields) seq() uint64 {
	n := f.number()
	if n > maxSeq {
		f.fail("sequence number")
	}
	return n
}

func (f *fields) duration() time.Duration {
	n := f.number()
	if n > uint64(math.MaxInt64/time.Millisecond) {
		f.fail("duration")
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// bytes reads a byte string, which is part of the body.
func (f *fields) bytes(limit int) []byte {
	n := f.number()
	if n > uint64(len(f.b)) || n > uint64(limit) { //nolint:gosec // limits are constants
		f.fail("byte string")
		return nil
	}
	p := f.b[:n:n]
	f.b = f.b[n:]
	return p
}

func (f *fields) locations() []string {
	n := f.number()
	if n > maxLocations {
		f.fail("locations")
		return nil
	}
	var locations []string
	for range n {
		locations = append(locations, string(f.bytes(maxText)))
	}
	return locations
}

func (f *fields) fail(what string) {
	if f.err == nil {
		f.err = malformed(what)
	}
	f.b = nil
}

func malformed(what string) error { return fmt.Errorf("%w: malformed %s", ErrProtocol, what) }

func parseOpening(k kind, body []byte) (opening, error) {
	f := &fields{b: body}
	o := opening{
		MinVersion: f.number(), MaxVersion: f.number(), Features: f.number(),
		MaxMessage: f.number(), Window: f.number(),
		Credentials: f.bytes(maxCredentials),
	}
	if k == kindResume {
		o.Token = f.bytes(maxToken)
		o.Attempt, o.Received, o.Acked = f.number(), f.seq(), f.seq()
		if f.err == nil && len(o.Token) == 0 {
			f.fail("token")
		}
	}
	return o, f.err
}

func parseOpened(body []byte) (opened, error) {
	f := &fields{b: body}
	o := opened{
		Version: f.number(), Features: f.number(),
		Token:      f.bytes(maxToken),
		Generation: f.number(), In: f.seq(), Out: f.seq(),
		Resume: f.duration(), Ping: f.duration(), Silence: f.duration(),
		MaxMessage: f.number(), Window: f.number(),
		Server: f.bytes(maxText),
	}
	return o, f.err
}

func parseReject(body []byte) (reject, error) {
	f := &fields{b: body}
	r := reject{
		Code: rejectCode(f.number()), HandledKnown: f.number() == 1, Handled: f.seq(), Retry: f.duration(),
		Locations: f.locations(), Text: string(f.bytes(maxText)),
	}
	return r, f.err
}

// parseData returns the payload as part of body.
func parseData(body []byte) (seq, flags uint64, payload []byte, err error) {
	f := &fields{b: body}
	seq, flags = f.seq(), f.number()
	if f.err == nil && seq == 0 {
		f.fail("sequence number")
	}
	return seq, flags, f.b, f.err
}

// parseNumber reads the body of an ACK, PING, PONG, BYE or FIN.
func parseNumber(body []byte) (uint64, error) {
	f := &fields{b: body}
	return f.number(), f.err
}

func parseGoAway(body []byte) (goAway, error) {
	f := &fields{b: body}
	g := goAway{
		Final: f.number() == 1, Deadline: f.duration(), Spread: f.duration(), In: f.seq(),
		Locations: f.locations(),
	}
	return g, f.err
}

func parseClosing(body []byte) (closing, error) {
	f := &fields{b: body}
	c := closing{Code: closeReason(f.number()), Text: string(f.bytes(maxText))}
	return c, f.err
}
