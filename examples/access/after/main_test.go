package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-transparency/transparency/examples/internal/labtest"
	"github.com/go-transparency/transparency/internal/redistest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

func Example() {
	labtest.Example(run)
	// Output:
	// Redis: none is configured (REDIS_URL, REDIS_HOST), so one runs inside this process and ends with it.
	// local: localhost:5432
	// http: localhost:5432
	// redis: localhost:5432
	// Three places, one client: the document can move and nobody notices.
}

func TestLeavesNoKey(t *testing.T) {
	server := redistest.StartServer(t)
	r := labtest.Program{Env: map[string]string{"REDIS_URL": "redis://" + server.Addr()}}.Run(t)
	if r.Status != 0 || r.Stderr != "" {
		t.Errorf("status %d, stderr %q", r.Status, r.Stderr)
	}
	if n, err := server.Client(t).DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("DBSIZE = %d, %v; want no key left", n, err)
	}
}

func TestFromEnvironment(t *testing.T) {
	file := write(t, "config.json", `{"database": {"host": "localhost", "port": 5432}}`)
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(
		write(t, "database", `{"host": "localhost", "port": 5432}`)))))
	defer server.Close()
	for name, env := range map[string]map[string]string{
		"local": {"CONFIG_BACKEND": "local", "CONFIG_URL": file},
		"file":  {"CONFIG_BACKEND": " File ", "CONFIG_URL": file},
		"http":  {"CONFIG_BACKEND": "http", "CONFIG_URL": server.URL},
		"URL":   {"CONFIG_URL": server.URL},
	} {
		t.Run(name, func(t *testing.T) {
			r := labtest.Program{Env: env}.Run(t)
			if r.Status != 0 || r.Stderr != "" || r.Stdout != "configured: localhost:5432\n" {
				t.Errorf("status %d, stdout %q, stderr %q; want the sample", r.Status, r.Stdout, r.Stderr)
			}
		})
	}
	t.Run("local, by default config.json", func(t *testing.T) {
		r := labtest.Program{Env: map[string]string{"CONFIG_BACKEND": "local"}, Dir: filepath.Dir(file)}.Run(t)
		if r.Status != 0 || r.Stdout != "configured: localhost:5432\n" {
			t.Errorf("status %d, stdout %q, stderr %q; want the sample", r.Status, r.Stdout, r.Stderr)
		}
	})
}

func TestBadInput(t *testing.T) {
	const marker = "s3cr3t-mArk"
	local := func(document string) map[string]string {
		return map[string]string{"CONFIG_BACKEND": "local", "CONFIG_URL": write(t, "config.json", document)}
	}
	down := httptest.NewServer(nil)
	down.Close()
	tests := []struct {
		name string
		env  map[string]string
		want []string
	}{
		{"unknown backend", map[string]string{"CONFIG_BACKEND": "ftp", "CONFIG_URL": "ftp://u:" + marker + "@h"}, []string{"CONFIG_BACKEND", `"ftp"`, "local", "http", "check"}},
		{"s3 is not linked in", map[string]string{"CONFIG_BACKEND": "s3"}, []string{"CONFIG_BACKEND", `"s3"`, "check"}},
		{"URL does not fit", map[string]string{"CONFIG_BACKEND": "local", "CONFIG_URL": "https://u:" + marker + "@h"}, []string{"CONFIG_BACKEND", "CONFIG_URL", "check"}},
		{"URL does not parse", map[string]string{"CONFIG_URL": "http://u:" + marker + "%zz@h"}, []string{"CONFIG_URL", "check"}},
		{"not JSON", local("password = " + marker), []string{"invalid", "check the document"}},
		{"cut off", local(`{"database": {"host": "` + marker), []string{"invalid", "check the document"}},
		{"wrong type", local(`{"database": {"host": "` + marker + `", "port": "` + marker + `"}}`), []string{"invalid", "port", "check the document"}},
		{"empty", local(""), []string{"invalid", "check the document"}},
		{"no such key", local(`{"other": {}}`), []string{"not found", "check CONFIG_URL"}},
		{"no such file", map[string]string{"CONFIG_BACKEND": "local"}, []string{"not found", "check CONFIG_URL"}},
		{"server down", map[string]string{"CONFIG_BACKEND": "http", "CONFIG_URL": down.URL + "/" + marker + "?token=" + marker}, []string{"unavailable", "check CONFIG_URL, and that the server runs"}},
		{"Redis down", map[string]string{"CONFIG_BACKEND": "redis", "CONFIG_URL": "redis://u:" + marker + "@127.0.0.1:1"}, []string{"unavailable", "check CONFIG_URL, and that the server runs"}},
		{"bad setting", map[string]string{"REDIS_PORT": marker}, []string{"REDIS_PORT", "check"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			labtest.Program{Env: test.env}.Run(t).WantFailure(t, test.want, marker)
		})
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
