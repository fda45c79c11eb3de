package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/go-transparency/transparency/relocation"
)

// relocationComparisons are of messages from a client to a server, first, and of
// what a connection costs that has nothing to say, or moves. All WebSockets are
// real ones on the loopback interface, with both ends in this process.
var relocationComparisons = []comparison{
	{name: "relocation/memory", versus: "coder/websocket, an ack each 64",
		ours: streamMemory, peer: streamBare, target: target{ratio: 1.0}},
	{name: "relocation/redis", versus: "coder/websocket, an ack each 64", redis: true,
		ours: streamRedis, peer: streamBare, target: target{ratio: 1 / 0.3}},
	{name: "relocation/send", ours: sendGated,
		more: []figure{{name: "relocation/send-allocs", unit: inNumber}}},
	// Between the last message at the old server and the first at the new, in
	// round trips.
	{name: "relocation/gap", ours: moveDelayed, unit: inTimes},
	{name: "relocation/idle", ours: idleNetwork, unit: inBytes},
	{name: "relocation/idle-ws", ours: idleWebSocket, unit: inBytes},
}

const (
	messageSize = 128
	// streamed is how many messages are sent at a time, before the wait for all
	// of them to be handled: so many that the wait hardly shows.
	streamed = 100 * ackEach
	// ackEach is after how many messages the bare peer acknowledges.
	ackEach = 64
	// ahead is how many messages the bare peer sends without an
	// acknowledgement: as many as have the size of our window.
	ahead = relocation.DefaultWindow / messageSize
)

// A stream numbers messages, and checks that they arrive in order.
type stream struct {
	sent    uint64
	handled atomic.Uint64
	data    [messageSize]byte
}

func (s *stream) next() []byte {
	s.sent++
	binary.BigEndian.PutUint64(s.data[:], s.sent)
	return s.data[:]
}

func (s *stream) handle(p []byte) error {
	n := s.handled.Add(1)
	if len(p) != messageSize || binary.BigEndian.Uint64(p) != n {
		return fmt.Errorf("message %d has %d bytes, or another number", n, len(p))
	}
	return nil
}

// side sends a batch and waits until all is acknowledged.
func (s *stream) side(send func(context.Context, []byte) error, flush func(context.Context) error, closeAll func() error) *side {
	op := func(ctx context.Context) error {
		for range streamed {
			if err := send(ctx, s.next()); err != nil {
				return err
			}
		}
		return flush(ctx)
	}
	return &side{op: op, batch: streamed, close: closeAll, verify: func(ctx context.Context) error {
		if err := op(ctx); err != nil {
			return err
		}
		if handled := s.handled.Load(); handled != s.sent {
			return fmt.Errorf("%d messages were sent and acknowledged, %d handled", s.sent, handled)
		}
		return nil
	}}
}

func streamMemory(ctx context.Context, _ *rig) (*side, error) {
	return streamConn(ctx, relocation.NewMemoryStore(nil))
}

func streamRedis(ctx context.Context, r *rig) (*side, error) {
	return streamConn(ctx, relocation.NewRedisStore(r.client, nil))
}

func streamConn(ctx context.Context, store relocation.Store) (*side, error) {
	s := &stream{}
	hub := relocation.NewHub(store, func(_ context.Context, _ *relocation.Session, m relocation.Message) error {
		return s.handle(m.Data)
	}, nil)
	addr, stop, err := serve(ctx, hub.WebSocket(nil))
	if err != nil {
		return nil, err
	}
	end := func() error { return errors.Join(hub.Close(), stop()) }
	conn, err := relocation.Dial(ctx, relocation.Addresses([]string{"ws://" + addr}), webSockets(), nil)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return s.side(conn.Send, conn.Flush, func() error {
		return errors.Join(conn.Close(context.WithoutCancel(ctx)), end())
	}), nil
}

// webSockets dials without a pool, so that nothing stays behind.
func webSockets() *relocation.WebSocketDialer {
	return &relocation.WebSocketDialer{HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// streamBare does the least: it keeps nothing, and what is lost is lost.
func streamBare(ctx context.Context, _ *rig) (*side, error) {
	s := &stream{}
	addr, stop, err := serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c, err := websocket.Accept(w, req, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
		if err != nil {
			return
		}
		defer c.CloseNow() //nolint:errcheck // it has ended
		_ = handleBare(context.WithoutCancel(req.Context()), c, s)
	}))
	if err != nil {
		return nil, err
	}
	c, _, err := websocket.Dial(ctx, "ws://"+addr, &websocket.DialOptions{ //nolint:bodyclose // the library has done so
		HTTPClient: webSockets().HTTPClient, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	acks := make(chan uint64, ahead/ackEach+1) // there is room for all that can be open
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(acks)
		for {
			_, p, err := c.Read(context.WithoutCancel(ctx))
			if err != nil || len(p) != 8 {
				return
			}
			acks <- binary.BigEndian.Uint64(p)
		}
	}()
	acked := uint64(0)
	await := func(ctx context.Context, open uint64) error {
		for s.sent-acked > open {
			select {
			case n, ok := <-acks:
				if !ok {
					return errors.New("the connection has ended")
				}
				acked = n
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	return s.side(func(ctx context.Context, p []byte) error {
		if err := await(ctx, ahead); err != nil {
			return err
		}
		return c.Write(ctx, websocket.MessageBinary, p)
	}, func(ctx context.Context) error {
		return await(ctx, 0)
	}, func() error {
		err := c.CloseNow()
		<-ended
		return errors.Join(err, stop())
	}), nil
}

// handleBare handles messages and acknowledges each 64th.
func handleBare(ctx context.Context, c *websocket.Conn, s *stream) error {
	for n := uint64(1); ; n++ {
		_, p, err := c.Read(ctx)
		if err == nil {
			err = s.handle(p)
		}
		if err == nil && n%ackEach == 0 {
			err = c.Write(ctx, websocket.MessageBinary, binary.BigEndian.AppendUint64(nil, n))
		}
		if err != nil {
			return err
		}
	}
}
