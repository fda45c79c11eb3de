package access_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
)

// serve returns the URL of a server with this handler, and a transport for it.
func serve(t *testing.T, handler http.HandlerFunc) (string, http.RoundTripper) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, server.Client().Transport
}

func get(repo access.ConfigRepository, key string) (string, error) {
	doc, err := repo.Get(context.Background(), key)
	return string(doc.Data), err
}

func TestHTTPRequest(t *testing.T) {
	var seen atomic.Pointer[http.Request]
	url, transport := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r)
		fmt.Fprint(w, "{}")
	})
	base := strings.Replace(url, "http://", "http://ada:p%40ss@", 1) + "/a%2Fb/?token=t%2F1"
	repo := access.NewHTTP(base, &access.HTTPOptions{Transport: transport, Header: http.Header{"X-Token": {"x"}}})
	for _, tt := range []struct{ key, want string }{
		{"c.json", "/a%2Fb/c.json"},
		{"c d/e+f/é?#", "/a%2Fb/c%20d/e+f/%C3%A9%3F%23"},
		{"a:b;c=d&e@f", "/a%2Fb/a:b%3Bc=d&e@f"},
	} {
		if _, err := get(repo, tt.key); err != nil {
			t.Fatalf("Get(%q) error = %v", tt.key, err)
		}
		r := seen.Load()
		if got := r.URL.EscapedPath(); got != tt.want {
			t.Errorf("Get(%q) asked for %q, want %q", tt.key, got, tt.want)
		}
		if r.Method != "GET" || r.URL.RawQuery != "token=t%2F1" || r.Header.Get("X-Token") != "x" ||
			!strings.HasPrefix(r.Header.Get("Accept"), "application/json") {
			t.Errorf("Get(%q) sent %s %s %v", tt.key, r.Method, r.URL, r.Header)
		}
		if user, password, ok := r.BasicAuth(); !ok || user != "ada" || password != "p@ss" {
			t.Errorf("Get(%q) sent basic authentication %q, %q, %v", tt.key, user, password, ok)
		}
	}

	repo = access.NewHTTP(base, &access.HTTPOptions{Transport: transport, Header: http.Header{"Authorization": {"Bearer b"}}})
	if _, err := get(repo, "c"); err != nil {
		t.Fatal(err)
	}
	if got := seen.Load().Header.Get("Authorization"); got != "Bearer b" {
		t.Errorf("Authorization = %q, want the header of the options", got)
	}
}

// The last slash of a base may be part of its last segment.
func TestHTTPEscapedBase(t *testing.T) {
	url, transport := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.EscapedPath()) })
	for base, want := range map[string]string{"": "/k", "/": "/k", "/a//": "/a/k", "/a%2F": "/a%2F/k", "/a%2F/": "/a%2F/k", "/a b?": "/a%20b/k"} {
		if got, err := get(access.NewHTTP(url+base, &access.HTTPOptions{Transport: transport}), "k"); err != nil || got != want {
			t.Errorf("base %q: Get asked for %q, %v, want %q", base, got, err, want)
		}
	}
}

func TestHTTPHeaders(t *testing.T) {
	url, transport := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q", r.Header["Authorization"]) })
	withUser := strings.Replace(url, "http://", "http://ada:pass@", 1)
	header := http.Header{"authorization": {"Bearer\tb é"}, "User-Agent": nil}
	repo := access.NewHTTP(withUser, &access.HTTPOptions{Transport: transport, Header: header})
	for _, values := range header {
		if len(values) > 0 {
			values[0] = "changed"
		}
	}
	header.Set("Authorization", "changed")
	if got, err := get(repo, "doc"); err != nil || got != fmt.Sprintf("%q", []string{"Bearer\tb é"}) {
		t.Errorf("Authorization = %s, %v, want that of the options alone, as it was", got, err)
	}
	for _, header := range []http.Header{
		{"X-Token": {"hunter2\n"}}, {"X-Token": {"a", "hunter2\x00"}}, {"X-Token": {"hunter2\x7f"}}, {"X-Token": {"hunter2\r\nX: y"}},
		{"": {"hunter2"}}, {"X Token": {"hunter2"}}, {"X-Token:": {"hunter2"}}, {"X-é": {"hunter2"}}, {"X\n": {"hunter2"}}, {"X\x7f": {"hunter2"}},
		{"host": {"hunter2"}}, {"Content-Length": {"5"}}, {"Transfer-Encoding": {"chunked"}}, {"Trailer": {"X"}},
	} {
		_, err := get(access.NewHTTP(url, &access.HTTPOptions{Transport: transport, Header: header}), "doc")
		if !errors.Is(err, transparency.ErrInvalid) || strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("header %q: Get error = %v, want ErrInvalid and no secret", header, err)
		}
	}
}

// A transport that breaks its contract must not end the process.
func TestHTTPNoResponse(t *testing.T) {
	for name, resp := range map[string]*http.Response{"no response": nil, "no body": {StatusCode: 200}} {
		transport := roundTripper(func(*http.Request) (*http.Response, error) { return resp, nil })
		_, err := get(access.NewHTTP("http://host/", &access.HTTPOptions{Transport: transport}), "doc")
		if !errors.Is(err, transparency.ErrUnavailable) {
			t.Errorf("%s: Get error = %v, want ErrUnavailable", name, err)
		}
	}
}

// TestHTTPRedirect is AC-9.
func TestHTTPRedirect(t *testing.T) {
	var leaks atomic.Int32
	leak := func(w http.ResponseWriter, _ *http.Request) { leaks.Add(1); fmt.Fprint(w, `"elsewhere"`) }
	other, _ := serve(t, leak)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)

	var target string // set before each request, by the same goroutine
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" || r.Header.Get("X-Token") != "x" {
			t.Errorf("%s came without credentials", r.URL.Path)
		}
		switch path := r.URL.Path; {
		case path == "/c/start":
			w.Header()["Location"] = []string{target}
			w.WriteHeader(http.StatusFound)
		case strings.HasPrefix(path, "/hop"):
			n := path[len(path)-1]
			if n == '1' {
				http.Redirect(w, r, "/end?x=1", http.StatusPermanentRedirect)
				return
			}
			http.Redirect(w, r, "/hop"+string(n-1), http.StatusMovedPermanently)
		case path == "/loop":
			http.Redirect(w, r, "loop", http.StatusTemporaryRedirect)
		default:
			fmt.Fprintf(w, "%q", path)
		}
	}
	plain, transport := serve(t, handler)
	tlsServer := httptest.NewTLSServer(http.HandlerFunc(handler))
	t.Cleanup(tlsServer.Close)
	header := http.Header{"Authorization": {"Bearer hunter2"}, "X-Token": {"x"}}
	host := strings.TrimPrefix(plain, "http://")
	port := host[strings.LastIndex(host, ":")+1:]

	for _, tt := range []struct{ name, base, target, want string }{
		{"relative", plain, "../end", `"/end"`},
		{"absolute path", plain, "/end", `"/end"`},
		{"whole URL, same origin", plain, plain + "/end", `"/end"`},
		{"host in capitals", "http://LOCALHOST:" + port, "http://localhost:" + port + "/end", `"/end"`},
		{"three hops", plain, "/hop2", `"/end"`},
		{"four hops", plain, "/hop3", ""},
		{"a loop", plain, "/loop", ""},
		{"another port", plain, other + "/x", ""},
		{"another host", plain, "http://localhost:" + port + "/end", ""},
		{"a subdomain", "http://localhost:" + port, "http://sub.localhost:" + port + "/end", ""},
		{"http from https", tlsServer.URL, strings.Replace(tlsServer.URL, "https", "http", 1) + "/end", ""},
		{"https from http", plain, secure.URL + "/end", ""},
		{"another origin without a scheme", plain, "//" + strings.TrimPrefix(other, "http://") + "/x", ""},
		{"user information", plain, "http://eve:hunter3@" + host + "/end", ""},
		{"no HTTP", plain, "file:///etc/passwd", ""},
		{"nowhere", plain, "", ""},
		{"garbage", plain, "http://hunter2:%zz@/", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target = tt.target
			opts := &access.HTTPOptions{Header: header, Transport: transport}
			if tt.base == tlsServer.URL {
				opts.Transport = tlsServer.Client().Transport
			}
			got, err := get(access.NewHTTP(tt.base+"/c", opts), "start")
			switch {
			case tt.want != "" && (err != nil || got != tt.want):
				t.Errorf("Get = %q, %v, want %q", got, err, tt.want)
			case tt.want == "" && (!errors.Is(err, access.ErrRedirect) || !errors.Is(err, transparency.ErrInvalid)):
				t.Errorf("Get = %q, %v, want ErrRedirect and ErrInvalid", got, err)
			}
			if strings.Contains(fmt.Sprint(err), "hunter") {
				t.Errorf("Get error = %q: it quotes the target", err)
			}
		})
	}
	if n := leaks.Load(); n != 0 {
		t.Errorf("%d requests left their origin", n)
	}
}

// What a redirect within the origin leads to is asked for as the first was; the
// user information is in a header by then, and in no URL that a transport sees.
func TestHTTPRedirectCarries(t *testing.T) {
	var asked []string
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		user, password, _ := r.BasicAuth()
		asked = append(asked, fmt.Sprint(r.URL, " ", r.Host, " ", user, " ", password, " ", r.Header.Get("X-Token")))
		rec := httptest.NewRecorder()
		if len(asked) < 3 {
			rec.Header().Set("Location", []string{"", "other?x", "http://HOST:80/last"}[len(asked)])
			rec.WriteHeader(http.StatusFound)
		}
		fmt.Fprint(rec, "1")
		return rec.Result(), nil
	})
	counted := &countingTransport{next: transport}
	repo := access.NewHTTP("http://ada:pass@host/a?token", &access.HTTPOptions{Transport: counted, Header: http.Header{"X-Token": {"x"}}})
	if got, err := get(repo, "doc"); err != nil || got != "1" {
		t.Errorf("Get = %q, %v, want 1", got, err)
	}
	want := []string{"http://host/a/doc?token host ada pass x", "http://host/a/other?x host ada pass x", "http://HOST:80/last HOST:80 ada pass x"}
	if !slices.Equal(asked, want) {
		t.Errorf("Get asked for %q, want %q", asked, want)
	}
	if n := counted.open.Load(); n != 0 {
		t.Errorf("%d bodies were not closed", n)
	}
}

// TestHTTPStatus is AC-11.
func TestHTTPStatus(t *testing.T) {
	url, transport := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(code)
		if code >= 200 && code != 204 && code != 304 {
			fmt.Fprint(w, "hunter2")
		}
	})
	repo := access.NewHTTP(url, &access.HTTPOptions{Transport: transport})
	for class, codes := range map[error][]int{
		access.ErrNotFound:          {404, 410},
		transparency.ErrDenied:      {401, 403, 407},
		transparency.ErrUnavailable: {408, 425, 429, 500, 501, 502, 503, 504, 507, 599},
		transparency.ErrInvalid:     {201, 202, 203, 204, 205, 206, 300, 304, 305, 306, 400, 402, 405, 406, 409, 411, 412, 413, 414, 418, 422, 451, 499, 600, 999},
	} {
		for _, code := range codes {
			_, err := get(repo, fmt.Sprint(code))
			var status *access.StatusError
			if !errors.Is(err, class) || !errors.As(err, &status) || status.Code != code {
				t.Errorf("status %d: error = %v, want %v and a StatusError", code, err, class)
				continue
			}
			if status.RetryAfter != 7*time.Second {
				t.Errorf("status %d: RetryAfter = %v, want 7s", code, status.RetryAfter)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), url) {
				t.Errorf("status %d: error = %q: it quotes the answer or the URL", code, err)
			}
			if got, want := transparency.Retryable(err), class == transparency.ErrUnavailable; got != want {
				t.Errorf("status %d: Retryable = %v, want %v", code, got, want)
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-7": 0, "300": 5 * time.Minute, "301": 5 * time.Minute,
		"9223372036854775807": 5 * time.Minute, "99999999999999999999": 0, "soon": 0, "7.5": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute,
		now.Add(-time.Hour).Format(http.TimeFormat):  0,
		now.Add(time.Hour).Format(http.TimeFormat):   5 * time.Minute,
	} {
		if got := access.RetryAfter(text, now); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestHTTPContent(t *testing.T) {
	for _, tt := range []struct {
		name, contentType, encoding, body string
		ok                                bool
	}{
		{"JSON", "application/json; charset=utf-8", "", "{}", true},
		{"no type", "", "", "{}", true},
		{"text", "text/plain", "", "{}", true},
		{"identity", "application/json", "identity", "{}", true},
		{"an unreadable type", "hunter2;;;=", "", "{}", true},
		{"HTML", "text/html; charset=utf-8", "", "<p>Sign in", false},
		{"HTML in capitals", "Text/HTML", "", "<p>Sign in", false},
		{"HTML with a broken parameter", "text/html;==", "", "<p>Sign in", false},
		{"HTML with a parameter twice", "text/html; charset=a; charset=b", "", "<p>Sign in", false},
		{"XHTML", "application/xhtml+xml", "", "<p/>", false},
		{"sniffed HTML", "sniff", "", "<!DOCTYPE html><p>Sign in", false},
		{"an encoding nobody asked for", "application/json", "br", "{}", false},
		{"empty", "application/json", "", "", false},
	} {
		url, transport := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if tt.contentType != "sniff" {
				w.Header()["Content-Type"] = []string{tt.contentType}
			}
			if tt.encoding != "" {
				w.Header().Set("Content-Encoding", tt.encoding)
			}
			_, _ = io.WriteString(w, tt.body)
		})
		got, err := get(access.NewHTTP(url, &access.HTTPOptions{Transport: transport}), "doc")
		if tt.ok && (err != nil || got != tt.body) {
			t.Errorf("%s: Get = %q, %v, want %q", tt.name, got, err, tt.body)
		}
		if !tt.ok && !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("%s: Get = %q, %v, want ErrInvalid", tt.name, got, err)
		}
	}
}

// TestHTTPTooLarge is the first half of AC-12.
func TestHTTPTooLarge(t *testing.T) {
	const limit = 64 << 10
	var bomb bytes.Buffer
	pack := gzip.NewWriter(&bomb)
	_, _ = pack.Write(make([]byte, 64<<20))
	_ = pack.Close()
	for name, handler := range map[string]http.HandlerFunc{
		"announced": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1073741824")
		},
		"chunked": func(w http.ResponseWriter, r *http.Request) {
			for chunk := make([]byte, 4096); r.Context().Err() == nil; { // without an end
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		},
		"gzip bomb": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		},
	} {
		url, transport := serve(t, handler)
		counted := &countingTransport{next: transport}
		_, err := get(access.NewHTTP(url, &access.HTTPOptions{Transport: counted, MaxBytes: limit}), "doc")
		if !errors.Is(err, access.ErrTooLarge) {
			t.Errorf("%s: Get error = %v, want ErrTooLarge", name, err)
		}
		if n := counted.bytes.Load(); n > limit+1 {
			t.Errorf("%s: %d bytes were read, want at most %d", name, n, limit+1)
		}
		if n := counted.open.Load(); n != 0 {
			t.Errorf("%s: %d bodies were not closed", name, n)
		}
	}
}

// countingTransport counts what is read of the bodies, and those not closed.
type countingTransport struct {
	next        http.RoundTripper
	bytes, open atomic.Int64
}

func (c *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err == nil {
		c.open.Add(1)
		resp.Body = &countingBody{resp.Body, c}
	}
	return resp, err
}

type countingBody struct {
	io.ReadCloser
	c *countingTransport
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.c.bytes.Add(int64(n))
	return n, err
}

func (b *countingBody) Close() error {
	b.c.open.Add(-1)
	return b.ReadCloser.Close()
}

func TestHTTPInvalidURL(t *testing.T) {
	for _, url := range []string{
		"", "host", "/path", "ftp://host/", "http:", "http://", "http:host", "http:///path", "http://:80/", "http://h/#hunter2",
		"http://ada:p%ss@h/", "http://h/\x00hunter2", "http://ada:hun/ter2@h/", "http://ada:1?hunter2@h/", "http://ada:1/hunter2@h/",
		"http://[::1", "http://h:port/", " http://h/", "http://h:65536/",
	} {
		repo := access.NewHTTP(url, nil)
		_, err := get(repo, "doc")
		if !errors.Is(err, transparency.ErrInvalid) || !strings.HasPrefix(err.Error(), `access: get "doc": invalid: `) {
			t.Errorf("NewHTTP(%q): Get error = %v, want ErrInvalid", url, err)
		}
		if strings.Contains(fmt.Sprint(err), "hun") || strings.Contains(fmt.Sprint(err), "p%ss") {
			t.Errorf("NewHTTP(%q): error = %q: it quotes the URL", url, err)
		}
		if err := repo.Close(); err != nil {
			t.Errorf("NewHTTP(%q): Close() error = %v", url, err)
		}
	}
}
