package grpcpolicy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// Stream returns an interceptor that opens streams through policies; see the
// package page. Nil means those of [failure.NewStandard].
func Stream(policies *failure.Standard, opts *Options) grpc.StreamClientInterceptor {
	policies = orDefault(policies)
	around := &failure.Standard{Whole: policies.Whole, Retry: policies.Retry}
	each := &failure.Standard{RateLimit: policies.RateLimit, Timeout: policies.Timeout}
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, callOpts ...grpc.CallOption) (grpc.ClientStream, error) {
		o := &opening{
			ctx: ctx, breaker: policies.Breaker, bulkhead: policies.Bulkhead, single: !desc.ServerStreams,
			streamer: func(ctx context.Context, more grpc.CallOption) (grpc.ClientStream, error) {
				return streamer(ctx, desc, cc, method, append(callOpts[:len(callOpts):len(callOpts)], more)...)
			},
		}
		s, err := failure.Call(opts.mark(ctx, method), func(ctx context.Context) (*stream, error) {
			return o.attempt(ctx, each)
		}, around)
		if err != nil {
			return nil, withStatus(err)
		}
		return s, nil
	}
}

// An opening is what is done for a stream, until there is one.
type opening struct {
	ctx      context.Context // of the stream
	breaker  failure.Breaker
	bulkhead *failure.Bulkhead
	single   bool // the server sends one message
	streamer func(context.Context, grpc.CallOption) (grpc.ClientStream, error)
}

// attempt opens a stream, which keeps the permit of the breaker.
func (o *opening) attempt(ctx context.Context, each failure.Policy) (*stream, error) {
	s := &stream{single: o.single}
	if o.breaker != nil {
		// The permit is judged by the context of the stream: others end earlier.
		permit, err := o.breaker.Allow(o.ctx)
		if err != nil {
			return nil, err
		}
		s.permit = permit
	}
	why := errPanicked
	defer func() {
		if why != nil {
			s.end(why)
		}
	}()
	_, err := failure.Call(ctx, func(ctx context.Context) (any, error) { return nil, o.open(ctx, s) }, each)
	why = err
	return s, err
}

// errPanicked is no failure of the service's.
var errPanicked = fmt.Errorf("%w: the opening of the stream panicked", transparency.ErrInvalid)

// open opens a stream in a place of the bulkhead, which it keeps.
func (o *opening) open(ctx context.Context, s *stream) error {
	if o.bulkhead != nil {
		leave, err := o.bulkhead.Acquire(ctx)
		if err != nil {
			return err
		}
		s.hold(leave)
	}
	// The stream outlives ctx, which ends when it is open.
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.hold(func() { cancel(nil) })
	unlink := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer unlink()
	if deadline, ok := o.ctx.Deadline(); ok {
		var stop context.CancelFunc
		own, stop = context.WithDeadline(own, deadline)
		s.hold(stop)
	}
	var from peer.Peer
	inner, err := o.streamer(own, grpc.Peer(&from))
	switch {
	case err != nil:
		return classed(ctx, err, from.Addr != nil)
	case !unlink():
		return classed(ctx, status.FromContextError(ctx.Err()).Err(), true)
	}
	s.ClientStream = inner
	forget := context.AfterFunc(o.ctx, func() {
		if errors.Is(o.ctx.Err(), context.DeadlineExceeded) {
			<-own.Done() // by the same deadline, so that this is what it ends of
		}
		s.end(o.ctx.Err())
	})
	s.hold(func() { forget() })
	return nil
}

// A stream gives back what it holds when it ends.
type stream struct {
	grpc.ClientStream
	single bool
	permit failure.Permit // or nil
	once   sync.Once      // ends it

	mu    sync.Mutex // guards what follows
	ended bool
	held  []func() // what gives it back
}

// hold adds what is to be given back at the end, which may have been.
func (s *stream) hold(release func()) {
	s.mu.Lock()
	ended := s.ended
	if !ended {
		s.held = append(s.held, release)
	}
	s.mu.Unlock()
	if ended {
		release()
	}
}

// end ends the stream. When it returns, that has been counted.
func (s *stream) end(err error) {
	s.once.Do(func() {
		if isAnswer(err) {
			err = nil
		}
		if s.permit != nil {
			s.permit.Done(err)
		}
		s.mu.Lock()
		held := s.held
		s.ended, s.held = true, nil
		s.mu.Unlock()
		for _, release := range held {
			release()
		}
	})
}

// RecvMsg receives, and ends the stream with what it ends of.
func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case errors.Is(err, io.EOF), err == nil && s.single:
		s.end(nil)
	case err != nil:
		s.end(err)
	}
	return err
}

// SendMsg sends. If the stream has ended, RecvMsg tells why.
func (s *stream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	if err != nil && !errors.Is(err, io.EOF) {
		s.end(err)
	}
	return err
}
