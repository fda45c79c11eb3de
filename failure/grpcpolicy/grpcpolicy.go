// Package grpcpolicy puts the policies of package failure around gRPC calls, as
// client interceptors:
//
//	policies := failure.NewStandard("users")
//	conn, err := grpc.NewClient(target,
//		grpc.WithUnaryInterceptor(grpcpolicy.Unary(policies, nil)),
//		grpc.WithStreamInterceptor(grpcpolicy.Stream(policies, nil)))
//
// What still shows: status codes. They are those of the service, or of the
// reason why there is none: Unavailable of a call that this side refused,
// DeadlineExceeded of one that a Timeout ended. An error that a policy ended the
// call with wraps it too, so that errors.Is finds failure.ErrOpen.
//
// # Codes
//
// To a breaker, Unavailable, DeadlineExceeded, Unknown, Internal and DataLoss
// are failures. All others are answers of a healthy service, except for
// Canceled: if the caller has cancelled, that says nothing.
//
// A call is made again when it failed before there was a connection to send it
// on, whatever it does. When it may be made twice (see [Options]), it is made
// again after Unavailable and DeadlineExceeded as well. A wish of the server's
// in the trailer grpc-retry-pushback-ms (gRFC A6) is heeded.
//
// # Streams
//
// What is made again is the opening of a stream, never what was sent on it. The
// breaker's permit and the place in the bulkhead are held until the stream ends,
// and the breaker counts how; a Timeout bounds the opening alone. There is no
// hedging of streams.
package grpcpolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// Options configures the interceptors. Nil is fine.
type Options struct {
	// Idempotent reports whether calls of a method, given as in
	// "/users.Users/Get", may be made twice. Nil means [Declared].
	// failure.WithIdempotent says it of one call.
	Idempotent func(method string) bool
}

// Declared reports whether the service definition says that a method may be
// called twice, by option idempotency_level.
func Declared(method string) bool {
	name := strings.Replace(strings.TrimPrefix(method, "/"), "/", ".", 1)
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return false
	}
	options, _ := found.Options().(*descriptorpb.MethodOptions)
	return options.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
}

func (o *Options) mark(ctx context.Context, method string) context.Context {
	idempotent := Declared
	if o != nil && o.Idempotent != nil {
		idempotent = o.Idempotent
	}
	if idempotent(method) {
		return failure.WithIdempotent(ctx)
	}
	return ctx
}

// orDefault returns policies, and for nil some of its own.
func orDefault(policies *failure.Standard) *failure.Standard {
	if policies == nil {
		return failure.NewStandard("grpc")
	}
	return policies
}

// Unary returns an interceptor that makes unary calls through policies, which
// are best shared by all that call one service; nil means those of
// [failure.NewStandard]. The reply, and what Header, Trailer and Peer of the
// call options are to have, is that of the attempt that was taken.
func Unary(policies *failure.Standard, opts *Options) grpc.UnaryClientInterceptor {
	policies = orDefault(policies)
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, callOpts ...grpc.CallOption) error {
		taken, err := failure.Call(opts.mark(ctx, method), func(ctx context.Context) (*attempt, error) {
			a := newAttempt(reply, callOpts)
			return a, a.ended(ctx, invoker(ctx, method, req, a.reply, cc, a.opts...))
		}, policies)
		if taken != nil {
			taken.deliver(reply)
			if err == nil {
				return taken.answer
			}
		}
		return withStatus(err)
	}
}

// classed is the error of an attempt with its class. That it was sent is not
// to say that the service got it.
func classed(ctx context.Context, err error, sent bool) error {
	class := transparency.ErrUncertain
	if !sent {
		class = transparency.ErrUnavailable
	}
	ended := ctx.Err()
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled:
	case codes.DeadlineExceeded:
		ended = context.DeadlineExceeded // the server may have seen it first
	default:
		return err
	}
	if ended != nil {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return fmt.Errorf("%w: %w", class, err)
}

// isAnswer reports whether the service has answered, be it by an error.
func isAnswer(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Unknown, codes.Internal, codes.DataLoss, codes.Canceled:
		return false
	}
	return true
}

// withStatus gives an error that has no status one.
func withStatus(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Unknown
	switch {
	case errors.Is(err, transparency.ErrRejected), errors.Is(err, transparency.ErrUnavailable):
		code = codes.Unavailable
	case errors.Is(err, failure.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, transparency.ErrInvalid):
		code = codes.Internal
	}
	return &statusError{err, code}
}

type statusError struct {
	error
	code codes.Code
}

func (e *statusError) Unwrap() error              { return e.error }
func (e *statusError) GRPCStatus() *status.Status { return status.New(e.code, e.Error()) }
