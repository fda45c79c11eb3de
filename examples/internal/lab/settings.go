package lab

import (
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// The names of the settings.
const (
	envURL      = "REDIS_URL"
	envHost     = "REDIS_HOST"
	envPort     = "REDIS_PORT"
	envUsername = "REDIS_USERNAME"
	envPassword = "REDIS_PASSWORD"
	envTLS      = "REDIS_TLS"
)

// dialTimeout bounds the wait for a host that does not answer.
const dialTimeout = 3 * time.Second

// Errors about settings name the setting and never its value: a password may
// have been put into the wrong one.
var (
	errURL = errors.New("REDIS_URL is not the address of a Redis: check that it reads redis://user:password@host:port/0 " +
		"(rediss:// for TLS), with special characters in the password written as %40 and the like")
	errPort = errors.New("REDIS_PORT is not a port: check that it is a number from 1 to 65535")
	errHost = errors.New("REDIS_HOST is not a host: check that it is a name or an IP address alone, " +
		"the port going to REDIS_PORT")
	errAddr = errors.New("an address is not one of a server: check that it reads host:port, " +
		"the user and the password going to REDIS_USERNAME and REDIS_PASSWORD")
	errTLS = errors.New("REDIS_TLS is neither on nor off: check that it is true or false")
)

// readSettings returns the options of the client that lookup (the environment)
// and .env in dir ask for; nil means that they name no server.
func readSettings(lookup func(string) (string, bool), dir string) (*redis.Options, error) {
	file, err := readDotenv(dir)
	if err != nil {
		return nil, err
	}
	set := func(name string) bool { v, ok := lookup(name); return ok && v != "" }
	value := func(name string) string {
		v, ok := lookup(name)
		switch {
		case ok:
			return v
		case name == envURL && (set(envHost) || set(envPort)):
			return ""
		}
		return file[name]
	}
	if url := value(envURL); url != "" {
		opts, err := redis.ParseURL(url)
		if err != nil || !validAddr(opts) {
			return nil, errURL // not err: it quotes the URL
		}
		return tune(opts), nil
	}
	host, port, user, password, tlsOn := value(envHost), value(envPort), value(envUsername), value(envPassword), value(envTLS)
	if host+port+user+password+tlsOn == "" {
		return nil, nil
	}
	return hostSettings(host, port, user, password, tlsOn)
}

func hostSettings(host, port, user, password, tlsOn string) (*redis.Options, error) {
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "6379"
	}
	host = strings.Trim(host, "[]")
	if strings.ContainsAny(host, "/@ \t\r\n") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return nil, errHost
	}
	if !validPort(port) {
		return nil, errPort
	}
	on, err := parseBool(tlsOn)
	if err != nil {
		return nil, err
	}
	opts := &redis.Options{Addr: net.JoinHostPort(host, port), Username: user, Password: password}
	if on {
		opts.TLSConfig = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	}
	return tune(opts), nil
}

// newClient is the one place where a client is made. It does no I/O.
func newClient(opts *redis.Options) *redis.Client {
	return redis.NewClient(opts)
}

// tune makes a client that obeys contexts, tries everything once and does
// nothing on the side, as the packages of this module want it.
func tune(opts *redis.Options) *redis.Options {
	opts.ContextTimeoutEnabled = true
	opts.MaxRetries = -1
	opts.DialTimeout = dialTimeout
	opts.DialerRetries = 1
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return opts
}

func validAddr(opts *redis.Options) bool {
	if opts.Network == "unix" {
		return opts.Addr != ""
	}
	host, port, err := net.SplitHostPort(opts.Addr)
	return err == nil && host != "" && validPort(port)
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "", "0", "false", "f", "no", "off":
		return false, nil
	case "1", "true", "t", "yes", "on":
		return true, nil
	}
	return false, errTLS
}
