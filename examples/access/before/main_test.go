package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-transparency/transparency/examples/internal/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

func Example() {
	labtest.Example(run)
	// Output:
	// local: localhost:5432
	// http:  localhost:5432
	// s3:    s3 is not implemented
	// Three ways, three calls: the document cannot move without its callers.
}

func TestBadInput(t *testing.T) {
	notJSON := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(notJSON, []byte("host = localhost"), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, place := range map[string]string{"local": notJSON, "ftp": "x", "http": "http://127.0.0.1:1"} {
		if db, err := readDatabase(t.Context(), kind, place); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("readDatabase(%q) = %v, %v; want an error of one line", kind, db, err)
		}
	}
}
