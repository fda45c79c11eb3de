package failuretest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/go-transparency/transparency"
)

// A Transport is an [http.RoundTripper] with faults. It stands where the network
// is: under what is tested.
type Transport struct {
	base   http.RoundTripper
	faults Faults
	sent   atomic.Int64
	begun  atomic.Int64
	open   atomic.Int64
}

// NewTransport returns a Transport over base; nil means
// [http.DefaultTransport]. It counts the requests, so that each meets its own
// Fault.
func NewTransport(base http.RoundTripper, faults Faults) *Transport {
	return &Transport{base: base, faults: faults}
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t == nil || req == nil {
		return nil, fmt.Errorf("failuretest: %w: there is no transport or request", transparency.ErrInvalid)
	}
	fault := t.faults.of(t.begun.Add(1) - 1)
	given := false
	defer func() {
		if !given && req.Body != nil {
			_ = req.Body.Close()
		}
	}()
	if err := fault.before(req.Context()); err != nil {
		return nil, err
	}
	var resp *http.Response
	if fault.Status != 0 {
		resp = fault.response(req)
	} else {
		t.sent.Add(1)
		given = true
		base := t.base
		if base == nil {
			base = http.DefaultTransport
		}
		var err error
		if resp, err = base.RoundTrip(req); err != nil {
			return nil, err
		}
	}
	if fault.Lost != nil {
		_ = resp.Body.Close()
		return nil, fault.Lost
	}
	if _, ok := resp.Body.(io.Writer); ok { // of 101 Switching Protocols
		return resp, nil
	}
	t.open.Add(1)
	b := &body{ReadCloser: resp.Body, t: t}
	if fault.Cut != 0 {
		b.cut = true
		b.left = max(fault.Cut, 0)
	}
	resp.Body = b
	return resp, nil
}

// Requests returns how many requests there were, with those that were not
// sent.
func (t *Transport) Requests() int {
	if t == nil {
		return 0
	}
	return int(t.begun.Load())
}

// Sent returns how many requests were sent.
func (t *Transport) Sent() int {
	if t == nil {
		return 0
	}
	return int(t.sent.Load())
}

// Open returns how many responses have a body that is not closed.
func (t *Transport) Open() int {
	if t == nil {
		return 0
	}
	return int(t.open.Load())
}

func (f *Fault) response(req *http.Request) *http.Response {
	text := http.StatusText(f.Status)
	header := http.Header{}
	for name, value := range f.Header {
		header.Set(name, value)
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", f.Status, text), StatusCode: f.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)),
		Request: req,
	}
}

// A body is one that is counted, and may be cut.
type body struct {
	io.ReadCloser
	t      *Transport
	cut    bool
	left   int
	closed atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	if !b.cut {
		return b.ReadCloser.Read(p)
	}
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (b *body) Close() error {
	if b.closed.CompareAndSwap(false, true) {
		b.t.open.Add(-1)
	}
	return b.ReadCloser.Close()
}
