package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-transparency/transparency/relocation"
)

// oneWay is how long everything takes in each direction; a round trip is twice
// that.
const oneWay = 10 * time.Millisecond

// A sighting is a message at a server.
type sighting struct {
	server string
	at     time.Time
}

// A witness notes where each message was handled.
type witness struct {
	stream
	mu   sync.Mutex
	last sighting
	gap  time.Duration // between the servers, at the last move
}

func (w *witness) see(server string, p []byte) error {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last.server != server {
		w.gap = now.Sub(w.last.at)
	}
	w.last = sighting{server, now}
	return w.handle(p)
}

func (w *witness) seen() (server string, gap time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.server, w.gap
}

// moveDelayed moves a client between two servers while it sends all the time.
func moveDelayed(ctx context.Context, _ *rig) (*side, error) {
	network, store, w := relocation.NewNetwork(), relocation.NewMemoryStore(nil), &witness{}
	servers := []string{"first", "second"}
	keys := [][]byte{bytes.Repeat([]byte{1}, 32)}
	var ends []func() error
	for _, name := range servers {
		hub := relocation.NewHub(store, func(_ context.Context, _ *relocation.Session, m relocation.Message) error {
			return w.see(name, m.Data)
		}, &relocation.HubOptions{Name: name, Keys: keys})
		stop := network.Listen(name, func(ctx context.Context, t relocation.Transport) {
			_ = hub.Serve(ctx, t, relocation.Principal{})
		})
		network.Delay(name, relocation.BothWays, oneWay)
		ends = append(ends, hub.Close, func() error {
			stop()
			return nil
		})
	}
	end := func() error {
		var errs []error
		for _, e := range ends {
			errs = append(errs, e())
		}
		return errors.Join(errs...)
	}
	conn, err := relocation.Dial(ctx, relocation.Addresses(servers), network, nil)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	one := func(ctx context.Context) (trial, error) {
		from, to := conn.Addr(), servers[0]
		if from == to {
			to = servers[1]
		}
		gap, err := w.move(ctx, conn, to)
		if err != nil {
			return trial{}, fmt.Errorf("move from %s to %s: %w", from, to, err)
		}
		return trial{samples: [][]float64{{float64(gap) / float64(2*oneWay)}}}, nil
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

// move has messages sent on and on, from a while before the move until they come
// to the new server.
func (w *witness) move(ctx context.Context, conn *relocation.Conn, to string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	quit, quitted := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-quit:
				quitted <- nil
				return
			case <-time.After(oneWay / 50):
				if err := conn.Send(ctx, w.next()); err != nil {
					quitted <- err
					return
				}
			}
		}
	}()
	err := rest(ctx, 4*oneWay)
	if err == nil {
		err = conn.Migrate(ctx, to)
	}
	for at := ""; err == nil && at != to; at, _ = w.seen() {
		err = pause(ctx)
	}
	close(quit)
	if err := errors.Join(err, <-quitted, conn.Flush(ctx)); err != nil {
		return 0, err
	}
	if handled := w.handled.Load(); handled != w.sent {
		return 0, fmt.Errorf("%d messages were sent and acknowledged, %d handled", w.sent, handled)
	}
	_, gap := w.seen()
	return gap, nil
}
