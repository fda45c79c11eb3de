package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-transparency/transparency/access"
	"github.com/go-transparency/transparency/examples/internal/lab"
)

type database struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

var sampleDatabase = database{Host: "localhost", Port: 5432}

var accessRow = row{
	name: "access",
	done: "the configuration moved from a file to an HTTP server",

	without: func(ctx context.Context, _ *lab.Env) (string, error) {
		client := func(path string) (db database, err error) { // it knows about files
			text, err := os.ReadFile(path) //nolint:gosec // the sample
			if err != nil {
				return db, err
			}
			var members map[string]database
			err = json.Unmarshal(text, &members)
			return members["database"], err
		}
		sample, err := lab.StartSample(ctx)
		if err != nil {
			return "", err
		}
		defer sample.Close()
		if db, err := client(sample.File); err != nil || db != sampleDatabase {
			return "", errors.Join(fmt.Errorf("before the move it read %v", db), err)
		}
		if err := os.Remove(sample.File); err != nil {
			return "", err
		}
		if db, err := client(sample.File); !errors.Is(err, fs.ErrNotExist) {
			return "", errors.Join(fmt.Errorf("after the move it still read %v", db), err)
		}
		return "an error: no such file; its code has to be changed", nil
	},

	with: func(ctx context.Context, _ *lab.Env) (string, error) {
		client := func(repo access.ConfigRepository) (database, error) { // it knows the key
			db, _, err := access.Load[database](ctx, repo, "database")
			return db, err
		}
		sample, err := lab.StartSample(ctx)
		if err != nil {
			return "", err
		}
		defer sample.Close()
		if db, err := client(access.NewFile(sample.File, nil)); err != nil || db != sampleDatabase {
			return "", errors.Join(fmt.Errorf("before the move it read %v", db), err)
		}
		if err := os.Remove(sample.File); err != nil {
			return "", err
		}
		db, err := client(access.NewHTTP(sample.URL, nil))
		if err != nil || db != sampleDatabase {
			return "", errors.Join(fmt.Errorf("after the move it read %v", db), err)
		}
		return fmt.Sprintf("%s:%d before and after, by the same code", db.Host, db.Port), nil
	},
}
