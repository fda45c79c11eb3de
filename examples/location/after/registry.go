package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/location"
)

// serve is an instance of product-service, until it is told to end.
func serve(ctx context.Context, registry *location.Registry) error {
	server, err := lab.StartServer(ctx, lab.Says(likes))
	if err != nil {
		return err
	}
	defer server.Close()
	here, err := location.ParseEndpoint(server.URL)
	if err != nil {
		return err
	}
	if _, err := registry.Register(ctx, "product-service", here); err != nil {
		return advise(err)
	}
	<-ctx.Done() // closing the registry deregisters
	return ctx.Err()
}

const patience = 20 * time.Second

// dynamic runs the client with a registry in which an instance comes and goes.
func dynamic(ctx context.Context, env *lab.Env, registry *location.Registry, users *lab.Server) error {
	// A registration is tried for as long as its context lasts.
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no instance came and went within %v: check Redis", patience))
	defer cancel()
	here, err := location.ParseEndpoint(users.URL)
	if err != nil {
		return err
	}
	if _, err := registry.Register(ctx, "user-service", here); err != nil {
		return advise(err)
	}

	var process sync.WaitGroup
	defer process.Wait()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	instance, stop := context.WithCancel(ctx)
	defer stop()

	fmt.Fprintln(env.Out, "A registry in Redis says where the services are; the client is the same.")
	for products, err := range location.Watch(ctx, registry, "product-service") {
		switch {
		case errors.Is(err, location.ErrUnknownService):
			fmt.Fprintln(env.Out, "product-service was never started:", err)
			process.Go(func() {
				if err := env.Processes(instance, "serve"); instance.Err() == nil {
					end(errors.Join(errors.New("the instance of product-service ended"), err))
				}
			})
		case err != nil:
			return advise(err)
		case products.Len() > 0:
			fmt.Fprintln(env.Out, "An instance has come, a process of its own.")
			if err := show(ctx, env, registry); err != nil {
				return err
			}
			stop()
		default:
			fmt.Fprintln(env.Out, "It has gone.")
			return show(ctx, env, registry)
		}
	}
	return context.Cause(ctx)
}
