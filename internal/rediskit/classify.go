package rediskit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
)

// Classify puts an error of a go-redis command into a class of the root
// package: "class: cause". The cause's text holds nothing that was quoted by
// the server (keys, arguments, user names); the original stays in reach of
// [errors.As]. An error that has a class already is returned unchanged.
//
// A reply is an answer, so the server's first word decides. A dial that
// failed or a pool that had no connection means that nothing was sent, since
// commands that change something are sent once. Anything else (EOF, a reset,
// a timeout) after a command that writes is [transparency.ErrUncertain].
func Classify(effect Effect, err error) error {
	if err == nil || classed(err) {
		return err
	}
	var reply redis.Error
	switch {
	case errors.As(err, &reply):
		return fmt.Errorf("%w: %w", replyClass(reply.Error()), &cause{safeText(reply.Error()), err})
	case effect == Reads || notSent(err):
		return fmt.Errorf("%w: %w", transparency.ErrUnavailable, &cause{safeText(err.Error()), err})
	default:
		return fmt.Errorf("%w: %w", transparency.ErrUncertain, &cause{safeText(err.Error()), err})
	}
}

func classed(err error) bool {
	for _, class := range [...]error{
		transparency.ErrUnavailable, transparency.ErrUncertain, transparency.ErrRejected,
		transparency.ErrDenied, transparency.ErrInvalid,
	} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// notSent reports whether err says that no connection was had for the command.
func notSent(err error) bool {
	var op *net.OpError
	var record tls.RecordHeaderError
	var cert *tls.CertificateVerificationError
	return errors.As(err, &op) && op.Op == "dial" ||
		errors.As(err, &record) || errors.As(err, &cert) ||
		errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, redis.ErrPoolExhausted) ||
		errors.Is(err, redis.ErrClosed)
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// replyClasses maps the first word of an error reply to what it means. Words
// that are not here refuse the command itself.
var replyClasses = map[string]error{
	"LOADING":     transparency.ErrUnavailable, // reading its data from disk
	"READONLY":    transparency.ErrUnavailable, // a replica, since a failover
	"MASTERDOWN":  transparency.ErrUnavailable,
	"CLUSTERDOWN": transparency.ErrUnavailable,
	"TRYAGAIN":    transparency.ErrUnavailable, // keys of one slot on two nodes
	"MOVED":       transparency.ErrUnavailable, // redirects used up
	"ASK":         transparency.ErrUnavailable,
	"OOM":         transparency.ErrUnavailable,
	"MISCONF":     transparency.ErrUnavailable, // cannot save to disk
	"NOREPLICAS":  transparency.ErrUnavailable,
	"BUSY":        transparency.ErrUnavailable, // a script runs too long
	"NOSCRIPT":    transparency.ErrUnavailable, // flushed between two tries
	"NOAUTH":      transparency.ErrDenied,
	"WRONGPASS":   transparency.ErrDenied,
	"NOPERM":      transparency.ErrDenied,
	"DENIED":      transparency.ErrDenied, // protected mode
}

func replyClass(text string) error {
	word, rest, _ := strings.Cut(text, " ")
	if class, ok := replyClasses[word]; ok {
		return class
	}
	switch {
	case word != "ERR":
	case strings.HasPrefix(rest, "max number of clients"):
		return transparency.ErrUnavailable
	case strings.HasPrefix(rest, "invalid password"), strings.HasPrefix(rest, "AUTH "),
		strings.HasPrefix(rest, "Client sent AUTH"),
		// NOPERM of a command inside a script, since Redis 7.0 and 7.2.
		strings.HasPrefix(rest, "The user executing the script can't"),
		strings.HasPrefix(rest, "ACL failure in script"):
		return transparency.ErrDenied
	case strings.HasPrefix(rest, "Error running script"), strings.HasPrefix(rest, "Error compiling script"):
		// Before Redis 7 the error of a command inside a script stood within
		// the script's own.
		for word, class := range replyClasses {
			if strings.Contains(rest, " "+word+" ") {
				return class
			}
		}
	}
	return transparency.ErrInvalid
}

var (
	quoted   = regexp.MustCompile("'[^']*'?|\"[^\"]*\"?|`[^`]*`?")
	userName = regexp.MustCompile(`\b([Uu]ser) \S+`)
)

// safeText is a text without what it quotes (keys, arguments, replies that
// could not be parsed), in one bounded line.
func safeText(text string) string {
	const most = 160
	text = quoted.ReplaceAllString(text, "'…'")
	text = userName.ReplaceAllString(text, "$1 …")
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// cause carries a go-redis error under a text of ours.
type cause struct {
	text string
	err  error
}

func (c *cause) Error() string { return c.text }

// Unwrap hides an error that would pass for the end of the caller's context:
// a dial that timed out matches [context.DeadlineExceeded].
func (c *cause) Unwrap() error {
	if isContext(c.err) {
		return nil
	}
	return c.err
}
