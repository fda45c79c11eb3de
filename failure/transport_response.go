package failure

import (
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
	span    span
	body    body
}

// tie makes the closing of the body end the span.
func (r *response) tie() {
	r.Request = r.x.req
	if r.Body == http.NoBody {
		r.span.end()
		return
	}
	r.body = body{r.Body, &r.span}
	if w, ok := r.Body.(io.Writer); ok { // of 101 Switching Protocols
		r.Body = &duplex{&r.body, w}
	} else {
		r.Body = &r.body
	}
}

type body struct {
	io.ReadCloser
	span *span
}

// Close closes the body, and then ends the context of its request.
func (b *body) Close() error {
	defer b.span.end()
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
	r.span.end()
	_ = r.Body.Close()
}

// discard lets a response go: what is left of the body is read, so that its
// connection can be used again, if that is little and comes at once.
func (r *response) discard() {
	defer r.Body.Close()
	if r.ContentLength > drainBytes {
		return
	}
	late := time.AfterFunc(drainTime, r.span.end)
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
	return fmt.Sprintf("failure: %s %q: %d %s", r.x.op(), r.x.host.String(), r.StatusCode, http.StatusText(r.StatusCode))
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
