// Before: calling two services without location transparency. Their addresses
// are in the code of the client, as they were when somebody wrote it: IP, port
// and all. Both services run, but each was started again since, and is
// elsewhere. The calls fail.
//
//	go run ./examples/location/before
//
// Why not just correct the addresses? Because the next restart, the next machine
// and the second instance make them wrong again, in every client that has them,
// and each correction is a new release. What a client means is the service, so
// that is what its code should say: see ../after. (The addresses here are of
// this machine, at ports where nobody listens, so that the calls fail at once
// everywhere; one of a private network, 10.0.0.5, would make you wait first.)
package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-transparency/transparency/examples/internal/lab"
)

func main() { lab.Main(run) }

const (
	userService    = "http://127.0.0.1:1"
	productService = "http://127.0.0.1:2"
)

// get is what a client does that knows the address.
func get(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func run(ctx context.Context, env *lab.Env) error {
	// Where the services are today.
	for _, name := range []string{"user-service", "product-service"} {
		service, err := lab.StartServer(ctx, lab.Says(name))
		if err != nil {
			return err
		}
		defer service.Close()
		if err := get(ctx, service.URL); err != nil {
			return err
		}
		fmt.Fprintf(env.Out, "%s runs, and answers who knows where.\n", name)
	}

	for _, call := range []struct{ name, url string }{
		{"user-service", userService + "/users/42"},
		{"product-service", productService + "/likes/42"},
	} {
		if err := get(ctx, call.url); err == nil {
			return fmt.Errorf("%s: somebody answers at %s: check what runs there", call.name, call.url)
		} else if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Fprintf(env.Out, "%s: nobody answers at %s\n", call.name, call.url)
	}
	fmt.Fprintln(env.Out, "Two services run, two calls fail: the client knows where they were.")
	return nil
}
