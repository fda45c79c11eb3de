package access

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// The environment variables of [FromEnv].
const (
	envBackend = "CONFIG_BACKEND"
	envURL     = "CONFIG_URL"
)

// backends are the values of CONFIG_BACKEND that need no Opener.
var backends = []string{"dir", "file", "http", "local", "memory", "redis"}

// FromEnv returns the repository that the environment names, without any I/O.
// CONFIG_BACKEND says what it is, CONFIG_URL where:
//
//	local, file   a path or a file: URL; default config.json
//	dir           a path or a dir: URL
//	http          an http: or https: URL; default http://localhost:8080/config
//	redis         a redis: or rediss: URL; default redis://localhost:6379
//	memory        nothing, or mem:
//
// and the name of an opener stands for itself. Case and surrounding space do
// not matter. With neither variable set it is local, which the Logger is told;
// with CONFIG_URL alone, its scheme decides, and a path is local.
//
// An unknown backend, and a URL that does not fit the backend, are errors of
// class [transparency.ErrInvalid] that say which variable is at fault and what
// it can be. They never hold the URL.
func FromEnv(opts *OpenOptions) (*Repository, error) {
	o := opts.withDefaults()
	err := o.checkOpeners()
	var repo *Repository
	if err == nil {
		repo, err = o.fromEnv(os.Getenv(envBackend), os.Getenv(envURL))
	}
	if err != nil {
		return nil, fmt.Errorf("access: from environment: %w", err)
	}
	return repo, nil
}

var backendName = regexp.MustCompile(`^[a-z][a-z0-9+.-]{0,31}$`)

func (o OpenOptions) fromEnv(backend, where string) (*Repository, error) {
	backend = strings.ToLower(strings.TrimSpace(backend))
	where = strings.TrimSpace(where)
	if backend == "" && where == "" {
		o.Logger.Info("access: CONFIG_BACKEND is not set: reading local config.json")
	}
	if backend == "" && hasScheme(where) {
		return o.fromURL(where)
	}

	var fits []string // the schemes that CONFIG_URL can have
	var fallback string
	switch backend {
	case "", "local", "file":
		fits, fallback = []string{"file"}, "file:config.json"
	case "dir":
		fits = []string{"dir"}
	case "http":
		fits, fallback = []string{"http", "https"}, "http://localhost:8080/config"
	case "redis":
		fits, fallback = []string{"redis", "rediss"}, "redis://localhost:6379"
	case "memory":
		fits, fallback = []string{"mem"}, "mem:"
	default:
		if o.Openers[backend] == nil {
			return nil, o.unknown(backend)
		}
		fits = []string{backend}
	}

	limits := &Options{MaxBytes: o.MaxBytes, Timeout: o.Timeout}
	scheme, _, _ := strings.Cut(strings.ToLower(where), ":")
	switch {
	case where == "" && fallback == "":
		return nil, invalid("%s is not set, and %s=%s has no default for it", envURL, envBackend, backend)
	case where == "":
		return o.fromURL(fallback)
	case hasScheme(where) && slices.Contains(fits, scheme):
		return o.fromURL(where)
	case !hasScheme(where) && fits[0] == "file":
		return NewFile(where, limits), nil
	case !hasScheme(where) && fits[0] == "dir":
		return NewDir(where, limits), nil
	default:
		return nil, invalid("%s does not fit %s=%s: it must begin with %s:", envURL, envBackend, backend, strings.Join(fits, ": or "))
	}
}

func (o OpenOptions) fromURL(rawURL string) (*Repository, error) {
	repo, err := o.open(rawURL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", envURL, err)
	}
	return repo, nil
}

// unknown names the backend, unless it looks like something else that got into
// the wrong variable.
func (o OpenOptions) unknown(backend string) error {
	name := "has no backend's name"
	if backendName.MatchString(backend) {
		name = fmt.Sprintf("is %q, which is unknown", backend)
	}
	return invalid("%s %s: it must be one of %s", envBackend, name, o.known(backends))
}

// hasScheme tells a URL from a path. One letter before the colon is a drive.
func hasScheme(s string) bool {
	scheme, _, ok := strings.Cut(s, ":")
	return ok && len(scheme) > 1 && backendName.MatchString(strings.ToLower(scheme))
}
