package access

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/go-transparency/transparency"
)

// An Opener makes the [Driver] of a backend that this package does not know
// from its URL. Like [Open] it does no I/O, and as u may hold a password, its
// errors do not quote it. The repository closes a driver that is an
// [io.Closer].
type Opener func(u *url.URL) (Driver, error)

// OpenOptions are the options of [Open] and [FromEnv]. Nil and zero fields
// mean the defaults. Formatting them does not print Header.
type OpenOptions struct {
	// MaxBytes is the size of the largest document. Zero means
	// [DefaultMaxBytes]; negative means no limit.
	MaxBytes int64
	// Timeout bounds each operation, beside its context. Zero means
	// [DefaultTimeout]; negative means none.
	Timeout time.Duration
	// Header and Transport are those of [HTTPOptions].
	Header    http.Header       `json:"-"`
	Transport http.RoundTripper `json:"-"`
	// Prefix is that of [RedisOptions].
	Prefix string
	// Openers adds backends: by the scheme of their URLs, in lower case,
	// which is their name in CONFIG_BACKEND as well. The schemes of this
	// package cannot be replaced.
	Openers map[string]Opener `json:"-"`
	// Logger is told once by FromEnv which default it took. Nil discards.
	Logger *slog.Logger `json:"-"`
}

func (o *OpenOptions) withDefaults() OpenOptions {
	var opts OpenOptions
	if o != nil {
		opts = *o
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return opts
}

// Format keeps the values of Header out of every verb.
func (o OpenOptions) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "open options (%d headers, %d openers, %d bytes, %v)", len(o.Header), len(o.Openers), o.MaxBytes, o.Timeout)
}

// Open returns the repository that a URL names, without any I/O: whether it
// can be reached shows at the first Get.
//
//	file:config.json  file:///etc/app.json     [NewFile]
//	dir:conf  dir:///etc/app                   [NewDir]
//	http://host/path  https://host/path        [NewHTTP]
//	redis://host:6379/0  rediss://…            [NewRedis]
//	mem:                                       [NewMemory], empty
//
// Others are opened by opts.Openers. A Redis URL has no parameters: a client
// that needs more than an address is made by the caller, for [NewRedis]. The
// client made here is the repository's, and its Close closes it.
//
// A URL that is none of these is an error of class [transparency.ErrInvalid].
// No error quotes the URL, because it may hold a password.
func Open(rawURL string, opts *OpenOptions) (*Repository, error) {
	o := opts.withDefaults()
	err := o.checkOpeners()
	var repo *Repository
	if err == nil {
		repo, err = o.open(rawURL)
	}
	if err != nil {
		return nil, fmt.Errorf("access: open: %w", err)
	}
	return repo, nil
}

func (o OpenOptions) checkOpeners() error {
	for name := range o.Openers {
		switch {
		case slices.Contains(schemes, name) || slices.Contains(backends, name):
			return invalid("an opener cannot replace the backend %q", name)
		case !backendName.MatchString(name):
			return invalid("an opener has a name that is no scheme in lower case")
		}
	}
	return nil
}

// schemes are those that open knows without an Opener.
var schemes = []string{"dir", "file", "http", "https", "mem", "redis", "rediss"}

func (o OpenOptions) open(rawURL string) (*Repository, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	limits := &Options{MaxBytes: o.MaxBytes, Timeout: o.Timeout}
	switch u.Scheme {
	case "mem":
		if *u != (url.URL{Scheme: "mem"}) {
			return nil, invalid("a mem URL is mem: and nothing else")
		}
		return NewMemory(limits), nil
	case "file", "dir":
		path, err := filePath(u)
		if err != nil {
			return nil, err
		}
		if u.Scheme == "dir" {
			return NewDir(path, limits), nil
		}
		return NewFile(path, limits), nil
	case "http", "https":
		repo := NewHTTP(rawURL, &HTTPOptions{Header: o.Header, Transport: o.Transport, MaxBytes: o.MaxBytes, Timeout: o.Timeout})
		return repo, repo.engine.broken
	case "redis", "rediss":
		client, err := openRedis(u)
		if err != nil {
			return nil, err
		}
		redisOpts := (&RedisOptions{Prefix: o.Prefix}).withDefaults()
		return New(ownedRedis{&redisDriver{client, redisOpts.Prefix}, client}, limits), nil
	}
	opener := o.Openers[u.Scheme]
	if opener == nil {
		return nil, invalid("the URL's scheme is none of %s", o.known(schemes))
	}
	driver, err := opener(u)
	if err != nil {
		return nil, openerError(err)
	}
	repo := New(driver, limits)
	return repo, repo.engine.broken
}

// known lists names, and those that openers add.
func (o OpenOptions) known(names []string) string {
	return strings.Join(slices.Sorted(slices.Values(slices.AppendSeq(slices.Clone(names), maps.Keys(o.Openers)))), ", ")
}

// openerError gives err a class if it has none. An opener does no I/O, so what
// it cannot do now it never can.
func openerError(err error) error {
	for _, class := range [...]error{
		transparency.ErrUnavailable, transparency.ErrUncertain, transparency.ErrRejected,
		transparency.ErrDenied, transparency.ErrInvalid,
	} {
		if errors.Is(err, class) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", transparency.ErrInvalid, err)
}

// parseURL is url.Parse with errors that do not quote the URL, as those of
// net/url do. It refuses what is likely to be a password with a '/', '?' or
// '#' in it that was not escaped: the rest of it would pass for a path.
func parseURL(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, invalid("the URL does not parse (a password in it must be percent-encoded)")
	}
	if u.Host != "" && strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@") {
		return nil, invalid("the URL has an @ behind its host (a password in it must be percent-encoded)")
	}
	if port := u.Port(); port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return nil, invalid("the URL has a port above 65535")
		}
	}
	return u, nil
}

// filePath returns the path of a file: or dir: URL, with or without slashes.
func filePath(u *url.URL) (string, error) {
	path := u.Path
	if u.Opaque != "" {
		var err error
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return "", invalid("the URL does not parse")
		}
	}
	if path == "" || u.User != nil || u.Host != "" && u.Host != "localhost" || u.RawQuery != "" || u.Fragment != "" {
		return "", invalid("a %s URL has a path and nothing else: %[1]s:config or %[1]s:///etc/config", u.Scheme)
	}
	if p := strings.TrimPrefix(path, "/"); filepath.VolumeName(p) != "" {
		path = p // file:///C:/config.json
	}
	return filepath.FromSlash(path), nil
}

func openRedis(u *url.URL) (*redis.Client, error) {
	opts, err := redis.ParseURL(u.String())
	// err may quote the URL. ParseURL takes redis:host for localhost, and the
	// client database -1 for 0.
	if err != nil || u.Opaque != "" || opts.DB < 0 || u.RawQuery != "" || u.Fragment != "" {
		return nil, invalid("it is no Redis URL, such as redis://user:password@host:6379/0, without parameters")
	}
	opts.ContextTimeoutEnabled = true
	opts.MaxRetries = -1
	opts.DialerRetries = 1
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(opts), nil
}

// ownedRedis is a driver whose client nobody else has.
type ownedRedis struct {
	*redisDriver
	client *redis.Client
}

var _ interface {
	WriteDriver
	io.Closer
} = ownedRedis{}

func (d ownedRedis) Close() error {
	if err := d.client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("%w: the Redis client: %w", transparency.ErrUnavailable, err)
	}
	return nil
}
