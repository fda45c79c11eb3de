package failure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A response is one answer of the host. As an error it says that the status
// is a failure.
type response struct {
	*http.Response
	x       *exchange
	attempt int // of the Retry
	cancel  context.CancelCauseFunc
}

// follow ties the body to the context of the request, until it is closed.
func (r *response) follow() {
	r.Request = r.x.req
	if r.Body == http.NoBody {
		r.cancel(nil)
		return
	}
	outer := r.x.req.Context()
	unlink := context.AfterFunc(outer, func() { r.cancel(context.Cause(outer)) })
	tied := &body{ReadCloser: r.Body, end: func() { unlink(); r.cancel(nil) }}
	if w, ok := r.Body.(io.Writer); ok { // of 101 Switching Protocols
		r.Body = &duplex{tied, w}
	} else {
		r.Body = tied
	}
}

type body struct {
	io.ReadCloser
	end func()
}

// Close closes the body, and then ends the context of its request.
func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

type duplex struct {
	*body
	io.Writer
}

const (
	drainBytes = 64 << 10
	drainTime  = 50 * time.Millisecond
)

// drop lets a response go, and its connection if the body has not been read.
func (r *response) drop() {
	r.cancel(nil)
	_ = r.Body.Close()
}

// discard lets a response go: what is left of the body is read, so that its
// connection can be used again, if that is little and comes at once.
func (r *response) discard() {
	defer r.Body.Close()
	if r.ContentLength > drainBytes {
		return
	}
	late := time.AfterFunc(drainTime, func() { r.cancel(nil) })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, r.Body, drainBytes)
}

// again reports whether the status says that another attempt may help.
func (r *response) again() bool {
	switch r.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// Error names the status.
func (r *response) Error() string {
	return fmt.Sprintf("failure: %s %q: %d %s", r.x.op(), r.x.host, r.StatusCode, http.StatusText(r.StatusCode))
}

// Unwrap gives a status that may be asked again its class.
func (r *response) Unwrap() error {
	if !r.again() {
		return nil
	}
	return r.x.class()
}

// RetryAfter is what the header of that name says.
func (r *response) RetryAfter() time.Duration {
	return parseRetryAfter(r.Header.Get("Retry-After"), r.Header.Get("Date"), time.Now())
}

// parseRetryAfter returns the time that a Retry-After header asks for (RFC
// 9110, section 10.2.3), or zero. A date is compared with that of the response,
// because the clocks may differ, or with now if there is none.
func parseRetryAfter(value, date string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(forever/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if sent, err := http.ParseTime(date); err == nil {
		now = sent
	}
	return min(max(at.Sub(now), 0), forever)
}
