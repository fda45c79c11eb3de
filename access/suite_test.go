package access_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/go-transparency/transparency/access"
	"github.com/go-transparency/transparency/access/accesstest"
	"github.com/go-transparency/transparency/internal/redistest"
)

// The suite on every backend is AC-23.

func TestMemory(t *testing.T) {
	accesstest.Run(t, accesstest.Harness{Writes: true, New: func(tb testing.TB, opts *access.Options) accesstest.Fixture {
		driver := access.NewMemoryDriver()
		return accesstest.Fixture{
			Repo: access.New(driver, opts),
			Set: func(tb testing.TB, key string, data []byte) {
				if err := driver.Store(context.Background(), key, data, access.PutOptions{}); err != nil {
					tb.Errorf("Store(%q) error = %v", key, err)
				}
			},
		}
	}})
}

func TestFile(t *testing.T) {
	accesstest.Run(t, accesstest.Harness{Members: true, New: func(tb testing.TB, opts *access.Options) accesstest.Fixture {
		path := filepath.Join(tb.TempDir(), "config.json")
		docs := make(map[string]json.RawMessage)
		var mu sync.Mutex
		set := func(tb testing.TB, key string, data []byte) {
			mu.Lock()
			defer mu.Unlock()
			docs[key] = data
			replaceFile(tb, path, members(docs))
		}
		replaceFile(tb, path, []byte("{}"))
		return accesstest.Fixture{Repo: access.NewFile(path, opts), Set: set}
	}})
}

// members writes an object by hand, because json.Marshal compacts its members.
func members(docs map[string]json.RawMessage) []byte {
	text := []byte("{")
	for key, data := range docs {
		if len(text) > 1 {
			text = append(text, ",\n"...)
		}
		name, _ := json.Marshal(key)
		text = append(append(append(text, name...), " : "...), data...)
	}
	return append(text, " }\n"...)
}

func TestDir(t *testing.T) {
	accesstest.Run(t, accesstest.Harness{New: func(tb testing.TB, opts *access.Options) accesstest.Fixture {
		dir := tb.TempDir()
		set := func(tb testing.TB, key string, data []byte) {
			replaceFile(tb, filepath.Join(dir, filepath.FromSlash(key)), data)
		}
		return accesstest.Fixture{Repo: access.NewDir(dir, opts), Set: set}
	}})
}

// replaceFile replaces a file in one step, as page access asks of its writers.
func replaceFile(tb testing.TB, path string, data []byte) {
	tb.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	var temp *os.File
	if err == nil {
		temp, err = os.CreateTemp(filepath.Dir(path), "")
	}
	if err == nil {
		_, err = temp.Write(data)
	}
	if err == nil {
		err = temp.Close()
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		tb.Errorf("replace %s: %v", path, err)
	}
}

func TestHTTP(t *testing.T) {
	accesstest.Run(t, accesstest.Harness{New: func(tb testing.TB, opts *access.Options) accesstest.Fixture {
		var docs sync.Map
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			data, ok := docs.Load(r.URL.Path)
			if !ok {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write(data.([]byte))
		}))
		tb.Cleanup(server.Close)
		o := &access.HTTPOptions{Transport: server.Client().Transport}
		if opts != nil {
			o.MaxBytes, o.Timeout = opts.MaxBytes, opts.Timeout
		}
		return accesstest.Fixture{
			Repo: access.NewHTTP(server.URL+"/config/", o),
			Set:  func(_ testing.TB, key string, data []byte) { docs.Store("/config/"+key, data) },
		}
	}})
}

func TestRedis(t *testing.T) {
	server := redistest.Start(t)
	testRedis(t, server)
}

func TestRedisMini(t *testing.T) {
	testRedis(t, redistest.StartMini(t))
}

func testRedis(t *testing.T, server *redistest.Server) {
	client := server.Client(t)
	var n int
	accesstest.Run(t, accesstest.Harness{Writes: true, New: func(tb testing.TB, opts *access.Options) accesstest.Fixture {
		n++
		o := &access.RedisOptions{Prefix: server.Prefix() + strconv.Itoa(n) + ":"}
		if opts != nil {
			o.MaxBytes, o.Timeout = opts.MaxBytes, opts.Timeout
		}
		return accesstest.Fixture{
			Repo: access.NewRedis(client, o),
			Set: func(tb testing.TB, key string, data []byte) {
				if err := client.Set(context.Background(), o.Prefix+key, data, 0).Err(); err != nil {
					tb.Errorf("SET %q: %v", key, err)
				}
			},
		}
	}})
}
