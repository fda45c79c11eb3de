package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-kit/kit/endpoint"
	"github.com/go-kit/kit/sd"
	"github.com/go-kit/kit/sd/lb"
	"github.com/go-kit/log"

	"github.com/go-transparency/transparency/location"
)

// locationComparisons are of picking one of five instances, and saying that the
// call to it is over. go-kit goes round and is told nothing, so it does less,
// and least when its instances are fixed; only the time of ours has a target.
var locationComparisons = []comparison{
	{name: "location/pick", versus: "go-kit RoundRobin, Endpointer of an Instancer",
		ours: pickBalancer, peer: pickFollowing, target: target{time: 100 * time.Nanosecond, allocs: none}},
	{name: "location/pick-fixed", versus: "go-kit RoundRobin, FixedEndpointer",
		ours: pickBalancer, peer: pickFixed},
}

const (
	instances   = 5
	serviceName = "user-service"
)

func pickBalancer(context.Context, *rig) (*side, error) {
	endpoints := make([]location.Endpoint, instances)
	for i := range endpoints {
		e, err := location.ParseEndpoint(instanceAddr(i))
		if err != nil {
			return nil, err
		}
		endpoints[i] = e
	}
	static := location.NewStatic(map[string][]location.Endpoint{serviceName: endpoints})
	balancer := location.NewBalancer(static, nil)
	return &side{
		op: func(ctx context.Context) error {
			picked, err := balancer.Pick(ctx, serviceName)
			if err != nil {
				return err
			}
			picked.Done(nil)
			return nil
		},
		verify: func(ctx context.Context) error {
			return spread(func() (string, error) {
				picked, err := balancer.Pick(ctx, serviceName)
				if err != nil {
					return "", err
				}
				picked.Done(nil)
				return picked.Addr(), nil
			})
		},
		close: balancer.Close,
	}, nil
}

// pickFollowing picks from what an Endpointer has heard, as a Balancer does.
func pickFollowing(ctx context.Context, _ *rig) (*side, error) {
	addrs := make(sd.FixedInstancer, instances)
	for i := range addrs {
		addrs[i] = instanceAddr(i)
	}
	factory := func(addr string) (endpoint.Endpoint, io.Closer, error) { return endpointOf(addr), nil, nil }
	endpointer := sd.NewEndpointer(addrs, factory, log.NewNopLogger())
	s := roundRobin(endpointer)
	s.close = func() error {
		endpointer.Close()
		return nil
	}
	// It hears of the instances on a goroutine of its own.
	for {
		heard, err := endpointer.Endpoints()
		if err == nil && len(heard) == instances {
			return s, nil
		}
		if err = errors.Join(err, pause(ctx)); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
}

func pickFixed(context.Context, *rig) (*side, error) {
	endpoints := make(sd.FixedEndpointer, instances)
	for i := range endpoints {
		endpoints[i] = endpointOf(instanceAddr(i))
	}
	return roundRobin(endpoints), nil
}

func roundRobin(endpointer sd.Endpointer) *side {
	balancer := lb.NewRoundRobin(endpointer)
	return &side{
		op: func(context.Context) error {
			_, err := balancer.Endpoint()
			return err
		},
		verify: func(ctx context.Context) error {
			return spread(func() (string, error) {
				e, err := balancer.Endpoint()
				if err != nil {
					return "", err
				}
				addr, err := e(ctx, nil)
				if err != nil {
					return "", err
				}
				return addr.(string), nil
			})
		},
	}
}

func instanceAddr(i int) string { return fmt.Sprintf("10.0.0.%d:8080", i+1) }

// endpointOf is a call that answers who was called.
func endpointOf(addr string) endpoint.Endpoint {
	return func(context.Context, any) (any, error) { return addr, nil }
}

// spread proves that all instances are picked, each about as often as others.
func spread(pick func() (string, error)) error {
	const share = 1000
	picked := make(map[string]int)
	for range instances * share {
		addr, err := pick()
		if err != nil {
			return err
		}
		picked[addr]++
	}
	for i := range instances {
		if n := picked[instanceAddr(i)]; n < share/2 || n > 2*share {
			return fmt.Errorf("%d of %d picks were %s", n, instances*share, instanceAddr(i))
		}
	}
	return nil
}
