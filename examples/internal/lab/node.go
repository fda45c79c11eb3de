package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A Node is one more address of the run's Redis, so that one server can play
// several, of which each can die alone.
type Node struct {
	Client *redis.Client // of this address; Close closes it

	network, addr string // of the Redis
	listener      net.Listener
	ctx           context.Context
	cancel        context.CancelFunc
	wg            sync.WaitGroup
}

// StartNode starts a node on this machine's loopback address. Close ends it.
func (e *Env) StartNode(ctx context.Context) (*Node, error) {
	client, err := e.Client()
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot start a node on 127.0.0.1: %w", err)
	}
	opts := *client.Options()
	n := &Node{network: opts.Network, addr: opts.Addr, listener: l}
	n.ctx, n.cancel = context.WithCancel(ctx)
	opts.Network, opts.Addr, opts.Dialer = "tcp", l.Addr().String(), nil
	n.Client = newClient(&opts)
	n.wg.Go(n.serve)
	return n, nil
}

func (n *Node) serve() {
	for {
		in, err := n.listener.Accept()
		if err != nil {
			return // it was killed
		}
		n.wg.Go(func() { n.pass(in) })
	}
}

// pass copies what comes and goes until either side ends, or the node does.
func (n *Node) pass(in net.Conn) {
	out, err := new(net.Dialer).DialContext(n.ctx, n.network, n.addr)
	if err != nil {
		_ = in.Close()
		return
	}
	end := func() { _, _ = in.Close(), out.Close() }
	defer end()
	defer context.AfterFunc(n.ctx, end)()
	n.wg.Go(func() {
		defer end()
		_, _ = io.Copy(out, in)
	})
	_, _ = io.Copy(in, out)
}

// Kill ends every connection to the node and lets no other one be made, as when
// a server dies.
func (n *Node) Kill() {
	_ = n.listener.Close()
	n.cancel()
	n.wg.Wait()
}

// Close kills the node and closes its client.
func (n *Node) Close() {
	n.Kill()
	_ = n.Client.Close()
}
