package failure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/go-transparency/transparency"
)

// An exchange is one request through a [Transport], and all that came of it.
type exchange struct {
	base http.RoundTripper
	req  *http.Request
	host host
	safe bool

	mu    sync.Mutex // guards what follows
	begun bool       // the request's own body was given away
	over  bool       // RoundTrip has returned: what still comes is closed
	open  []*response
	room  [2]*response // of open
}

// attempt sends the request once.
func (x *exchange) attempt(ctx context.Context) (any, error) {
	if ctx.Err() != nil { // nothing is sent only to be abandoned
		return nil, failed(x.op(), x.host.String(), fmt.Errorf("%w: %w", transparency.ErrUnavailable, ended(ctx)))
	}
	body, err := x.body()
	if err != nil {
		return nil, err
	}
	n := Attempt(ctx)
	x.supersede(n)
	r := &response{x: x, attempt: n}
	r.span.begin(ctx, x.req.Context())
	held := false
	defer func() {
		if !held {
			r.span.end()
		}
	}()
	sent := x.req.WithContext(r.span.Context)
	sent.Body = body
	resp, err := x.base.RoundTrip(sent)
	switch {
	case err != nil:
		return nil, x.failed(ctx, err)
	case resp == nil || resp.Body == nil:
		return nil, x.failed(ctx, errors.New("the base returned neither a response nor an error"))
	case !r.span.headed():
		_ = resp.Body.Close()
		return nil, x.failed(ctx, context.Cause(ctx))
	}
	r.Response = resp
	r.tie()
	if held = x.hold(r); !held {
		r.drop()
		return nil, x.failed(ctx, context.Canceled)
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		return r, r
	}
	return r, nil
}

// body returns the body for one attempt.
func (x *exchange) body() (io.ReadCloser, error) {
	x.mu.Lock()
	first := !x.begun
	x.begun = true
	x.mu.Unlock()
	if first || x.req.Body == nil || x.req.Body == http.NoBody {
		return x.req.Body, nil
	}
	if x.req.GetBody == nil {
		return nil, x.refused(errors.New("the body cannot be read twice"))
	}
	body, err := x.req.GetBody()
	if err != nil {
		return nil, x.refused(fmt.Errorf("the body cannot be read again: %w", err))
	}
	return body, nil
}

// refused is the error of an attempt that this side did not make.
func (x *exchange) refused(err error) error {
	return failed(x.op(), x.host.String(), fmt.Errorf("%w: %w", transparency.ErrRejected, err))
}

// hold keeps a response until it is decided which is returned. It reports false
// if that has been.
func (x *exchange) hold(r *response) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		if x.open == nil {
			x.open = x.room[:0]
		}
		x.open = append(x.open, r)
	}
	return !x.over
}

// supersede lets the responses of the attempts before go.
func (x *exchange) supersede(attempt int) {
	x.mu.Lock()
	var old []*response
	kept := x.open[:0]
	for _, r := range x.open {
		if r.attempt < attempt {
			old = append(old, r)
		} else {
			kept = append(kept, r)
		}
	}
	x.open = kept
	x.mu.Unlock()
	for _, r := range old {
		r.discard()
	}
}

// last returns the response that came last and is still open, or nil.
func (x *exchange) last() *response {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.open) == 0 {
		return nil
	}
	return x.open[len(x.open)-1]
}

// end ends the exchange: all responses are let go but r, if it is open, which
// end reports.
func (x *exchange) end(r *response) (kept bool) {
	x.mu.Lock()
	open := x.open
	x.over, x.open = true, nil
	x.mu.Unlock()
	for _, o := range open {
		if o == r {
			kept = true
		} else {
			o.drop() // at once: its caller waits
		}
	}
	return kept
}

// finish ends the exchange, if that was not done, and closes a body that no
// attempt has been given.
func (x *exchange) finish() {
	_ = x.end(nil)
	x.mu.Lock()
	begun := x.begun
	x.begun = true
	x.mu.Unlock()
	if !begun && x.req.Body != nil {
		_ = x.req.Body.Close()
	}
}

func (x *exchange) op() string {
	if x.req.Method == "" {
		return http.MethodGet
	}
	return x.req.Method
}

func (x *exchange) invalid(format string, args ...any) error {
	return failed(x.op(), x.host.String(), invalid(format, args...))
}

// class is that of a request which was sent and not answered.
func (x *exchange) class() error {
	if x.safe {
		return transparency.ErrUnavailable
	}
	return transparency.ErrUncertain
}
