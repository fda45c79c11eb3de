package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-transparency/transparency/examples/internal/labtest"
	"github.com/go-transparency/transparency/internal/redistest"
)

// tlsFront returns the address of a listener that speaks TLS in front of addr,
// and the file of its certificate, which is for localhost.
func tlsFront(t *testing.T, addr string) (port, certFile string) {
	t.Helper()
	cert, certFile := certificate(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { forward(conn, addr) })
		}
	})
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, certFile
}

func forward(conn net.Conn, addr string) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if conn.(*tls.Conn).Handshake() != nil {
		return
	}
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(server, conn); _ = server.Close() })
	_, _ = io.Copy(conn, server)
	_ = conn.Close()
	wg.Wait()
}

func certificate(t *testing.T) (cert tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"},
		IsCA:     true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "cert.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

func TestTLS(t *testing.T) {
	port, certFile := tlsFront(t, redistest.StartMini(t).Addr())
	tests := []struct {
		name string
		env  map[string]string
		want []string // nil: it connects
	}{
		{"trusted", map[string]string{"REDIS_HOST": "localhost", "REDIS_TLS": "true", "SSL_CERT_FILE": certFile}, nil},
		{"trusted, URL", map[string]string{"REDIS_URL": "rediss://localhost:" + port, "SSL_CERT_FILE": certFile}, nil},
		{"not trusted", map[string]string{"REDIS_HOST": "localhost", "REDIS_TLS": "1", "REDIS_PASSWORD": marker}, []string{"certificate", "is not trusted", "check that its issuer is known"}},
		{"another name", map[string]string{"REDIS_HOST": "127.0.0.1", "REDIS_TLS": "on", "REDIS_PASSWORD": marker, "SSL_CERT_FILE": certFile}, []string{"certificate", "another name", "check that REDIS_HOST"}},
		{"plain against TLS", map[string]string{"REDIS_HOST": "localhost", "REDIS_PASSWORD": marker}, []string{"gave no answer of a Redis", "check REDIS_TLS, which should be true"}},
		{"plain against TLS, URL", map[string]string{"REDIS_URL": "redis://:" + marker + "@localhost:" + port}, []string{"check REDIS_TLS, which should be true"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.env["SSL_CERT_FILE"] != "" && runtime.GOOS != "linux" {
				t.Skip("SSL_CERT_FILE is read on Linux")
			}
			if test.env["REDIS_URL"] == "" {
				test.env["REDIS_PORT"] = port
			}
			r := labtest.Program{Env: test.env}.Run(t)
			if test.want != nil {
				r.WantFailure(t, append(test.want, "cannot PING"), marker)
			} else if r.Status != 0 || !strings.HasSuffix(r.Stdout, "Connected.\n") {
				t.Errorf("status %d, stdout %q, stderr %q; want it connected", r.Status, r.Stdout, r.Stderr)
			}
		})
	}
}

// A real server takes a TLS handshake for a command that is not complete and
// waits; the embedded one ends the connection. The advice is the same.
func TestTLSAgainstPlain(t *testing.T) {
	for name, server := range map[string]func(testing.TB) *redistest.Server{
		"server": redistest.StartServer, "embedded": redistest.StartMini,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, port, _ := net.SplitHostPort(server(t).Addr())
			for setting, env := range map[string]map[string]string{
				"URL":       {"REDIS_URL": "rediss://:" + marker + "@" + net.JoinHostPort(host, port)},
				"REDIS_TLS": {"REDIS_HOST": host, "REDIS_PORT": port, "REDIS_PASSWORD": marker, "REDIS_TLS": "true"},
			} {
				t.Run(setting, func(t *testing.T) {
					t.Parallel()
					labtest.Program{Env: env}.Run(t).WantFailure(t, []string{"cannot PING", "check REDIS_TLS"}, marker)
				})
			}
		})
	}
}

// A port where something else than a Redis answers.
func TestNotARedis(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.Close()
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_ = conn.Close()
		}
	})
	labtest.Program{Env: map[string]string{"REDIS_URL": "redis://:" + marker + "@" + l.Addr().String()}}.Run(t).
		WantFailure(t, []string{"cannot PING", "check", "the port"}, marker)
}
