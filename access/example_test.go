package access_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
)

type Database struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// connect is a client: it knows what it wants, and not where that is.
func connect(ctx context.Context, repo access.ConfigRepository) error {
	db, _, err := access.Load[Database](ctx, repo, "database")
	if err != nil {
		return err
	}
	fmt.Printf("connecting to %s:%d\n", db.Host, db.Port)
	return nil
}

// The client does not change when the configuration moves from a file to a
// server: the environment names another backend.
func Example() {
	path, done := tempFile("config.json", `{"database": {"host": "localhost", "port": 5432}}`)
	defer done()
	server := configServer()
	defer server.Close()
	defer keepEnvironment()()

	for _, env := range [][2]string{{"local", path}, {"http", server.URL + "/config"}} {
		os.Setenv("CONFIG_BACKEND", env[0])
		os.Setenv("CONFIG_URL", env[1])
		repo, err := access.FromEnv(nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer repo.Close()
		fmt.Print(env[0], ": ")
		if err := connect(context.Background(), repo); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// local: connecting to localhost:5432
	// http: connecting to localhost:5432
}

func ExampleFromEnv() {
	defer keepEnvironment()()
	os.Setenv("CONFIG_BACKEND", "consul")
	_, err := access.FromEnv(nil)
	fmt.Println(err)

	os.Setenv("CONFIG_BACKEND", "file")
	os.Setenv("CONFIG_URL", "https://user:s3cret@example.com")
	_, err = access.FromEnv(nil)
	fmt.Println(err)
	// Output:
	// access: from environment: invalid: CONFIG_BACKEND is "consul", which is unknown: it must be one of dir, file, http, local, memory, redis
	// access: from environment: invalid: CONFIG_URL does not fit CONFIG_BACKEND=file: it must begin with file:
}

func ExampleLoad() {
	ctx := context.Background()
	repo := access.NewMemory(nil)
	if _, err := repo.Put(ctx, "database", []byte(`{"host": "localhost", "port": 5432}`), nil); err != nil {
		fmt.Println(err)
	}
	db, doc, err := access.Load[Database](ctx, repo, "database")
	fmt.Println(db.Host, db.Port, doc.Stale, err)
	// Output: localhost 5432 false <nil>
}

// A document that does not fit is an error which says where, and does not
// quote it: there may be a password in it.
func ExampleLoad_strict() {
	ctx := context.Background()
	repo := access.NewMemory(nil)
	if _, err := repo.Put(ctx, "database", []byte(`{"host": "localhost", "port": "5432"}`), nil); err != nil {
		fmt.Println(err)
	}
	db, _, err := access.Load[Database](ctx, repo, "database")
	fmt.Println(err)
	fmt.Println("half filled:", db != Database{})
	// Output:
	// access: decode "database": invalid: JSON: a value does not fit field port of type int
	// half filled: false
}

// Absent is an answer; a backend that cannot be reached is a failure.
func ExampleErrNotFound() {
	ctx := context.Background()
	empty := access.NewMemory(nil)
	down := access.NewHTTP("http://127.0.0.1:1/config", nil)
	for _, repo := range []access.ConfigRepository{empty, down} {
		switch _, err := repo.Get(ctx, "database"); {
		case errors.Is(err, access.ErrNotFound):
			fmt.Println("there is none")
		case transparency.Retryable(err):
			fmt.Println("nobody knows, try later")
		}
	}
	// Output:
	// there is none
	// nobody knows, try later
}

func ExampleDecode() {
	ctx := context.Background()
	repo := access.NewMemory(nil)
	if _, err := repo.Put(ctx, "database", []byte(`{"host": "localhost", "prot": 5432}`), nil); err != nil {
		fmt.Println(err)
	}
	doc, err := repo.Get(ctx, "database")
	if err != nil {
		fmt.Println(err)
	}
	_, err = access.Decode[Database](doc, &access.DecodeOptions{DisallowUnknownFields: true})
	fmt.Println(errors.Is(err, transparency.ErrInvalid))
	// Output: true
}

// Of two writers that read the same version, one wins and the other is told.
func ExamplePut() {
	ctx := context.Background()
	repo := access.NewMemory(nil)
	first, err := access.Put(ctx, repo, "limit", []byte(`100`), &access.PutOptions{IfAbsent: true})
	fmt.Println(err)

	_, err = access.Put(ctx, repo, "limit", []byte(`200`), &access.PutOptions{IfVersion: first})
	fmt.Println(err)
	_, err = access.Put(ctx, repo, "limit", []byte(`300`), &access.PutOptions{IfVersion: first})
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// access: put "limit": conflict
}
