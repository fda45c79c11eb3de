// Before: reading the configuration without access transparency. The one who
// calls must know how the document is reached, and the function is an if-chain
// over every way there is.
//
//	go run ./examples/access/before
//
// What is wrong with that? The way is chosen when the call is written, so moving
// the document from a file to a server means finding and changing every caller.
// Each branch has its own failures and its own time limits (the file none at
// all). And a new way, here S3, is one more branch in a function that everybody
// depends on. ../after has the same document read by one client that never
// changes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/go-transparency/transparency/examples/internal/lab"
)

func main() { lab.Main(run) }

type database struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// readDatabase is the if-chain. What place means depends on kind.
func readDatabase(ctx context.Context, kind, place string) (database, error) {
	var db database
	if kind == "local" {
		text, err := os.ReadFile(place) //nolint:gosec // the caller's file
		if err != nil {
			return db, err
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			return db, fmt.Errorf("the file is not JSON: check its text: %w", err)
		}
		err = json.Unmarshal(members["database"], &db)
		return db, err
	}
	if kind == "http" {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, place+"/database", nil)
		if err != nil {
			return db, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return db, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return db, errors.New("the server answered " + resp.Status)
		}
		err = json.NewDecoder(resp.Body).Decode(&db)
		return db, err
	}
	if kind == "s3" {
		return db, errors.New("s3 is not implemented")
	}
	return db, fmt.Errorf("unknown kind %q: check that it is local, http or s3", kind)
}

func run(ctx context.Context, env *lab.Env) error {
	sample, err := lab.StartSample(ctx) // config.json, and an HTTP server with the same
	if err != nil {
		return err
	}
	defer sample.Close()

	// Three calls, each with what its writer happened to know.
	db, err := readDatabase(ctx, "local", sample.File)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "local: %s:%d\n", db.Host, db.Port)

	db, err = readDatabase(ctx, "http", sample.URL)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "http:  %s:%d\n", db.Host, db.Port)

	if _, err = readDatabase(ctx, "s3", "bucket/config"); err != nil {
		fmt.Fprintf(env.Out, "s3:    %v\n", err)
	}
	fmt.Fprintln(env.Out, "Three ways, three calls: the document cannot move without its callers.")
	return nil
}
