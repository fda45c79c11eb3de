package failure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-transparency/transparency"
)

// failed is the error of an attempt that has no response.
func (x *exchange) failed(ctx context.Context, err error) error {
	class, ctxErr := x.class(), ctx.Err()
	switch {
	case classed(err):
		class = nil
	case unreached(err):
		if class = transparency.ErrUnavailable; ctxErr == nil {
			err = &dialError{err}
		}
	}
	err = x.redacted(err)
	if ctxErr != nil && !errors.Is(err, ctxErr) {
		err = fmt.Errorf("%w: %w", ctxErr, err)
	}
	if class != nil {
		err = fmt.Errorf("%w: %w", class, err)
	}
	return failed(x.op(), x.host.String(), err)
}

// classed reports whether err has a class.
func classed(err error) bool {
	for _, class := range [...]error{
		transparency.ErrUnavailable, transparency.ErrUncertain, transparency.ErrRejected, transparency.ErrDenied, transparency.ErrInvalid,
	} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// unreached reports whether err came before there was a connection to send on.
func unreached(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect")
}

// dialError is the error of a connection that was not made. The time limit of a
// [net.Dialer] says that it is DeadlineExceeded, but no context has ended.
type dialError struct{ error }

func (d *dialError) Is(target error) bool {
	return target != context.DeadlineExceeded && errors.Is(d.error, target) //nolint:errorlint // the very one
}

func (d *dialError) As(target any) bool { return errors.As(d.error, target) }

// timedOut tells an error as [url.Error] wants it, for [http.Client].
type timedOut struct{ error }

func (t *timedOut) Unwrap() error { return t.error }
func (t *timedOut) Timeout() bool { return true }

// withTimeout marks an error that is due to a time limit.
func withTimeout(err error) error {
	var limit interface{ Timeout() bool }
	if errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &limit) && limit.Timeout() {
		return &timedOut{err}
	}
	return err
}

// redacted returns err without what the URL may hold that is secret.
func (x *exchange) redacted(err error) error {
	for {
		outer, ok := err.(*url.Error) //nolint:errorlint // what is around it is kept
		if !ok || outer.Err == nil {
			break
		}
		err = outer.Err
	}
	text := err.Error()
	clean := text
	for _, secret := range secrets(x.req.URL, err) {
		clean = strings.ReplaceAll(clean, secret, "…")
	}
	if clean == text {
		return err
	}
	return &veiled{clean, err}
}

// leastSecret is how long a part of a URL must be to be looked for alone: less
// is found in any text.
const leastSecret = 4

// secrets returns what of u, and of the URLs in err, is in no error, the longest
// first.
func secrets(u *url.URL, err error) []string {
	all := []string{u.String(), u.Redacted()}
	var withURL *url.Error
	for ; errors.As(err, &withURL); err = withURL.Err {
		all = append(all, withURL.URL)
	}
	parts := []string{u.RequestURI(), u.EscapedPath(), u.Path, u.RawQuery}
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		parts = append(parts, u.User.String(), u.User.Username(), password, url.PathEscape(password), url.QueryEscape(password))
	}
	for _, part := range parts {
		if len(part) >= leastSecret {
			all = append(all, part)
		}
	}
	all = slices.DeleteFunc(all, func(s string) bool { return s == "" })
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return all
}

// veiled is an error that is told from others as ever, and not printed as ever.
// What it wraps cannot be had, for that prints itself.
type veiled struct {
	text string
	err  error
}

func (v *veiled) Error() string             { return v.text }
func (v *veiled) Is(target error) bool      { return errors.Is(v.err, target) }
func (v *veiled) RetryAfter() time.Duration { return RetryAfter(v.err) }
