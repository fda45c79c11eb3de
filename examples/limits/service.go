package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-transparency/transparency/examples/internal/lab"
)

// startService starts the remote service: one user comes at once, one after
// 800 ms, one not at all, and others there are not.
func startService(ctx context.Context) (*lab.Server, error) {
	mux := http.NewServeMux()
	mux.Handle("/users/well", lab.Says(`{"Name": "Ada"}`))
	mux.HandleFunc("/users/slow", func(w http.ResponseWriter, r *http.Request) {
		if lab.Think(r.Context(), 800*time.Millisecond) == nil {
			fmt.Fprint(w, `{"Name": "Ada"}`)
		}
	})
	mux.HandleFunc("/users/sick", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	return lab.StartServer(ctx, mux)
}
