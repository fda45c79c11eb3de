package access_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
	"github.com/go-transparency/transparency/internal/redistest"
)

// TestFromEnv is AC-18 as far as it goes well.
func TestFromEnv(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "config.json", `{"doc":"config.json"}`)
	write(t, "other.json", `{"doc":"other.json"}`)
	write(t, "file", `{"doc":"file"}`)
	write(t, "conf/doc", `"conf"`)
	redisServer := redistest.StartMini(t)
	if err := redisServer.Client(t).Set(t.Context(), "config:doc", `"redis"`, 0).Err(); err != nil {
		t.Fatal(err)
	}
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		rec := httptest.NewRecorder()
		fmt.Fprintf(rec, "%q", r.URL)
		return rec.Result(), nil
	})
	driver := &funcDriver{fetch: func(context.Context, string, int64) ([]byte, error) { return []byte(`"s3"`), nil }}

	for _, tt := range []struct {
		backend, url, want string
		said               int
	}{
		{"", "", "config.json", 1},
		{" ", "\t", "config.json", 1},
		{"local", "", "config.json", 0},
		{"file", "", "config.json", 0},
		{" Local\n", " other.json ", "other.json", 0},
		{"FILE", "file:other.json", "other.json", 0},
		{"", "other.json", "other.json", 0},
		{"file", "file", "file", 0}, // a path, in spite of its name
		{"", "file:other.json", "other.json", 0},
		{"dir", "conf", "conf", 0},
		{"dir", "dir:conf", "conf", 0},
		{"", "dir:conf", "conf", 0},
		{"http", "", "http://localhost:8080/config/doc", 0},
		{"HTTP", "https://example.com/c", "https://example.com/c/doc", 0},
		{"http", "HTTP://example.com/c", "http://example.com/c/doc", 0},
		{"", "http://example.com", "http://example.com/doc", 0},
		{"redis", "redis://" + redisServer.Addr(), "redis", 0},
		{"s3", "s3://bucket", "s3", 0},
		{"", "s3://bucket", "s3", 0},
	} {
		var log bytes.Buffer
		t.Setenv("CONFIG_BACKEND", tt.backend)
		t.Setenv("CONFIG_URL", tt.url)
		repo, err := access.FromEnv(&access.OpenOptions{
			Transport: transport,
			Logger:    slog.New(slog.NewTextHandler(&log, nil)),
			Openers:   map[string]access.Opener{"s3": func(*url.URL) (access.Driver, error) { return driver, nil }},
		})
		if err != nil {
			t.Errorf("%q, %q: FromEnv error = %v", tt.backend, tt.url, err)
			continue
		}
		if got, _, err := access.Load[string](t.Context(), repo, "doc"); err != nil || got != tt.want {
			t.Errorf("%q, %q: Load = %q, %v, want %q", tt.backend, tt.url, got, err, tt.want)
		}
		if n := strings.Count(log.String(), "\n"); n != tt.said {
			t.Errorf("%q, %q: the log has %d lines, want %d: %s", tt.backend, tt.url, n, tt.said, log.String())
		}
		_ = repo.Close() // the s3 driver's gives an error
	}
	if _, err := access.FromEnv(nil); err == nil { // the s3 of the last turn
		t.Error("FromEnv(nil) knows s3")
	}
	t.Setenv("CONFIG_BACKEND", "")
	t.Setenv("CONFIG_URL", "")
	if repo, err := access.FromEnv(nil); err != nil {
		t.Errorf("FromEnv(nil) error = %v, want config.json, and nobody told", err)
	} else if got, err := get(repo, "doc"); err != nil || got != `"config.json"` {
		t.Errorf("FromEnv(nil): Get = %q, %v", got, err)
	}
}

func TestFromEnvMemory(t *testing.T) {
	t.Setenv("CONFIG_BACKEND", "memory")
	t.Setenv("CONFIG_URL", "")
	repo, err := access.FromEnv(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := repo.Put(t.Context(), "doc", []byte("1"), nil); err != nil {
		t.Errorf("Put error = %v", err)
	}
}

// TestFromEnvFaults is AC-18 where it does not: the variables are named, and
// what they may be, but not what CONFIG_URL is.
func TestFromEnvFaults(t *testing.T) {
	opts := &access.OpenOptions{Openers: map[string]access.Opener{"s3": func(*url.URL) (access.Driver, error) { return &funcDriver{}, nil }}}
	const known = "dir, file, http, local, memory, redis, s3"
	for _, tt := range []struct {
		backend, url string
		says         []string
	}{
		{"consul", "", []string{"CONFIG_BACKEND", `"consul"`, known}},
		{"consul", "https://u:hunter2@h", []string{"CONFIG_BACKEND", `"consul"`, known}},
		{"https://u:hunter2@h", "", []string{"CONFIG_BACKEND", known}},
		{"hunter2 hunter2", "", []string{"CONFIG_BACKEND", known}},
		{"file", "https://u:hunter2@h/hunter2", []string{"CONFIG_URL", "CONFIG_BACKEND=file", "file:"}},
		{"local", "s3://hunter2", []string{"CONFIG_URL", "CONFIG_BACKEND=local", "file:"}},
		{"dir", "", []string{"CONFIG_URL", "CONFIG_BACKEND=dir"}},
		{"dir", "file:hunter2", []string{"CONFIG_URL", "CONFIG_BACKEND=dir", "dir:"}},
		{"http", "hunter2.json", []string{"CONFIG_URL", "CONFIG_BACKEND=http", "http: or https:"}},
		{"http", "redis://:hunter2@h", []string{"CONFIG_URL", "CONFIG_BACKEND=http", "http: or https:"}},
		{"http", "http://u:hun%ter2@h", []string{"CONFIG_URL"}},
		{"redis", "http://hunter2", []string{"CONFIG_URL", "CONFIG_BACKEND=redis", "redis: or rediss:"}},
		{"redis", "hunter2:6379", []string{"CONFIG_URL", "CONFIG_BACKEND=redis", "redis: or rediss:"}},
		{"memory", "file:hunter2", []string{"CONFIG_URL", "CONFIG_BACKEND=memory", "mem:"}},
		{"s3", "", []string{"CONFIG_URL", "CONFIG_BACKEND=s3"}},
		{"s3", "https://hunter2", []string{"CONFIG_URL", "CONFIG_BACKEND=s3", "s3:"}},
		{"", "hunter2://x", []string{"CONFIG_URL", "redis"}},
	} {
		t.Setenv("CONFIG_BACKEND", tt.backend)
		t.Setenv("CONFIG_URL", tt.url)
		repo, err := access.FromEnv(opts)
		if repo != nil || !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("%q, %q: FromEnv = %v, %v, want nil, ErrInvalid", tt.backend, tt.url, repo, err)
			continue
		}
		for _, want := range tt.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q, %q: error = %q, want it to say %q", tt.backend, tt.url, err, want)
			}
		}
		if strings.Contains(err.Error(), "hun") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q, %q: error = %q, want one line without what CONFIG_URL is", tt.backend, tt.url, err)
		}
	}
}
