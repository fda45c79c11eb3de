package location_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/location"
)

const service = "user-service"

// newRegistry returns a Registry over Redis that is closed at cleanup.
func newRegistry(t *testing.T, client location.RedisClient, opts location.Options) *location.Registry {
	t.Helper()
	r := location.NewRedis(client, &opts)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func newClient(t *testing.T, opts *redis.Options, addr string) *redis.Client {
	t.Helper()
	o := *opts
	o.Addr = addr
	client := redis.NewClient(&o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func at(host string) location.Endpoint {
	return location.Endpoint{ID: host, Scheme: "http", Host: host, Port: 80}
}

func mustRegister(t *testing.T, r *location.Registry, ep location.Endpoint) *location.Registration {
	t.Helper()
	g, err := r.Register(t.Context(), service, ep)
	if err != nil {
		t.Fatalf("Register(%v) error = %v", ep, err)
	}
	return g
}

// hosts returns the hosts of the service, or why there are none.
func hosts(l location.Locator) ([]string, error) {
	s, err := l.Resolve(context.Background(), service)
	var all []string
	for e := range s.All() {
		all = append(all, e.Host)
	}
	return all, err
}

func wantErr(t *testing.T, op string, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("%s error = %v, want one wrapping %q", op, err, w)
		}
	}
}

func eventually(t *testing.T, what string, d time.Duration, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, what, d, cond)
}
