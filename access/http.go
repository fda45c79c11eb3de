package access

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-transparency/transparency"
)

// HTTPOptions are the options of [NewHTTP]. Nil and zero fields mean the
// defaults. Formatting them does not print Header.
type HTTPOptions struct {
	// Header is sent with every request to the origin of the base URL, and to
	// no other: the place for credentials.
	Header http.Header `json:"-"`
	// Transport makes the requests; redirects are not its business. Nil means
	// [http.DefaultTransport].
	Transport http.RoundTripper `json:"-"`
	// MaxBytes is the size of the largest document, unpacked. Zero means
	// [DefaultMaxBytes]; negative means no limit.
	MaxBytes int64
	// Timeout bounds each Get, redirects and body included, beside its
	// context. Zero means [DefaultTimeout]; negative means none.
	Timeout time.Duration
}

// Format keeps the values of Header out of every verb.
func (o HTTPOptions) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "HTTP options (%d headers, %d bytes, %v)", len(o.Header), o.MaxBytes, o.Timeout)
}

// NewHTTP returns a repository whose documents a server has below baseURL: Get
// asks for baseURL/key, with the query of the URL, and with its user
// information as basic authentication unless Header has an Authorization. It
// cannot be written.
//
// Up to three redirects within the origin (scheme, host, port) are followed;
// all others are refused with [ErrRedirect], so that credentials never leave
// their origin. Only status 200 has a document. 404 and 410 are [ErrNotFound];
// 401, 403 and 407 are [transparency.ErrDenied]; 408, 425, 429, 5xx and a body
// that breaks off are [transparency.ErrUnavailable]; all else, an HTML page
// and an empty answer included, is [transparency.ErrInvalid]. [StatusError]
// tells the status.
func NewHTTP(baseURL string, opts *HTTPOptions) *Repository {
	var o HTTPOptions
	if opts != nil {
		o = *opts
	}
	driver, err := newHTTPDriver(baseURL, o)
	return newRepository(driver, err, &Options{MaxBytes: o.MaxBytes, Timeout: o.Timeout})
}

type httpDriver struct {
	base      *url.URL // without user information
	header    http.Header
	transport http.RoundTripper
}

func newHTTPDriver(baseURL string, o HTTPOptions) (*httpDriver, error) {
	base, err := parseURL(baseURL)
	if err != nil {
		return nil, err
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "" || base.Fragment != "" {
		return nil, invalid("the URL is no http or https URL with a host and without a fragment")
	}
	header, err := cleanHeader(o.Header)
	if err != nil {
		return nil, err
	}
	d := &httpDriver{base: base, header: header, transport: o.Transport}
	if d.header.Get("Accept") == "" {
		d.header.Set("Accept", "application/json, */*;q=0.5")
	}
	if user := base.User; user != nil {
		base.User = nil
		if d.header.Get("Authorization") == "" {
			password, _ := user.Password()
			pair := base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
			d.header.Set("Authorization", "Basic "+pair)
		}
	}
	if d.transport == nil {
		d.transport = http.DefaultTransport
	}
	return d, nil
}

// cleanHeader returns a copy of header under canonical names. A header that
// cannot be sent is refused here: net/http would do so at every request, as if
// the server were at fault, or leave it out.
func cleanHeader(header http.Header) (http.Header, error) {
	clean := make(http.Header, len(header)+2)
	for name, values := range header {
		name = http.CanonicalHeaderKey(name)
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
		}) {
			return nil, invalid("a header has a name that HTTP does not allow")
		}
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			return nil, invalid("the header %s cannot be set: it follows from the request", name)
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return nil, invalid("the value of a header has a control character, such as a line break at its end")
			}
		}
		clean[name] = append(clean[name], values...)
	}
	return clean, nil
}

const maxHops = 3

// Fetch follows redirects itself: an [http.Client] would carry credentials to
// another port, from https to http, and custom headers to any host.
func (d *httpDriver) Fetch(ctx context.Context, key string, limit int64) ([]byte, error) {
	target := d.target(key)
	for hop := 0; ; hop++ {
		req := (&http.Request{
			Method: http.MethodGet, URL: target, Host: target.Host, Header: d.header.Clone(),
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}).WithContext(ctx)
		resp, err := d.transport.RoundTrip(req)
		if err == nil && (resp == nil || resp.Body == nil) {
			err = errNoResponse
		}
		if err != nil {
			return nil, exchangeError(ctx, err)
		}
		if !isRedirect(resp) {
			return readAnswer(ctx, resp, target.Host, limit)
		}
		_ = resp.Body.Close() // what it says does not matter
		if hop == maxHops {
			return nil, fmt.Errorf("%w: more than %d in a row", ErrRedirect, maxHops)
		}
		if target, err = d.follow(target, resp.Header.Get("Location")); err != nil {
			return nil, err
		}
	}
}

// errNoResponse is what a Transport of the caller's must not do.
var errNoResponse = errors.New("neither a response nor an error")

// target is the base URL with the key's segments after its path.
func (d *httpDriver) target(key string) *url.URL {
	u := *d.base
	segments := strings.Split(key, "/")
	for i, segment := range segments {
		segments[i] = url.PathEscape(segment)
	}
	u.RawPath = strings.TrimRight(u.EscapedPath(), "/") + "/" + strings.Join(segments, "/")
	u.Path, _ = url.PathUnescape(u.RawPath) // what was just escaped
	return &u
}

func isRedirect(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

func (d *httpDriver) follow(from *url.URL, location string) (*url.URL, error) {
	to, err := from.Parse(location)
	if err != nil || location == "" {
		return nil, fmt.Errorf("%w: it has no readable target", ErrRedirect) // err would quote it
	}
	if origin(to) != origin(d.base) || to.User != nil {
		return nil, fmt.Errorf("%w: it leads to another origin", ErrRedirect)
	}
	return to, nil
}

func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

func readAnswer(ctx context.Context, resp *http.Response, host string, limit int64) ([]byte, error) {
	defer resp.Body.Close() // read only: nothing can be lost
	if err := checkAnswer(resp, host); err != nil {
		return nil, err
	}
	if err := checkSize(resp.ContentLength, limit); err != nil {
		return nil, err
	}
	// The transport unpacks gzip as it is read, so the bound holds for what
	// comes out.
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, exchangeError(ctx, err)
	}
	return data, checkSize(int64(len(data)), limit)
}

// exchangeError keeps the text of an error that may quote the URL or the
// answer to itself. The end of ctx is the engine's to tell.
func exchangeError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %s", transparency.ErrUnavailable, exchangeCause(err))
}
