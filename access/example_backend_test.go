package access_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/go-transparency/transparency/access"
	"github.com/go-transparency/transparency/internal/redistest"
)

func ExampleNewMemory() {
	ctx := context.Background()
	repo := access.NewMemory(nil)
	version, err := repo.Put(ctx, "greeting", []byte("hello"), nil)
	if err != nil {
		fmt.Println(err)
	}
	doc, err := repo.Get(ctx, "greeting")
	fmt.Println(string(doc.Data), doc.Version == version, err)
	// Output: hello true <nil>
}

// One JSON file: the key is a member of its object.
func ExampleNewFile() {
	path, done := tempFile("config.json", `{"database": {"host": "localhost", "port": 5432}, "debug": false}`)
	defer done()

	repo := access.NewFile(path, nil)
	debug, _, err := access.Load[bool](context.Background(), repo, "debug")
	fmt.Println(debug, err)
	// Output: false <nil>
}

// A directory: the key is the path of a file.
func ExampleNewDir() {
	path, done := tempFile("motd.txt", "welcome")
	defer done()

	repo := access.NewDir(filepath.Dir(path), nil)
	doc, err := repo.Get(context.Background(), "motd.txt")
	fmt.Println(string(doc.Data), err)
	_, err = repo.Get(context.Background(), "../motd.txt")
	fmt.Println(err)
	// Output:
	// welcome <nil>
	// access: get "../motd.txt": invalid key: it has a segment ".."
}

func ExampleNewHTTP() {
	server := configServer()
	defer server.Close()

	repo := access.NewHTTP(server.URL+"/config", &access.HTTPOptions{
		Header: http.Header{"Authorization": {"Bearer token"}}, // never leaves that origin
	})
	if err := connect(context.Background(), repo); err != nil {
		fmt.Println(err)
	}
	_, err := repo.Get(context.Background(), "absent")
	var status *access.StatusError
	if errors.Is(err, access.ErrNotFound) && errors.As(err, &status) {
		fmt.Println("absent:", status.Code)
	}
	// Output:
	// connecting to localhost:5432
	// absent: 404
}

// A document is the string under config:<key>, so redis-cli can write it.
func ExampleNewRedis() {
	client, done := redistest.Example() // a redis.NewClient of your own
	defer done()
	ctx := context.Background()
	client.Set(ctx, "config:database", `{"host": "localhost", "port": 5432}`, 0)

	repo := access.NewRedis(client, nil)
	if err := connect(ctx, repo); err != nil {
		fmt.Println(err)
	}
	// Output: connecting to localhost:5432
}

func ExampleOpen() {
	client, done := redistest.Example()
	defer done()

	repo, err := access.Open("redis://"+client.Options().Addr+"/0", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer repo.Close() // closes the client that Open made
	_, err = repo.Get(context.Background(), "database")
	fmt.Println(err)

	_, err = access.Open("redis://user:s3cret@host:port", nil)
	fmt.Println(err)
	// Output:
	// access: get "database": not found
	// access: open: invalid: the URL does not parse (a password in it must be percent-encoded)
}

// A backend of one's own is one method. Keys, limits, time and errors are the
// engine's.
func ExampleNew() {
	repo := access.New(flags{"debug": "true"}, nil)
	debug, _, err := access.Load[bool](context.Background(), repo, "debug")
	fmt.Println(debug, err)
	// Output: true <nil>
}

type flags map[string]string

func (f flags) Fetch(_ context.Context, key string, _ int64) ([]byte, error) {
	if value, ok := f[key]; ok {
		return []byte(value), nil
	}
	return nil, access.ErrNotFound
}
