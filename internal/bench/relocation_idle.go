package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/go-transparency/transparency/relocation"
)

// idleNetwork has many clients of one Hub that are connected and silent. What
// counts are the bytes of heap and stacks for each, both ends and the store
// together.
func idleNetwork(ctx context.Context, _ *rig) (*side, error) {
	const addr = "server"
	network := relocation.NewNetwork()
	return idleSide(ctx, full.connections, network, func(hub *relocation.Hub) (string, func() error, error) {
		stop := network.Listen(addr, func(ctx context.Context, t relocation.Transport) {
			_ = hub.Serve(ctx, t, relocation.Principal{})
		})
		return addr, func() error {
			stop()
			return nil
		}, nil
	})
}

// idleWebSocket takes as many as there may be files open, of which each
// connection needs two here.
func idleWebSocket(ctx context.Context, _ *rig) (*side, error) {
	n := min(full.connections, (maxFiles()-500)/2)
	if n <= 0 {
		return nil, fmt.Errorf("only %d files may be open", maxFiles())
	}
	dialer := webSockets()
	return idleSide(ctx, n, dialer, func(hub *relocation.Hub) (string, func() error, error) {
		addr, stop, err := serve(ctx, hub.WebSocket(nil))
		return "ws://" + addr, stop, err
	})
}

func idleSide(ctx context.Context, n int, dialer relocation.Dialer, listen func(*relocation.Hub) (addr string, stop func() error, err error)) (*side, error) {
	hub := relocation.NewHub(relocation.NewMemoryStore(nil), func(context.Context, *relocation.Session, relocation.Message) error {
		return nil
	}, nil)
	addr, stop, err := listen(hub)
	if err != nil {
		return nil, errors.Join(err, hub.Close())
	}
	conns := make([]*relocation.Conn, n)
	before := held()
	err = each(n, func(i int) (err error) {
		conns[i], err = relocation.Dial(ctx, relocation.Addresses([]string{addr}), dialer, nil)
		return err
	})
	closeAll := func() error {
		err := each(n, func(i int) error {
			if conns[i] == nil {
				return nil
			}
			return conns[i].Close(context.WithoutCancel(ctx))
		})
		return errors.Join(err, hub.Close(), stop())
	}
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	return &side{
		trial: func(context.Context) (trial, error) {
			return trial{samples: [][]float64{{(held() - before) / float64(n)}}}, nil
		},
		verify: func(ctx context.Context) error {
			if s := hub.Stats(); s.Sessions != n {
				return fmt.Errorf("%d of %d sessions are attached", s.Sessions, n)
			}
			return conns[n-1].SendAck(ctx, []byte("here"))
		},
		close: closeAll,
	}, nil
}

// held returns how many bytes the heap and the stacks have in use.
func held() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the pools had kept is gone after the second
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// each calls fn with every number below n, a few at a time.
func each(n int, fn func(i int) error) error {
	const at = 16 // once
	var all sync.WaitGroup
	var errs [at]error
	for w := range errs {
		all.Go(func() {
			for i := w; i < n && errs[w] == nil; i += at {
				errs[w] = fn(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs[:]...)
}
