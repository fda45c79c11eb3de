package access_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
	"github.com/go-transparency/transparency/internal/faultnet"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
)

func TestOpenFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "config.json", `{"doc":1}`)
	write(t, "a@b.json", `{"doc":1}`)
	write(t, filepath.Join("conf d", "doc"), "2")
	for raw, want := range map[string]string{
		"file:config.json": "1", "file:./config.json": "1", "FILE:config.json": "1", "file:a@b.json": "1",
		"file://" + filepath.ToSlash(dir) + "/config.json":          "1",
		"file://localhost" + filepath.ToSlash(dir) + "/config.json": "1",
		"dir:conf%20d": "2", "dir:./conf d": "2", "dir://" + filepath.ToSlash(dir) + "/conf%20d": "2",
	} {
		repo, err := access.Open(raw, nil)
		if err != nil {
			t.Errorf("Open(%q) error = %v", raw, err)
			continue
		}
		if got, err := get(repo, "doc"); err != nil || got != want {
			t.Errorf("Open(%q): Get = %q, %v, want %q", raw, got, err, want)
		}
	}
}

func TestOpenServers(t *testing.T) {
	base, transport := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path, r.Header.Get("X-Token"))
	})
	opts := &access.OpenOptions{Header: http.Header{"X-Token": {"x"}}, Transport: transport, MaxBytes: 10}
	repo, err := access.Open(base+"/c", opts)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := get(repo, "doc"); err != nil || got != "/c/docx" {
		t.Errorf("Get = %q, %v, want /c/docx", got, err)
	}
	if _, err := get(repo, "longer-than-that"); !errors.Is(err, access.ErrTooLarge) {
		t.Errorf("Get error = %v, want ErrTooLarge", err)
	}

	server := redistest.StartMini(t)
	if err := server.Client(t).Do(t.Context(), "SELECT", 3).Err(); err != nil {
		t.Fatal(err)
	}
	repo, err = access.Open("redis://"+server.Addr()+"/3", &access.OpenOptions{Prefix: "app:"})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	if _, err := repo.Put(t.Context(), "doc", []byte("1"), nil); err != nil {
		t.Fatal(err)
	}
	inDB3 := server.Options()
	inDB3.DB = 3
	if got, err := get(repo, "doc"); err != nil || got != "1" {
		t.Errorf("Get = %q, %v, want 1", got, err)
	}

	repo, err = access.Open("mem:", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get(repo, "doc"); !errors.Is(err, access.ErrNotFound) {
		t.Errorf("mem: Get error = %v, want ErrNotFound", err)
	}
}

func TestOpenInvalid(t *testing.T) {
	for _, raw := range []string{
		"", "config.json", "/etc/config.json", "ftp://host/", "s3://bucket", "file:", "file:///?x=1", "file://host/x", "file:x#y", "file:%zz",
		"dir:", "dir://", "file://user@localhost/x", "mem:x", "mem://h", "mem:?x", "http:", "http://", "https:///x", "http://h/#x", "http://h:p/",
		"redis:h", "redis:h:6379", "redis:127.0.0.1:6379/1", "rediss:h", "redis://h/-1", "redis://h:65536", "http://h:65536/",
		"redis://h/notanumber", "redis://h/1/2", "redis://h?unknown=1", "redis://h?pool_size=-5", "redis://h/0#x", "redis://h:port", "redis://:p%ss@h", "redis://:a/b@h", "://", "\x00",
	} {
		repo, err := access.Open(raw, nil)
		if repo != nil || !errors.Is(err, transparency.ErrInvalid) || !strings.HasPrefix(fmt.Sprint(err), "access: open: invalid: ") {
			t.Errorf("Open(%q) = %v, %v, want nil, ErrInvalid", raw, repo, err)
		}
	}
	if _, err := access.Open("ftp://host/", nil); !strings.Contains(fmt.Sprint(err), "dir, file, http, https, mem, redis, rediss") {
		t.Errorf("Open error = %v, want it to list the schemes", err)
	}
}

func TestOpeners(t *testing.T) {
	driver := &funcDriver{fetch: func(_ context.Context, key string, _ int64) ([]byte, error) { return []byte(key), nil }}
	broken := errors.New("no bucket")
	opts := &access.OpenOptions{MaxBytes: 5, Openers: map[string]access.Opener{
		"s3": func(u *url.URL) (access.Driver, error) {
			if u.Host == "" {
				return nil, fmt.Errorf("%w: %w", transparency.ErrInvalid, broken)
			}
			return driver, nil
		},
		"nil":  func(*url.URL) (access.Driver, error) { return nil, nil },
		"fail": func(*url.URL) (access.Driver, error) { return nil, broken },
		"deny": func(*url.URL) (access.Driver, error) { return nil, transparency.ErrDenied },
	}}
	repo, err := access.Open("s3://bucket/x", opts)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := get(repo, "doc"); err != nil || got != "doc" {
		t.Errorf("Get = %q, %v, want doc", got, err)
	}
	for key, want := range map[string]error{"../x": access.ErrInvalidKey, "longer": access.ErrTooLarge} {
		if _, err := get(repo, key); !errors.Is(err, want) {
			t.Errorf("Get(%q) error = %v, want %v: the engine stands before every driver", key, err, want)
		}
	}
	_ = repo.Close()
	if n := driver.closed.Load(); n != 1 {
		t.Errorf("after Close the driver was closed %d times, want once", n)
	}
	if _, err := access.Open("s3:", opts); !errors.Is(err, broken) {
		t.Errorf("Open error = %v, want that of the opener", err)
	}
	if _, err := access.Open("fail:", opts); !errors.Is(err, broken) || !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("Open error = %v, want that of the opener, in class ErrInvalid", err)
	}
	if _, err := access.Open("deny:", opts); !errors.Is(err, transparency.ErrDenied) || errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("Open error = %v, want the class that the opener gave", err)
	}
	if _, err := access.Open("nil:", opts); !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("Open error = %v, want ErrInvalid for a nil driver", err)
	}
	if _, err := access.Open("x:", opts); !strings.Contains(fmt.Sprint(err), "deny, dir, fail, file, http, https, mem, nil, redis, rediss, s3") {
		t.Errorf("Open error = %v, want it to list the openers", err)
	}
	for _, name := range []string{"file", "http", "https", "mem", "rediss", "local", "memory", "S3", "", "s3:", "3s", "s 3"} {
		opts := &access.OpenOptions{Openers: map[string]access.Opener{name: nil}}
		if _, err := access.Open("mem:", opts); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("an opener for %q: Open error = %v, want ErrInvalid", name, err)
		}
		if _, err := access.FromEnv(opts); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("an opener for %q: FromEnv error = %v, want ErrInvalid", name, err)
		}
	}
}

// Options and repositories print neither headers nor documents, by any verb:
// those that do not fit a type print more than the others.
func TestNothingPrintsSecrets(t *testing.T) {
	header := http.Header{"Authorization": {"Bearer hunter2"}}
	memory := access.NewMemory(nil)
	if _, err := memory.Put(t.Context(), "doc", []byte("hunter2"), nil); err != nil {
		t.Fatal(err)
	}
	web := access.NewHTTP("http://ada:hunter2@host/?hunter2", &access.HTTPOptions{Header: header})
	client, err := access.Open("redis://:hunter2@host", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if got := fmt.Sprintf("%v %v", memory, *memory); strings.Count(got, "*access.memory") != 2 {
		t.Errorf("a repository prints as %s, want the type of its driver", got)
	}
	if got := fmt.Sprint(access.HTTPOptions{Header: header, MaxBytes: 5}, access.OpenOptions{Header: header}); strings.Count(got, "1 headers") != 2 {
		t.Errorf("options print as %s, want the number of headers", got)
	}
	for _, value := range []any{
		access.HTTPOptions{Header: header}, &access.HTTPOptions{Header: header},
		access.OpenOptions{Header: header}, &access.OpenOptions{Header: header},
		memory, *memory, web, *web, client, *client,
		struct{ Repo *access.Repository }{memory}, []access.Repository{*web},
		// Here package fmt asks nobody.
		struct{ repo *access.Repository }{memory}, struct{ repo access.Repository }{*memory}, struct{ repo access.Repository }{*web},
	} {
		asJSON, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		texts := []string{string(asJSON)}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%c", "%e", "%U"} {
			texts = append(texts, fmt.Sprintf(verb, value))
		}
		for _, text := range texts {
			if strings.Contains(text, "hunter2") || strings.Contains(text, "104 117 110") || strings.Contains(text, "68756e") {
				t.Errorf("%T prints as %s", value, text)
			}
		}
	}
}

// FuzzSecrets is AC-17: whatever is wrong with a URL, what is secret in it is
// in no error and in no printed repository.
func FuzzSecrets(f *testing.F) {
	for shape := range shapes {
		for _, middle := range []string{"", "%", "%zz", "/", "?", "#", "@", ":", "[", " ", "\x00", "\x7f", "\n", "\\", "é", "\xff", "a/b?c#d@e"} {
			f.Add(shape, "https", middle)
			f.Add(shape, "redis", middle)
			f.Add(shape, "s3", middle)
		}
	}
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("cannot get %s with %v", r.URL, r.Header)
	})
	f.Fuzz(func(t *testing.T, shape int, scheme, middle string) {
		if strings.Contains(scheme, "hunter") || strings.Contains(scheme, "2zz") {
			return
		}
		secret := "hunter" + middle + "2zz"
		text := shapes[uint(shape)%uint(len(shapes))](scheme, secret)
		opts := &access.OpenOptions{Transport: transport, Header: http.Header{"X-Token": {secret}}}
		repo, err := access.Open(text, opts)
		errs := []error{err}
		if err == nil {
			errs = append(errs, fmt.Errorf("%v %+v %#v %s %d", repo, repo, repo, repo, repo))
			if strings.HasPrefix(text, "http") { // others would reach for what the secret says
				_, err := repo.Get(context.Background(), "doc")
				errs = append(errs, err)
			}
			errs = append(errs, repo.Close())
		}
		for _, env := range [][2]string{{"", text}, {text, ""}, {"file", text}, {"http", text}, {"redis", text}, {text, text}} {
			if strings.Contains(env[0]+env[1], "\x00") {
				continue // no environment can hold it
			}
			t.Setenv("CONFIG_BACKEND", env[0])
			t.Setenv("CONFIG_URL", env[1])
			repo, err := access.FromEnv(opts)
			errs = append(errs, err)
			if err == nil {
				errs = append(errs, repo.Close())
			}
		}
		for _, err := range errs {
			if text := fmt.Sprintf("%v %#v", err, err); strings.Contains(text, "hunter") || strings.Contains(text, "2zz") {
				t.Errorf("a secret shows: %s", text)
			}
		}
	})
}

// shapes put a secret into a URL, unescaped as people do, or escaped.
var shapes = []func(scheme, secret string) string{
	func(scheme, secret string) string { return scheme + "://user:" + secret + "@127.0.0.1:1/x" },
	func(scheme, secret string) string { return scheme + "://:" + secret + "@127.0.0.1:1" },
	func(scheme, secret string) string { return scheme + "://" + secret + "@127.0.0.1:1/x" },
	func(scheme, secret string) string { return scheme + "://127.0.0.1:1/x?token=" + secret },
	func(scheme, secret string) string { return scheme + "://user:" + secret + "@127.0.0.1:1/%zz" },
	func(scheme, secret string) string {
		u := url.URL{Scheme: scheme, User: url.UserPassword("user", secret), Host: "127.0.0.1:1", RawQuery: url.Values{"t": {secret}}.Encode()}
		return u.String()
	},
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What a server says of a wrong password is no place for it either.
func TestRedisSecrets(t *testing.T) {
	redistest.Silence()
	real := redistest.StartServer(t)
	if err := real.Client(t).ConfigSet(t.Context(), "requirepass", "other").Err(); err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]error{
		"redis://user:hunter2@" + real.Addr():       transparency.ErrDenied,
		"redis://:hunter2@" + real.Addr():           transparency.ErrDenied,
		"redis://" + real.Addr():                    transparency.ErrDenied,
		"rediss://user:hunter2@" + real.Addr():      transparency.ErrUnavailable,
		"redis://user:hunter2@127.0.0.1:1":          transparency.ErrUnavailable,
		"redis://user:hunter2@nowhere.invalid:6379": transparency.ErrUnavailable,
	} {
		repo, err := access.Open(raw, nil)
		if err != nil {
			t.Fatalf("Open error = %v", err)
		}
		_, err = get(repo, "doc")
		if !errors.Is(err, want) || strings.Contains(fmt.Sprintf("%v %+v", err, repo), "hunter2") {
			t.Errorf("%s: Get error = %v, want %v and no secret", strings.ReplaceAll(raw, "hunter2", "…"), err, want)
		}
		if err := repo.Close(); err != nil {
			t.Errorf("Close() error = %v", err)
		}
	}
}

// The client that Open makes ends a command with its context, and tries once.
func TestOpenRedisClient(t *testing.T) {
	proxy := faultnet.New(t, redistest.StartMini(t).Addr())
	repo, err := access.Open("redis://"+proxy.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	if _, err := repo.Put(t.Context(), "doc", []byte("1"), nil); err != nil {
		t.Fatal(err)
	}
	proxy.CutAfter(faultnet.ToClient, 0)
	if _, err := get(repo, "doc"); !transparency.Retryable(err) {
		t.Errorf("Get whose answer is cut: error = %v, want ErrUnavailable and no second try", err)
	}
	if got, err := get(repo, "doc"); err != nil || got != "1" {
		t.Errorf("Get after the cut = %q, %v, want 1", got, err)
	}

	closed := make(chan struct{}, 10)
	silent := raw(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c); closed <- struct{}{} })
	repo, err = access.Open(strings.Replace(silent, "http", "redis", 1), &access.OpenOptions{Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	start := time.Now()
	if _, err := get(repo, "doc"); !transparency.Retryable(err) {
		t.Errorf("Get without an answer: error = %v, want ErrUnavailable", err)
	}
	testkit.Receive(t, "the end of the connection", closed)
	if took := time.Since(start); took > 3*time.Second { // go-redis's ReadTimeout
		t.Errorf("the connection outlives its command of 100ms: it was closed after %v", took)
	}
}

func TestOpenDoesNoIO(t *testing.T) {
	url := "http" + strings.TrimPrefix(raw(t, nil), "http") // would panic at the first connection
	for _, u := range []string{url, strings.Replace(url, "http", "redis", 1), "file:/nowhere", "dir:/nowhere"} {
		repo, err := access.Open(u, nil)
		if err != nil {
			t.Errorf("Open(%q) error = %v", u, err)
			continue
		}
		_ = repo.Close()
	}
}
