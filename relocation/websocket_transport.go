package relocation

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/go-transparency/transparency"
)

const (
	// readSlack is what a transport message may have beyond one message: the
	// frames that were put before it, and its own header.
	readSlack = 2*batchSize + maxCredentials + dataOverhead

	// writeGrace is how long Close lets a Write go on, so as not to end in
	// the middle of a message.
	writeGrace = 100 * time.Millisecond

	// lingering is how long the peer may take to read what was written before
	// the connection is gone. Closed with something unread it would be reset,
	// and what is under way to the peer lost.
	lingering = time.Second
)

// limitReads tells a transport that has a limit for what it reads that messages
// have at most so many bytes.
func limitReads(t Transport, maxMessage int) {
	if l, ok := t.(interface{ SetReadLimit(n int64) }); ok {
		l.SetReadLimit(int64(maxMessage) + readSlack)
	}
}

// webSocket is a Transport over a WebSocket: one transport message is one
// binary message.
//
// Two habits of the library are kept from it. It ends a connection when the
// context of a read has ended, even after that read; so it gets none that
// ends, and a deadline on the connection does its work. And its Close waits
// for the peer for up to ten seconds; so the close frame is written here,
// between two messages, by a goroutine that lives little more than a second.
type webSocket struct {
	conn   *websocket.Conn
	raw    net.Conn // under conn; nil where the HTTP client does not show its own
	client bool     // which masks what it writes

	reading, writing sync.Mutex // held by a Read, by a Write, and by the end
	in, out          watch
	buf              *[]byte // of the last message read; from batches

	closing sync.Once
	closed  chan struct{}
}

func newWebSocket(conn *websocket.Conn, raw net.Conn, client bool) *webSocket {
	t := &webSocket{conn: conn, raw: raw, client: client, closed: make(chan struct{})}
	if raw != nil {
		t.in.expire, t.out.expire = raw.SetReadDeadline, raw.SetWriteDeadline
	}
	limitReads(t, DefaultMaxMessage)
	return t
}

// SetReadLimit bounds a transport message that is read, in bytes.
func (t *webSocket) SetReadLimit(n int64) { t.conn.SetReadLimit(n) }

// Read implements [Transport].
func (t *webSocket) Read(ctx context.Context) ([]byte, error) {
	t.reading.Lock()
	defer t.reading.Unlock()
	inner, err := t.in.begin(ctx)
	if err != nil {
		return nil, err
	}
	if t.buf != nil && cap(*t.buf) <= 2*batchSize {
		batches.Put(t.buf) // who waits holds none
	}
	t.buf = nil
	kind, r, err := t.conn.Reader(inner)
	switch {
	case err != nil:
	case kind != websocket.MessageBinary:
		err = errTextMessage
		_ = t.Close(CloseProtocol, "a text message")
	default:
		t.buf = batches.Get().(*[]byte)
		*t.buf, err = readAll((*t.buf)[:0], r)
	}
	if err := t.in.end(t.failure(ctx, err)); err != nil {
		return nil, err
	}
	return *t.buf, nil
}

var errTextMessage = fmt.Errorf("%w: a text message", ErrProtocol)

// readAll is io.ReadAll into a slice that may be there already.
func readAll(b []byte, r io.Reader) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// Write implements [Transport].
func (t *webSocket) Write(ctx context.Context, p []byte) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	inner, err := t.out.begin(ctx)
	if err != nil {
		return err
	}
	return t.out.end(t.failure(ctx, t.conn.Write(inner, websocket.MessageBinary, p)))
}

// Close implements [Transport].
func (t *webSocket) Close(code CloseCode, reason string) error {
	t.closing.Do(func() {
		close(t.closed)
		t.in.close(past)
		t.out.close(time.Now().Add(writeGrace))
		reason = strings.ToValidUTF8(reason[:min(len(reason), 123)], "") // as much as a frame holds
		if t.raw == nil {
			_ = t.conn.CloseNow() // without a word, for that could take long
			return
		}
		go t.finish(code, reason)
	})
	return nil
}

// finish says goodbye and ends the connection. What the library still had to
// write or read is no more.
func (t *webSocket) finish(code CloseCode, reason string) {
	t.reading.Lock()
	defer t.reading.Unlock()
	t.writing.Lock()
	defer t.writing.Unlock()
	defer t.conn.CloseNow() //nolint:errcheck // it ends whatever it says
	_ = t.raw.SetDeadline(time.Now().Add(lingering))
	if t.out.err != nil {
		return // in the middle of a message
	}
	if _, err := t.raw.Write(closeFrame(code, reason, t.client)); err != nil {
		return
	}
	if c, ok := t.raw.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, t.raw)
}

// closeFrame returns a close frame (RFC 6455, section 5.5.1).
func closeFrame(code CloseCode, reason string, masked bool) []byte {
	body := append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
	frame := []byte{0x88, byte(len(body))} //nolint:gosec // at most 125
	if masked {
		var key [4]byte
		_, _ = rand.Read(key[:]) // never fails
		frame[1] |= 0x80
		frame = append(frame, key[:]...)
		for i := range body {
			body[i] ^= key[i%4]
		}
	}
	return append(frame, body...)
}

// failure says why a Read or Write ended.
func (t *webSocket) failure(ctx context.Context, err error) error {
	var peer websocket.CloseError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTextMessage):
		return err
	case errors.As(err, &peer):
		return &CloseError{Code: CloseCode(peer.Code), Reason: peer.Reason} //nolint:gosec // two bytes
	case errors.Is(err, websocket.ErrMessageTooBig):
		return fmt.Errorf("%w: %w", ErrProtocol, ErrTooLarge)
	}
	select {
	case <-t.closed:
		return errTransportClosed
	default:
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return fmt.Errorf("%w: %w", transparency.ErrUnavailable, err)
}
