package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

const marker = "s3cr3t-mArk"

func adviceEnv() *Env {
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{envHost: "db.example", envUsername: "u-" + marker, envPassword: marker}[name]
		return value, ok
	}
	return New(nil, &strings.Builder{}, lookup, "no-such-directory")
}

// reply is an error that a server answered with.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestAdvise(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	tests := []struct {
		err  error
		want []string
	}{
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), []string{"nothing listens at db.example:6379", "REDIS_PORT"}},
		{dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), []string{"db.example:6379 cannot be reached", "REDIS_HOST"}},
		{dial(os.ErrDeadlineExceeded), []string{"no answer from db.example:6379 within seconds", "REDIS_HOST"}},
		{dial(&net.DNSError{Err: "no such host", Name: "db.example", IsNotFound: true}), []string{"not known", "REDIS_HOST"}},
		{dial(&net.DNSError{Err: "i/o timeout", Name: "db.example", IsTimeout: true}), []string{"not known", "your network"}},
		{context.DeadlineExceeded, []string{"no answer"}},
		{fmt.Errorf("read: %w", syscall.ECONNRESET), []string{"ended the connection", "REDIS_TLS"}},
		{reply("WRONGPASS invalid username-password pair or user is disabled."), []string{"refused the user name or the password", "REDIS_PASSWORD"}},
		{reply("ERR invalid password"), []string{"refused", "REDIS_PASSWORD"}},
		{reply("NOAUTH Authentication required."), []string{"asks for a password"}},
		{reply("ERR AUTH <password> called without any password configured for the default user."), []string{"has no password, but was given one"}},
		{reply("ERR Client sent AUTH, but no password is set"), []string{"has no password, but was given one"}},
		{reply("NOPERM User " + marker + " has no permissions to run the 'set' command"), []string{"does not allow"}},
		{reply("DENIED Redis is running in protected mode because " + marker), []string{"protected mode"}},
		{reply("LOADING Redis is loading the dataset in memory"), []string{"not ready (LOADING)"}},
		{reply("READONLY You can't write against a read only replica."), []string{"replica"}},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), []string{"out of memory"}},
		{reply("ERR DB index is out of range"), []string{"no database of that number"}},
		{reply("ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `" + marker + "`, "), []string{"answered: ", "7.0 or later"}},
		{redis.Nil, []string{"no such key"}},
		{errors.New("redis: invalid reply: \"" + marker + "\""), []string{"gave no answer of a Redis"}},
	}
	env := adviceEnv()
	for _, test := range tests {
		got := env.Advise("PING", test.err).Error()
		for _, want := range append(test.want, "cannot PING: ", "check ") {
			if !strings.Contains(got, want) {
				t.Errorf("Advise(%q) = %q, want %q in it", test.err, got, want)
			}
		}
		if strings.Contains(got, marker) || strings.Contains(got, "\n") {
			t.Errorf("Advise(%q) = %q; want one line without what the server quoted", test.err, got)
		}
	}
}

// That the user pressed Ctrl-C is no fault of the Redis.
func TestAdviseOnTheEndOfTheRun(t *testing.T) {
	if err := adviceEnv().Advise("PING", context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("Advise(context.Canceled) = %v, want it back", err)
	}
	if err := adviceEnv().Advise("PING", nil); err != nil {
		t.Errorf("Advise(nil) = %v, want nil", err)
	}
}
