package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func lookupIn(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { value, ok := env[name]; return value, ok }
}

func TestReadSettings(t *testing.T) {
	tests := []struct {
		name   string
		env    map[string]string
		dotenv string
		addr   string // empty: the embedded Redis
		tls    bool
		user   string
		pass   string
	}{
		{name: "nothing"},
		{name: "empty ones", env: map[string]string{envURL: "", envHost: ""}, dotenv: "REDIS_PORT=\n"},
		{name: "host", env: map[string]string{envHost: "h"}, addr: "h:6379"},
		{name: "port", env: map[string]string{envPort: "1"}, addr: "localhost:1"},
		{name: "password alone", env: map[string]string{envPassword: "p"}, addr: "localhost:6379", pass: "p"},
		{name: "IPv6", env: map[string]string{envHost: "::1"}, addr: "[::1]:6379"},
		{name: "IPv6 in brackets", env: map[string]string{envHost: "[::1]"}, addr: "[::1]:6379"},
		{name: "TLS", env: map[string]string{envHost: "h", envTLS: "TRUE"}, addr: "h:6379", tls: true},
		{name: "no TLS", env: map[string]string{envHost: "h", envTLS: "off"}, addr: "h:6379"},
		{name: "URL", env: map[string]string{envURL: "rediss://u:p%40@h:7/2"}, addr: "h:7", tls: true, user: "u", pass: "p@"},
		{name: "URL without port", env: map[string]string{envURL: "redis://h"}, addr: "h:6379"},
		{name: "URL before host", env: map[string]string{envURL: "redis://u:p@h", envHost: "x", envPassword: "x"}, addr: "h:6379", user: "u", pass: "p"},
		{name: "dotenv", dotenv: "REDIS_HOST=h\nREDIS_USERNAME = u\nREDIS_PASSWORD='a$b#c'\n", addr: "h:6379", user: "u", pass: "a$b#c"},
		{name: "environment wins", env: map[string]string{envHost: "e"}, dotenv: "REDIS_HOST=h\nREDIS_PORT=2\n", addr: "e:2"},
		{name: "emptied by the environment", env: map[string]string{envHost: "", envPort: ""}, dotenv: "REDIS_HOST=h\nREDIS_PORT=2\n"},
		{name: "host wins over the URL of the file", env: map[string]string{envHost: "e"}, dotenv: "REDIS_URL=redis://u:p@h\n", addr: "e:6379"},
		{name: "password beside the URL of the file", env: map[string]string{envPassword: "e"}, dotenv: "REDIS_URL=redis://u:p@h\n", addr: "h:6379", user: "u", pass: "p"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opts, err := readSettings(lookupIn(test.env), dirWith(t, test.dotenv))
			if err != nil {
				t.Fatalf("readSettings error = %v", err)
			}
			if opts == nil {
				if test.addr != "" {
					t.Errorf("readSettings = the embedded Redis, want %s", test.addr)
				}
				return
			}
			if opts.Addr != test.addr || (opts.TLSConfig != nil) != test.tls || opts.Username != test.user || opts.Password != test.pass {
				t.Errorf("readSettings = %s as %q, TLS %t; want %+v", opts.Addr, opts.Username, opts.TLSConfig != nil, test)
			}
			if !opts.ContextTimeoutEnabled || opts.MaxRetries != -1 || opts.DialTimeout != dialTimeout {
				t.Errorf("the client would not be as this module wants it: %t, %d, %v", opts.ContextTimeoutEnabled, opts.MaxRetries, opts.DialTimeout)
			}
		})
	}
}

func dirWith(tb testing.TB, dotenv string) string {
	tb.Helper()
	dir := tb.TempDir()
	if dotenv != "" {
		if err := os.WriteFile(filepath.Join(dir, ".env"), []byte(dotenv), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// Whatever is wrong with a setting, its error does not show it.
func FuzzSettings(f *testing.F) {
	for _, around := range []string{"", "redis://:%@h", "redis://h?%", "'%", "%\n=", "A=${%}\nB"} {
		before, after, _ := strings.Cut(around, "%")
		f.Add(before, after)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		text := before + marker + after
		for _, name := range []string{envURL, envHost, envPort, envTLS} {
			_, err := readSettings(lookupIn(map[string]string{name: text}), "no-such-directory")
			wantNoMarker(t, name, err)
		}
		if _, ok := parseDotenv([]byte(text)); !ok {
			if line, lines := badLine([]byte(text)), strings.Count(text, "\n")+1; line < 1 || line > lines {
				t.Errorf("badLine(%q) = %d of %d lines", text, line, lines)
			}
		}
	})
}

func wantNoMarker(t *testing.T, name string, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), marker) {
		t.Errorf("the error of %s holds its value: %v", name, err)
	}
}

// The number of a line is found in a file as large as may be.
func TestBadLineOfALongFile(t *testing.T) {
	for text, want := range map[string]int{
		strings.Repeat("\n", maxDotenv-3) + "A='":      maxDotenv - 2,
		"A=1\nB='" + strings.Repeat("\n", maxDotenv-7): 2,
	} {
		if got := badLine([]byte(text)); got != want {
			t.Errorf("badLine = %d, want %d", got, want)
		}
	}
}
