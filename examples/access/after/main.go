// After: the same document as in ../before, read through an access.ConfigRepository.
// The client asks for a document by its key; whether a file, an HTTP server or
// Redis answers is decided where the program is put together, not where the
// document is used (the Strategy pattern). Its code does not change.
//
//	go run ./examples/access/after
//
// runs the client against three places that it sets up itself. Which one a real
// program uses is configuration:
//
//	CONFIG_BACKEND=local CONFIG_URL=config.json go run ./examples/access/after
//	CONFIG_BACKEND=http  CONFIG_URL=http://localhost:8080/config go run ./examples/access/after
//
// These two are read from the environment alone, not from .env.
//
// What stays visible, on purpose: the call takes a context and returns an error,
// because a file server can be slow or gone where a local variable cannot. All
// backends have the same time limit, the same keys and the same few kinds of
// error, so that the client need not know the backend to know what to do.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
	"github.com/go-transparency/transparency/examples/internal/lab"
)

func main() { lab.Main(run) }

type database struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// readDatabase is the client. It names a document and no place.
func readDatabase(ctx context.Context, repo access.ConfigRepository) (database, error) {
	db, _, err := access.Load[database](ctx, repo, "database")
	switch {
	case errors.Is(err, access.ErrNotFound):
		return db, fmt.Errorf("%w: check CONFIG_URL, and that the document there has the key database", err)
	case errors.Is(err, transparency.ErrUnavailable):
		return db, fmt.Errorf("%w: check CONFIG_URL, and that the server runs", err)
	case errors.Is(err, transparency.ErrDenied):
		return db, fmt.Errorf("%w: check the user and the password in CONFIG_URL", err)
	case errors.Is(err, transparency.ErrInvalid):
		return db, fmt.Errorf("%w: check the document, and CONFIG_URL", err)
	}
	return db, err
}

func run(ctx context.Context, env *lab.Env) error {
	if os.Getenv("CONFIG_BACKEND") != "" || os.Getenv("CONFIG_URL") != "" {
		repo, err := access.FromEnv(nil)
		if err != nil {
			return fmt.Errorf("%w: check CONFIG_BACKEND and CONFIG_URL", err)
		}
		defer repo.Close() //nolint:errcheck // it was only read
		return show(ctx, env, "configured", repo)
	}

	client, err := env.Redis(ctx)
	if err != nil {
		return err
	}
	sample, err := lab.StartSample(ctx) // config.json, and an HTTP server with the same
	if err != nil {
		return err
	}
	defer sample.Close()
	if err := show(ctx, env, "local", access.NewFile(sample.File, nil)); err != nil {
		return err
	}
	if err := show(ctx, env, "http", access.NewHTTP(sample.URL, nil)); err != nil {
		return err
	}
	repo := access.NewRedis(client, &access.RedisOptions{Prefix: env.Prefix() + "config:"})
	if _, err := access.Put(ctx, repo, "database", []byte(lab.SampleDocument), nil); err != nil {
		return err
	}
	if err := show(ctx, env, "redis", repo); err != nil {
		return err
	}
	fmt.Fprintln(env.Out, "Three places, one client: the document can move and nobody notices.")
	return nil
}

func show(ctx context.Context, env *lab.Env, name string, repo access.ConfigRepository) error {
	db, err := readDatabase(ctx, repo)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "%s: %s:%d\n", name, db.Host, db.Port)
	return nil
}
