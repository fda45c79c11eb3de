package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/location"
)

const (
	service = "user-service"
	lease   = time.Second // how long a process is in the registry that says nothing
)

// soon bounds what takes moments, as starting a process.
var soon = 5 * time.Second

var locationRow = row{
	name: "location",
	done: "the process of a service was killed; another one runs elsewhere",

	without: onTwoProcesses("without", func(ctx context.Context, s *twoProcesses) (string, error) {
		address := s.first.Addr() // the client has noted it down
		if _, err := ask(ctx, address); err != nil {
			return "", fmt.Errorf("before the kill: %w", err)
		}
		if err := s.kill(ctx); err != nil {
			return "", err
		}
		var refused *net.OpError
		if _, err := ask(ctx, address); !errors.As(err, &refused) || refused.Op != "dial" {
			return "", errors.Join(errors.New("after the kill somebody was at the old address"), err)
		}
		return "nobody at the address that it knew", nil
	}),
	with: onTwoProcesses("with", func(ctx context.Context, s *twoProcesses) (string, error) {
		balancer := location.NewBalancer(s.registry, nil)
		defer balancer.Close() //nolint:errcheck // it is always nil
		for answered := map[string]bool{}; len(answered) < 2; {
			who, err := askByName(ctx, balancer)
			if err != nil {
				return "", fmt.Errorf("before the kill: %w", err)
			}
			answered[who] = true
		}
		if err := s.kill(ctx); err != nil {
			return "", err
		}
		killed := time.Now()
		answered := map[string]bool{}
		for range 10 {
			who, err := askByName(ctx, balancer)
			if err != nil {
				return "", fmt.Errorf("after the kill: %w", err)
			}
			answered[who] = true
		}
		if _, err := s.await(ctx, 1); err != nil {
			return "", err
		}
		if took := time.Since(killed); len(answered) != 1 || took > 2*lease {
			return "", fmt.Errorf("%d processes answered, and the dead one was known for %v", len(answered), took)
		}
		return fmt.Sprintf("all requests answered; the dead one forgotten when its lease of %v ended", lease), nil
	}),
	parts: map[string]func(context.Context, *lab.Env) error{
		"serve": serve(func() { os.Exit(1) }),
	},
}

// newRegistry returns a registry of the run, by its name.
func newRegistry(env *lab.Env, client *redis.Client, name string) *location.Registry {
	return location.NewRedis(client, &location.Options{TTL: lease, Poll: lease / 10, Prefix: env.Prefix() + "location:" + name + ":"})
}

// serve is an instance of the service, in the registry that its argument names.
// It answers who it is, until it is asked to die.
func serve(die func()) func(context.Context, *lab.Env) error {
	return withClient(func(ctx context.Context, env *lab.Env, client *redis.Client) error {
		if len(env.Args) != 3 {
			return errArguments
		}
		registry := newRegistry(env, client, env.Args[2])
		defer registry.Close() //nolint:errcheck // it is always nil
		mux := http.NewServeMux()
		mux.Handle("/", lab.Says(fmt.Sprint("process ", os.Getpid())))
		mux.HandleFunc("/die", func(http.ResponseWriter, *http.Request) { die() })
		server, err := lab.StartServer(ctx, mux)
		if err != nil {
			return err
		}
		defer server.Close()
		here, err := location.ParseEndpoint(server.URL)
		if err != nil {
			return err
		}
		if _, err := registry.Register(ctx, service, here); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

// ask makes a request to an address.
func ask(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	who, err := io.ReadAll(io.LimitReader(resp.Body, 100))
	return string(who), err
}

// askByName makes a request to an instance of the service, and if that one has
// died, to another.
func askByName(ctx context.Context, balancer *location.Balancer) (who string, err error) {
	for range 2 {
		picked, pickErr := balancer.Pick(ctx, service)
		if pickErr != nil {
			return "", pickErr
		}
		who, err = ask(ctx, picked.Addr())
		picked.Done(err)
		if err == nil {
			break
		}
	}
	return who, err
}

// A twoProcesses is a service of two instances.
type twoProcesses struct {
	registry *location.Registry
	first    location.Endpoint
	killed   atomic.Bool
	gone     chan struct{} // closed when the first has ended
}

// onTwoProcesses starts them, and ends them when f has returned.
func onTwoProcesses(registry string, f func(context.Context, *twoProcesses) (string, error)) func(context.Context, *lab.Env) (string, error) {
	return func(ctx context.Context, env *lab.Env) (string, error) {
		client, err := env.Redis(ctx)
		if err != nil {
			return "", err
		}
		s := &twoProcesses{registry: newRegistry(env, client, registry), gone: make(chan struct{})}
		defer s.registry.Close() //nolint:errcheck // it is always nil
		var processes sync.WaitGroup
		defer processes.Wait()
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)

		processes.Go(func() {
			defer close(s.gone)
			if err := env.Processes(ctx, "location serve "+registry); !s.killed.Load() {
				end(err)
			}
		})
		snapshot, err := s.await(ctx, 1)
		if err != nil {
			return "", err
		}
		s.first = snapshot.At(0)
		processes.Go(func() { end(env.Processes(ctx, "location serve "+registry)) })
		if _, err := s.await(ctx, 2); err != nil {
			return "", err
		}
		return f(ctx, s)
	}
}

// await waits until n instances are registered.
func (s *twoProcesses) await(ctx context.Context, n int) (location.Snapshot, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, soon, fmt.Errorf("the registry never had %d processes", n))
	defer cancel()
	for {
		snapshot, err := s.registry.Resolve(ctx, service)
		if err == nil && snapshot.Len() == n && !snapshot.Stale() {
			return snapshot, nil
		}
		if lab.Think(ctx, 5*time.Millisecond) != nil {
			return snapshot, context.Cause(ctx)
		}
	}
}

// kill makes the first process end without a word to anybody.
func (s *twoProcesses) kill(ctx context.Context) error {
	s.killed.Store(true)
	_, _ = ask(ctx, s.first.Addr()+"/die") // it does not live to answer
	ctx, cancel := context.WithTimeoutCause(ctx, soon, errors.New("the process lives on"))
	defer cancel()
	select {
	case <-s.gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
