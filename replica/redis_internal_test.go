package replica

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
)

func TestParseInfo(t *testing.T) {
	const a, b = "8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb", "18c4a990aeeb8371b4fb1155b71f4a04d3e1bc3e"
	for _, tt := range []struct {
		name, text string
		want       Status
	}{
		{"primary", "# Replication\r\nrole:master\r\nconnected_slaves:1\r\nmaster_replid:" + a + "\r\nmaster_replid2:" + b + "\r\nmaster_repl_offset:1779\r\nsecond_repl_offset:116\r\n",
			Status{Role: RolePrimary, Epoch: a, Previous: b, Offset: 1779}},
		{"primary that was never promoted", "role:master\nmaster_replid:" + a + "\nmaster_replid2:" + strings.Repeat("0", 40) + "\nmaster_repl_offset:0\n",
			Status{Role: RolePrimary, Epoch: a}},
		{"replica", "role:slave\r\nmaster_link_status:up\r\nslave_repl_offset:90\r\nmaster_replid:" + a + "\r\nmaster_repl_offset:100\r\n",
			Status{Role: RoleReplica, Epoch: a, Offset: 90}},
		{"replica without its primary", "role:slave\r\nmaster_link_status:down\r\nslave_repl_offset:90\r\nmaster_link_down_since_seconds:7\r\n",
			Status{Role: RoleReplica, Offset: 90, LinkDown: 7 * time.Second}},
		{"replica whose link just broke", "role:slave\r\nmaster_link_status:down\r\nmaster_link_down_since_seconds:0\r\n",
			Status{Role: RoleReplica, LinkDown: 1}},
		{"replica that never synced", "role:slave\r\nmaster_link_status:down\r\nmaster_link_down_since_seconds:-1\r\n",
			Status{Role: RoleReplica, LinkDown: -1}},
		{"replica that does not say", "role:slave\r\n", Status{Role: RoleReplica, LinkDown: -1}},
		{"offset beyond 2^53", "role:master\r\nmaster_repl_offset:9007199254740993\r\n", Status{Role: RolePrimary, Offset: 9007199254740993}},
		{"sentinel", "role:sentinel\r\n", Status{}},
		{"nothing", "", Status{}},
	} {
		if got := parseInfo(tt.text); got != tt.want {
			t.Errorf("parseInfo (%s) = %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add("role:slave\r\nmaster_link_status:down\r\nmaster_link_down_since_seconds:-1\r\nmaster_repl_offset:1e9\r\n")
	f.Add("role:master\nmaster_replid:0\nmaster_repl_offset:18446744073709551615")
	f.Add("role:slave\r\nmaster_link_down_since_seconds:9223372036854775807")
	f.Fuzz(func(t *testing.T, text string) {
		s := parseInfo(text)
		up := strings.Contains(text, "master_link_status:up")
		if s.Role == RoleReplica && !up && s.LinkDown == 0 {
			t.Errorf("parseInfo(%q) = %+v, a link that nobody said is up", text, s)
		}
	})
}

type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestRedisClassify(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connect: connection refused")}
	slowDial := &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	read := &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	for _, tt := range []struct {
		err  error
		want Class
	}{
		{redis.Nil, ClassApp},
		{redis.TxFailedErr, ClassApp},
		{errors.New("no such customer"), ClassApp},
		{fmt.Errorf("load: %w", redis.Nil), ClassApp},
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value"), ClassApp},
		{reply("ERR syntax error"), ClassApp},
		{reply("NOPERM this user has no permissions to run the 'get' command"), ClassApp},
		{reply("EXECABORT Transaction discarded because of previous errors."), classAborted},
		{reply("EXECABORT Transaction discarded because of: READONLY You can't write against a read only replica."), ClassMisrouted},
		{reply("EXECABORT Transaction discarded because of: OOM command not allowed"), ClassOverload},
		{reply("EXECABORT Transaction discarded because of: NOPERM this user"), ClassApp},
		{fmt.Errorf("%w: half done: %w", transparency.ErrUncertain, reply("READONLY You can't write")), ClassUnknown},
		{fmt.Errorf("%w: half done: %w", transparency.ErrUncertain, dial), ClassUnknown},
		{context.Canceled, ClassUnknown},
		{context.DeadlineExceeded, ClassUnknown},
		{reply("READONLY You can't write against a read only replica."), ClassMisrouted},
		{fmt.Errorf("save: %w", reply("READONLY You can't write against a read only replica.")), ClassMisrouted},
		{reply("ERR Error running script (call to f_1): @user_script:1: -READONLY You can't write"), ClassMisrouted},
		{reply("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"), ClassMisrouted},
		{reply("LOADING Redis is loading the dataset in memory"), ClassNotReady},
		{reply("MASTERDOWN Link with MASTER is down"), ClassNotReady},
		{reply("CLUSTERDOWN The cluster is down"), ClassNotReady},
		{reply("BUSY Redis is busy running a script"), ClassNotReady},
		{reply("NOREPLICAS Not enough good replicas to write."), ClassOverload},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), ClassOverload},
		{reply("ERR max number of clients reached"), ClassOverload},
		{redis.ErrPoolTimeout, ClassOverload},
		{redis.ErrPoolExhausted, ClassOverload},
		{reply("NOAUTH Authentication required."), ClassDenied},
		{reply("WRONGPASS invalid username-password pair"), ClassDenied},
		{dial, ClassDown},
		{slowDial, ClassDown},
		{redis.ErrClosed, ClassDown},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, ClassDown},
		{read, ClassUnknown},
		{io.EOF, ClassUnknown},
		{io.ErrUnexpectedEOF, ClassUnknown},
		{net.ErrClosed, ClassUnknown},
		{fmt.Errorf("%w: no reply", transparency.ErrUncertain), ClassUnknown},
		{fmt.Errorf("%w: not sent", transparency.ErrUnavailable), ClassDown},
		{fmt.Errorf("%w: bad", transparency.ErrInvalid), ClassApp},
	} {
		for _, role := range []Role{RolePrimary, RoleReplica} {
			if got := NewRedisBackend(nil).Classify(tt.err, role); got != tt.want {
				t.Errorf("Classify(%v, %v) = %v, want %v", tt.err, role, got, tt.want)
			}
		}
	}

	resends := NewRedisBackend(nil)
	resends.resends.Store(true)
	for _, err := range []error{dial, redis.ErrPoolTimeout} {
		if got := resends.Classify(err, RolePrimary); got != ClassUnknown {
			t.Errorf("Classify(%v) of a client that resends = %v, want %v", err, got, ClassUnknown)
		}
	}
	if got := resends.Classify(dial, RoleReplica); got != ClassDown {
		t.Errorf("Classify(%v) of a client that resends, at a replica = %v, want %v", dial, got, ClassDown)
	}
}

func TestRedisRedact(t *testing.T) {
	err := reply("NOPERM User hunter2 has no permissions to access the 'hunter2' key")
	got := NewRedisBackend(nil).Redact(err)
	if strings.Contains(got.Error(), "hunter2") || strings.HasPrefix(got.Error(), "denied") {
		t.Errorf("Redact = %q", got)
	}
	if got := NewRedisBackend(nil).Redact(nil); got != nil {
		t.Errorf("Redact(nil) = %v", got)
	}
}
