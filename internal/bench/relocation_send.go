package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency/relocation"
)

// A gate is a Dialer whose transports write nothing while it is shut.
type gate struct {
	network *relocation.Network
	opened  atomic.Pointer[chan struct{}] // closed while writes pass
}

func (g *gate) shut() { g.opened.Store(new(make(chan struct{}))) }
func (g *gate) open() { close(*g.opened.Load()) }

func (g *gate) Dial(ctx context.Context, addr string) (relocation.Transport, error) {
	t, err := g.network.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &gated{Transport: t, gate: g}, nil
}

type gated struct {
	relocation.Transport
	gate *gate
}

func (t *gated) Write(ctx context.Context, p []byte) error {
	select {
	case <-*t.gate.opened.Load():
		return t.Transport.Write(ctx, p)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sendGated is Send alone: in a trial, messages are taken, numbered and kept
// while the transport writes nothing, and afterwards it does, untimed, until all
// are handled.
func sendGated(ctx context.Context, _ *rig) (*side, error) {
	const sends, addr = 20_000, "server"
	s, g := &stream{}, &gate{network: relocation.NewNetwork()}
	g.shut()
	g.open()
	hub := relocation.NewHub(relocation.NewMemoryStore(nil), func(_ context.Context, _ *relocation.Session, m relocation.Message) error {
		return s.handle(m.Data)
	}, nil)
	stop := g.network.Listen(addr, func(ctx context.Context, t relocation.Transport) {
		_ = hub.Serve(ctx, t, relocation.Principal{})
	})
	end := func() error {
		err := hub.Close()
		stop()
		return err
	}
	conn, err := relocation.Dial(ctx, relocation.Addresses([]string{addr}), g, nil)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	one := func(ctx context.Context) (t trial, err error) {
		g.shut()
		// The first messages leave for the transport, and wait there.
		for range 10 {
			err = errors.Join(err, conn.Send(ctx, s.next()), pause(ctx))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begin := time.Now()
		for i := 0; i < sends && err == nil; i++ {
			err = conn.Send(ctx, s.next())
		}
		took := time.Since(begin)
		runtime.ReadMemStats(&after)
		g.open()
		if err := errors.Join(err, conn.Flush(ctx)); err != nil {
			return t, err
		}
		if handled := s.handled.Load(); handled != s.sent {
			return t, fmt.Errorf("%d messages were sent and acknowledged, %d handled", s.sent, handled)
		}
		// What the runtime allocates now and then is nobody's.
		allocs := float64((after.Mallocs-before.Mallocs)*100/sends) / 100
		return trial{samples: [][]float64{{float64(took) / sends}, {allocs}}}, nil
	}
	return &side{
		trial: one,
		verify: func(ctx context.Context) error {
			_, err := one(ctx)
			return err
		},
		close: func() error { return errors.Join(conn.Close(context.WithoutCancel(ctx)), end()) },
	}, nil
}
