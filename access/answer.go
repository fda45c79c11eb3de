package access

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-transparency/transparency"
)

// checkAnswer returns nil for an HTTP answer that has a document for its body,
// else what the answer means.
func checkAnswer(resp *http.Response, host string) error {
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
	default:
		return fmt.Errorf("%w: %s: %w", statusClass(code), host, statusError(resp))
	}
	// Not mime.ParseMediaType: a parameter that it does not like makes the page
	// no document.
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "text/html", "application/xhtml+xml":
		return invalid("the answer is an HTML page, as of a login or a proxy, and no document")
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return invalid("the answer is in a content encoding that was not asked for")
	}
	return nil
}

func statusClass(code int) error {
	switch {
	case code == http.StatusNotFound, code == http.StatusGone:
		return ErrNotFound
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return transparency.ErrDenied
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500 && code < 600:
		return transparency.ErrUnavailable
	default:
		return transparency.ErrInvalid
	}
}

func statusError(resp *http.Response) *StatusError {
	return &StatusError{Code: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
}

// retryAfter reads seconds or a date, and believes no server that wants to be
// left alone for a year.
func retryAfter(text string, now time.Time) time.Duration {
	const most = 5 * time.Minute
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(most/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), most)
	}
	return 0
}

// exchangeCause says why an exchange failed, in words that cannot hold a URL,
// a header or a piece of the answer, as those of net/http can.
func exchangeCause(err error) string {
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &op):
		return op.Error()
	case errors.As(err, &cert):
		return "the server's certificate was not accepted: " + cert.Err.Error() // names and dates
	case errors.As(err, &record):
		return "the server does not speak TLS: http, not https?"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the server took too long"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended too early"
	default:
		return "the HTTP exchange failed"
	}
}
