package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/rediskit"
)

// Advise turns the error of a Redis command into one line: what could not be
// done, why, and what to check. It holds no password and nothing that the
// server quoted. The end of a context that was cancelled passes through.
func (e *Env) Advise(doing string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	opts, settingsErr := e.settings()
	if settingsErr != nil {
		return settingsErr
	}
	if opts == nil {
		opts = &redis.Options{Addr: e.Where()}
	}
	a := explain(opts, err)
	return fmt.Errorf("cannot %s: %s: check %s", doing, a.why, a.check)
}

type advice struct{ why, check string }

const (
	checkPlace = "REDIS_HOST and REDIS_PORT (or REDIS_URL), and that a Redis runs there"
	checkUser  = "REDIS_USERNAME and REDIS_PASSWORD (or those in REDIS_URL); " +
		"in .env a password with $ or # wants 'single quotes'"
	tlsOff = "REDIS_TLS, which should be false (or redis:// in REDIS_URL), or the port, which may be the one without TLS"
	tlsOn  = "REDIS_TLS, which should be true if the server wants TLS (or rediss:// in REDIS_URL), and that the port is a Redis's"
)

func explain(opts *redis.Options, err error) advice {
	var reply redis.Error
	if errors.Is(err, redis.Nil) {
		return advice{"there is no such key at " + opts.Addr, "that the program was started without arguments, and that nobody else removes keys"}
	}
	if errors.As(err, &reply) {
		return explainReply(opts.Addr, err, reply.Error())
	}
	var (
		dns    *net.DNSError
		op     *net.OpError
		record tls.RecordHeaderError
		alert  tls.AlertError
		cert   *tls.CertificateVerificationError
		host   x509.HostnameError
	)
	dialed := errors.As(err, &op) && op.Op == "dial"
	switch {
	case errors.As(err, &dns):
		return advice{"the host name in " + opts.Addr + " is not known", "REDIS_HOST (or the host in REDIS_URL) and your network"}
	case errors.As(err, &host):
		return advice{"the certificate of " + opts.Addr + " is for another name", "that REDIS_HOST is the name in the certificate"}
	case errors.As(err, &cert):
		return advice{"the certificate of " + opts.Addr + " is not trusted", "that its issuer is known to this machine (SSL_CERT_FILE)"}
	case errors.As(err, &record):
		return advice{opts.Addr + " does not speak TLS", tlsOff}
	case errors.As(err, &alert):
		return advice{opts.Addr + " refused the TLS handshake", "which TLS versions and client certificates the server asks for"}
	case dialed && errors.Is(err, syscall.ECONNREFUSED):
		return advice{"nothing listens at " + opts.Addr + " (connection refused)", checkPlace}
	case isTimeout(err):
		check := "REDIS_HOST and REDIS_PORT (or REDIS_URL), firewalls on the way, and that the server is not stopped"
		if opts.TLSConfig != nil {
			check = "REDIS_TLS (a server without TLS may stay silent), " + check
		}
		return advice{"no answer from " + opts.Addr + " within seconds", check}
	case dialed:
		return advice{opts.Addr + " cannot be reached", checkPlace}
	case opts.TLSConfig != nil:
		return advice{opts.Addr + " ended the connection in the TLS handshake or later", tlsOff}
	default:
		return advice{opts.Addr + " ended the connection or gave no answer of a Redis", tlsOn}
	}
}

// explainReply is for errors that the server answered with. Its words are not
// repeated as they are: a server may quote what it was sent.
func explainReply(addr string, err error, text string) advice {
	word, rest, _ := strings.Cut(text, " ")
	switch {
	case word == "WRONGPASS", strings.HasPrefix(rest, "invalid password"):
		return advice{addr + " refused the user name or the password", checkUser}
	case word == "NOAUTH":
		return advice{addr + " asks for a password", "that REDIS_PASSWORD is set (or that REDIS_URL has one)"}
	case strings.HasPrefix(rest, "AUTH "), strings.HasPrefix(rest, "Client sent AUTH"):
		return advice{addr + " has no password, but was given one", "REDIS_PASSWORD (or the password in REDIS_URL), which should be empty"}
	case word == "NOPERM":
		return advice{addr + " does not allow this user that command or key", "the user's permissions (ACL GETUSER), or REDIS_USERNAME"}
	case word == "DENIED":
		return advice{addr + " takes no connections from other machines (protected mode)", "the server's requirepass and protected-mode"}
	case word == "LOADING", word == "BUSY", word == "CLUSTERDOWN", word == "MASTERDOWN":
		return advice{addr + " is not ready (" + word + ")", "its log, and try again in a moment"}
	case word == "READONLY":
		return advice{addr + " is a replica and takes no writes", "that REDIS_HOST names the primary"}
	case word == "OOM":
		return advice{addr + " is out of memory", "its maxmemory, and remove what is not needed"}
	case strings.HasPrefix(rest, "DB index"), strings.HasPrefix(rest, "invalid DB index"):
		return advice{addr + " has no database of that number", "the number at the end of REDIS_URL"}
	}
	return advice{addr + " answered: " + rediskit.Classify(rediskit.Reads, err).Error(), "that it is a Redis of version 7.0 or later"}
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
