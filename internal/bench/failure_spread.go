package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/failure"
	"github.com/go-transparency/transparency/internal/rediskit"
)

const (
	// hearers are the instances that have no failures of their own.
	hearers = 20
	// voters are those that have, just as many as it takes.
	voters = failure.DefaultQuorum
)

// spreadNews has a fleet open its breaker, each instance with a client of its
// own. What counts is how long after the failure that settled it an instance is
// open which has seen no failure itself. Each trial is a fleet of its own.
func spreadNews(_ context.Context, r *rig) (*side, error) {
	clients := make([]*redis.Client, hearers+voters)
	for i := range clients {
		clients[i] = newClient(r)
	}
	fleets := 0
	one := func(ctx context.Context) (trial, error) {
		fleets++
		return spreadOnce(ctx, r, clients, "spread-"+strconv.Itoa(fleets))
	}
	return &side{
		trial: one,
		verify: func(ctx context.Context) error {
			_, err := one(ctx)
			return err
		},
		close: func() error {
			var errs []error
			for _, c := range clients {
				errs = append(errs, c.Close())
			}
			return errors.Join(errs...)
		},
	}, nil
}

func spreadOnce(ctx context.Context, r *rig, clients []*redis.Client, name string) (t trial, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	fleet := make([]*failure.SharedBreaker, len(clients))
	for i, c := range clients {
		fleet[i] = failure.NewRedisBreaker(c, &failure.SharedOptions{
			Breaker:     failure.BreakerOptions{Name: name},
			QuorumRatio: -1, // the quorum alone
		})
		defer func() { err = errors.Join(err, fleet[i].Close()) }()
		if err := answered(failure.Call(ctx, succeedWith, fleet[i])); err != nil {
			return t, err
		}
	}
	if err := assembled(ctx, r, name, fleet); err != nil {
		return t, err
	}

	opened := make(chan time.Time, hearers)
	for _, b := range fleet[voters:] {
		changes := b.Changes(ctx)
		go func() {
			for change := range changes {
				if change.To == failure.StateOpen {
					opened <- time.Now()
					return
				}
			}
		}()
	}
	var begin time.Time
	for _, b := range fleet[:voters] {
		for range inRow {
			begin = time.Now() // of the last, in the end
			if _, err := failure.Call(ctx, breakDownWith, b); !errors.Is(err, errBroken) {
				return t, fmt.Errorf("a call that fails: want %w, got %w", errBroken, err)
			}
		}
	}
	took := make([]float64, hearers)
	for i := range took {
		select {
		case at := <-opened:
			took[i] = float64(at.Sub(begin))
		case <-ctx.Done():
			return t, fmt.Errorf("%d of %d instances are open: %w", i, hearers, ctx.Err())
		}
	}
	for _, b := range fleet {
		if _, err := failure.Call(ctx, succeedWith, b); !errors.Is(err, failure.ErrOpen) {
			return t, refused("call through an open breaker", err, failure.ErrOpen)
		}
	}
	return trial{samples: [][]float64{took}}, nil
}

// assembled waits until each instance knows of all and hears the news.
func assembled(ctx context.Context, r *rig, name string, fleet []*failure.SharedBreaker) error {
	channel := rediskit.Key("breaker:", name, ":wake")
	for {
		heard, err := r.client.PubSubNumSub(ctx, channel).Result()
		ready := heard[channel] == int64(len(fleet))
		for _, b := range fleet {
			ready = ready && b.Stats().Exchanged > 0
		}
		// The first to come knows of the last only after its next look.
		if err == nil && ready && fleet[len(fleet)-1].Stats().Live == len(fleet) {
			return nil
		}
		if err = errors.Join(err, pause(ctx)); err != nil {
			return fmt.Errorf("join the fleet: %w", err)
		}
	}
}
