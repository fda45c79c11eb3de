package lab

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
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
	server *http.Server
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
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("cannot start an HTTP server on 127.0.0.1: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /config/"+SampleKey, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, SampleDocument)
	})
	s.URL = "http://" + l.Addr().String() + "/config"
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 3 * time.Second}
	go func() { _ = s.server.Serve(l) }() // until Close
	return s, nil
}

// Close stops the server and removes the file.
func (s *Sample) Close() {
	if s.server != nil {
		_ = s.server.Close()
	}
	_ = os.RemoveAll(s.dir)
}
