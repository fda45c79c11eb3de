package main

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-transparency/transparency/examples/internal/labtest"
)

func TestBadSettings(t *testing.T) {
	tests := []struct {
		name    string
		program labtest.Program
		want    []string
	}{
		{"port", labtest.Program{Env: map[string]string{"REDIS_PORT": marker}}, []string{"REDIS_PORT", "check that it is a number"}},
		{"port 0", labtest.Program{Env: map[string]string{"REDIS_PORT": "0"}}, []string{"REDIS_PORT"}},
		{"port too high", labtest.Program{Env: map[string]string{"REDIS_PORT": "65536"}}, []string{"REDIS_PORT"}},
		{"URL", labtest.Program{Env: map[string]string{"REDIS_URL": marker}}, []string{"REDIS_URL", "check that it reads redis://"}},
		{"URL escape", labtest.Program{Env: map[string]string{"REDIS_URL": "redis://:" + marker + "%zz@h"}}, []string{"REDIS_URL", "check"}},
		{"URL port", labtest.Program{Env: map[string]string{"REDIS_URL": "redis://:" + marker + "@h:99999"}}, []string{"REDIS_URL", "check"}},
		{"URL scheme", labtest.Program{Env: map[string]string{"REDIS_URL": "http://u:" + marker + "@h"}}, []string{"REDIS_URL", "check"}},
		{"URL option", labtest.Program{Env: map[string]string{"REDIS_URL": "redis://u:" + marker + "@h?no_such=" + marker}}, []string{"REDIS_URL", "check"}},
		{"URL in host", labtest.Program{Env: map[string]string{"REDIS_HOST": "redis://u:" + marker + "@h"}}, []string{"REDIS_HOST", "check"}},
		{"TLS", labtest.Program{Env: map[string]string{"REDIS_TLS": marker}}, []string{"REDIS_TLS", "check that it is true or false"}},
		{"dotenv, name", labtest.Program{Dotenv: "# mine\nREDIS_HOST=localhost\n" + marker + "\nREDIS_PORT=1\n"}, []string{".env, line 3", "check"}},
		{"dotenv, last line", labtest.Program{Dotenv: "A=1\n\n" + marker}, []string{".env, line 3", "check"}},
		{"dotenv, quote", labtest.Program{Dotenv: "A='two\nlines'\nREDIS_PASSWORD='" + marker + "\nB=2\n"}, []string{".env, line 3", "quotes closed"}},
		{"dotenv, UTF-16", labtest.Program{Dotenv: "\xff\xfeA\x00=\x00" + marker}, []string{".env, line 1", "check"}},
		{"dotenv, long", labtest.Program{Dotenv: "A=" + strings.Repeat(marker, 10000)}, []string{".env", "longer", "check"}},
		{"dotenv, setting", labtest.Program{Dotenv: "REDIS_PORT=" + marker}, []string{"REDIS_PORT", "check"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.program.Run(t).WantFailure(t, test.want, marker)
		})
	}
}

func TestDotenvIsADirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/.env", 0o700); err != nil {
		t.Fatal(err)
	}
	labtest.Program{Dir: dir}.Run(t).WantFailure(t, []string{".env", "check that it is a file"})
}

// What editors on other systems write is fine.
func TestDotenvForms(t *testing.T) {
	for _, text := range []string{"\ufeffREDIS_HOST=\r\nREDIS_PORT=''\r\n", "export REDIS_HOST=\n# REDIS_PORT=1\n", "OTHER=1", "\n"} {
		r := labtest.Program{Dotenv: text}.Run(t)
		if r.Status != 0 || !strings.HasPrefix(r.Stdout, "Redis: none is configured") {
			t.Errorf("with .env %q: status %d, stdout %q, stderr %q; want the embedded Redis", text, r.Status, r.Stdout, r.Stderr)
		}
	}
}

func TestNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil { // nothing listens there any more
		t.Fatal(err)
	}
	tests := []struct {
		name string
		env  map[string]string
		want []string
	}{
		{"refused", map[string]string{"REDIS_HOST": "127.0.0.1", "REDIS_PORT": port, "REDIS_PASSWORD": marker}, []string{"cannot PING", "nothing listens at 127.0.0.1:" + port, "check REDIS_HOST and REDIS_PORT"}},
		{"refused, URL", map[string]string{"REDIS_URL": "redis://u:" + marker + "@127.0.0.1:" + port}, []string{"nothing listens at 127.0.0.1:" + port, "check"}},
		{"no such name", map[string]string{"REDIS_HOST": "no-such-host.invalid", "REDIS_PASSWORD": marker}, []string{"cannot PING", "no-such-host.invalid", "check REDIS_HOST"}},
		// Reserved for documentation: packets to it are lost, or refused on the way.
		{"unreachable", map[string]string{"REDIS_HOST": "192.0.2.1", "REDIS_PASSWORD": marker}, []string{"cannot PING", "192.0.2.1:6379", "check REDIS_HOST and REDIS_PORT"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			labtest.Program{Env: test.env}.Run(t).WantFailure(t, test.want, marker)
			if took := time.Since(start); took > 6*time.Second {
				t.Errorf("it took %v, want under 5 s", took)
			}
		})
	}
}

// A host that takes connections and says nothing, as one behind a firewall does.
func TestSilentHost(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for name, env := range map[string]map[string]string{
		"plain": {"REDIS_URL": "redis://:" + marker + "@" + l.Addr().String()},
		"TLS":   {"REDIS_URL": "rediss://:" + marker + "@" + l.Addr().String()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			labtest.Program{Env: env}.Run(t).WantFailure(t,
				[]string{"cannot PING", "no answer from " + l.Addr().String(), "check ", "REDIS_HOST"}, marker)
		})
	}
}
