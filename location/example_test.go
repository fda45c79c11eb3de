package location_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/location"
)

// Clients hold names; where the services are is said in one place.
func ExampleNewStatic() {
	ctx := context.Background()
	locator := location.NewStatic(map[string][]location.Endpoint{
		"user-service": {{Host: "localhost", Port: 8080}},
	})
	u, err := location.URL(ctx, locator, "user-service")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(u.JoinPath("users", "1"))

	_, err = location.URL(ctx, locator, "usr-service")
	fmt.Println(err)
	// Output:
	// http://localhost:8080/users/1
	// location: resolve "usr-service": unknown service
}

// Endpoints from environment variables, with defaults for development.
func ExampleNewEnv() {
	locator := location.NewEnv(&location.EnvOptions{
		Defaults: map[string]string{"user-service": "localhost:8080", "product-service": "localhost:9090"},
		Lookup: func(name string) (string, bool) { // the environment, where it is left out
			return "10.0.0.7:80,10.0.0.8:80", name == "USER_SERVICE_URL"
		},
	})
	for _, service := range []string{"user-service", "product-service", "order-service"} {
		s, err := locator.Resolve(context.Background(), service)
		if err != nil {
			fmt.Println(err)
			continue
		}
		for e := range s.All() {
			fmt.Println(service, e)
		}
	}
	// Output:
	// user-service http://10.0.0.7:80
	// user-service http://10.0.0.8:80
	// product-service http://localhost:9090
	// location: resolve "order-service": unknown service: ORDER_SERVICE_URL is not set
}

// Instances come and go in a registry within the process.
func ExampleNewMemory() {
	ctx := context.Background()
	registry := location.NewMemory(nil)
	defer registry.Close()

	reg, err := registry.Register(ctx, "user-service", location.Endpoint{Host: "10.0.0.7", Port: 8080})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := registry.Resolve(ctx, "user-service")
	fmt.Println(s.At(0), err)

	fmt.Println(reg.Deregister(ctx))
	_, err = registry.Resolve(ctx, "user-service")
	fmt.Println("empty:", errors.Is(err, location.ErrNoInstances))
	_, err = registry.Resolve(ctx, "usr-service")
	fmt.Println("unknown:", errors.Is(err, location.ErrUnknownService))
	// Output:
	// http://10.0.0.7:8080 <nil>
	// <nil>
	// empty: true
	// unknown: true
}

// The same in Redis: a service in one process, its client in another.
func ExampleNewRedis() {
	ctx := context.Background()
	client, done := redistest.Example() // a client of your own
	defer done()

	here := location.NewRedis(client, nil)
	defer here.Close()
	elsewhere := location.NewRedis(client, nil)
	defer elsewhere.Close()

	_, err := here.Register(ctx, "user-service", location.Endpoint{Host: "10.0.0.7", Port: 8080})
	if err != nil {
		fmt.Println(err)
		return
	}
	u, err := location.URL(ctx, elsewhere, "user-service")
	fmt.Println(u, err)
	// Output: http://10.0.0.7:8080 <nil>
}

// A watch begins with the present state and goes on for as long as its
// context.
func ExampleWatch() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	registry := location.NewMemory(nil)
	defer registry.Close()

	for s, err := range location.Watch(ctx, registry, "user-service") {
		if err != nil {
			fmt.Println(err)
			_, _ = registry.Register(ctx, "user-service", location.Endpoint{Host: "10.0.0.7", Port: 8080})
			continue
		}
		for e := range s.All() {
			fmt.Println(e)
		}
		cancel()
	}
	// Output:
	// location: watch "user-service": unknown service
	// http://10.0.0.7:8080
}

// A Balancer picks the instance with the fewest calls under way. The standby
// has another priority.
func ExampleBalancer() {
	ctx := context.Background()
	balancer := location.NewBalancer(location.NewStatic(map[string][]location.Endpoint{
		"user-service": {
			{Host: "10.0.0.7", Port: 8080},
			{Host: "10.0.0.8", Port: 8080},
			{Host: "10.0.0.9", Port: 8080, Priority: 1},
		},
	}), nil)
	defer balancer.Close()

	a, err := balancer.Pick(ctx, "user-service")
	if err != nil {
		fmt.Println(err)
		return
	}
	b, _ := balancer.Pick(ctx, "user-service")
	fmt.Println("two calls at once, two instances:", a.Addr() != b.Addr())
	a.Done(nil)
	b.Done(nil)
	// Output: two calls at once, two instances: true
}

// A registration tells what becomes of it.
func ExampleRegistration_Changes() {
	ctx := context.Background()
	registry := location.NewMemory(nil)
	defer registry.Close()

	reg, err := registry.Register(ctx, "user-service", location.Endpoint{Host: "10.0.0.7", Port: 8080})
	if err != nil {
		fmt.Println(err)
		return
	}
	for c := range reg.Changes(ctx) {
		fmt.Println(c.State)
		_ = reg.Deregister(ctx)
	}
	// Output:
	// registered
	// deregistered
}

// Addrs is a source of addresses for code that knows nothing of services.
func ExampleAddrs() {
	locator := location.NewStatic(map[string][]location.Endpoint{
		"user-service": {{Host: "10.0.0.7", Port: 80}, {Host: "::1", Port: 80}},
	})
	addrs, err := location.Addrs(locator, "user-service")(context.Background())
	fmt.Println(addrs, err)
	// Output: [10.0.0.7:80 [::1]:80] <nil>
}
