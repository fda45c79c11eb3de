// After: the two services of ../before, found by name through a location.Locator.
// The client asks for the URL of a service each time it calls it. Where that
// comes from is decided where the program is put together: see client.go for
// what does not change.
//
//	go run ./examples/location/after
//
// runs the client with names from the environment, and then with a registry in
// Redis, where an instance of product-service, which is a process of its own,
// comes and goes. With USER_SERVICE_URL or PRODUCT_SERVICE_URL set, the client
// runs once, with what the environment says; the defaults are
// http://localhost:8080 and http://localhost:9090.
//
// What makes resolution dynamic? That instances say themselves that they are
// there, and say so again and again: each holds a lease, which ends with it even
// if it dies without a word. And that clients ask at each call, or watch the
// name, and so hear of it.
//
// Which registries besides Consul are used in production? etcd and ZooKeeper;
// also Eureka, and the DNS of Kubernetes.
//
// What stays visible, on purpose: a name can be wrong, a service can have no
// instance, and an instance can fail to answer. Those are three errors, and what
// to do about each is for the client to say.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/location"
)

func main() { lab.Main(run) }

var defaults = map[string]string{
	"user-service":    "http://localhost:8080",
	"product-service": "http://localhost:9090",
}

func run(ctx context.Context, env *lab.Env) error {
	instance := len(env.Args) == 1 && env.Args[0] == "serve" // started by dynamic
	if len(env.Args) > 0 && !instance {
		return errors.New("unknown arguments: check that there are none")
	}
	if !instance && (os.Getenv("USER_SERVICE_URL") != "" || os.Getenv("PRODUCT_SERVICE_URL") != "") {
		return show(ctx, env, location.NewEnv(&location.EnvOptions{Defaults: defaults}))
	}
	client, err := env.Redis(ctx)
	if err != nil {
		return err
	}
	registry := location.NewRedis(client, &location.Options{Prefix: env.Prefix() + "location:"})
	defer registry.Close() //nolint:errcheck // it is always nil
	if instance {
		return serve(ctx, registry)
	}
	users, err := lab.StartServer(ctx, lab.Says("Ada"))
	if err != nil {
		return err
	}
	defer users.Close()
	if err := static(ctx, env, users); err != nil {
		return err
	}
	return dynamic(ctx, env, registry, users)
}

// static runs the client with names that the environment gives.
func static(ctx context.Context, env *lab.Env, users *lab.Server) error {
	products, err := lab.StartServer(ctx, lab.Says(likes))
	if err != nil {
		return err
	}
	defer products.Close()
	variables := map[string]string{"USER_SERVICE_URL": users.URL, "PRODUCT_SERVICE_URL": products.URL}
	locator := location.NewEnv(&location.EnvOptions{
		Defaults: defaults,
		Lookup:   func(name string) (string, bool) { url, ok := variables[name]; return url, ok },
	})

	fmt.Fprintln(env.Out, "The environment says where the services are.")
	if err := show(ctx, env, locator); err != nil {
		return err
	}
	products.Close()
	fmt.Fprintln(env.Out, "product-service has stopped.")
	if err := show(ctx, env, locator); err != nil {
		return err
	}
	if _, err = get(ctx, locator, "order-service", "orders/42"); !errors.Is(err, location.ErrUnknownService) {
		return errors.Join(errors.New("order-service is not unknown"), err)
	}
	fmt.Fprintln(env.Out, "A name that nobody gave:", err)
	return nil
}

func show(ctx context.Context, env *lab.Env, l location.Locator) error {
	text, err := page(ctx, l)
	if err != nil {
		return advise(err)
	}
	fmt.Fprintln(env.Out, " ", text)
	return nil
}
