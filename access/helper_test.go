package access_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
)

// tempFile writes a file in a new directory, for examples, which have no
// testing.TB. done removes both.
func tempFile(name, data string) (path string, done func()) {
	dir, err := os.MkdirTemp("", "access")
	if err != nil {
		panic(err)
	}
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		panic(err)
	}
	return path, func() { _ = os.RemoveAll(dir) }
}

// configServer serves the same document at /config/database as the file of the
// examples has.
func configServer() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /config/database", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"host": "localhost", "port": 5432}`)
	})
	return httptest.NewServer(mux)
}

// keepEnvironment returns what puts back the variables of FromEnv.
func keepEnvironment() (restore func()) {
	var undo []func()
	for _, name := range []string{"CONFIG_BACKEND", "CONFIG_URL"} {
		if value, ok := os.LookupEnv(name); ok {
			undo = append(undo, func() { _ = os.Setenv(name, value) })
		} else {
			undo = append(undo, func() { _ = os.Unsetenv(name) })
		}
	}
	return func() {
		for _, f := range undo {
			f()
		}
	}
}
