package lab

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

// SampleKey and SampleDocument are the configuration of the access programs.
const (
	SampleKey      = "database"
	SampleDocument = `{"host": "localhost", "port": 5432}`
)

// Sample is the sample configuration in two places.
type Sample struct {
	File string // a config.json that has it as member "database"
	URL  string // it is at URL + "/database"

	dir    string
	server *Server
}

// StartSample writes the file and starts the server, on this machine's loopback
// address. Close removes both.
func StartSample(ctx context.Context) (*Sample, error) {
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		return nil, fmt.Errorf("cannot make a temporary directory: %w", err)
	}
	s := &Sample{File: filepath.Join(dir, "config.json"), dir: dir}
	if err := os.WriteFile(s.File, []byte(`{"`+SampleKey+`": `+SampleDocument+"}\n"), 0o600); err != nil {
		s.Close()
		return nil, fmt.Errorf("cannot write the sample: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /config/"+SampleKey, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, SampleDocument)
	})
	if s.server, err = StartServer(ctx, mux); err != nil {
		s.Close()
		return nil, err
	}
	s.URL = s.server.URL + "/config"
	return s, nil
}

// Close stops the server and removes the file.
func (s *Sample) Close() {
	if s.server != nil {
		s.server.Close()
	}
	_ = os.RemoveAll(s.dir)
}
