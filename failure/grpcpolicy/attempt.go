package grpcpolicy

import (
	"context"
	"reflect"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/go-transparency/transparency/failure"
)

// An attempt has what one attempt of a unary call has brought. Each has its own,
// for a hedge or an abandoned one may still be writing.
type attempt struct {
	reply   any
	opts    []grpc.CallOption
	copies  []func() // of what the call options are to have
	trailer metadata.MD
	peer    peer.Peer
	answer  error // of the service, which is healthy
}

func newAttempt(reply any, opts []grpc.CallOption) *attempt {
	a := &attempt{reply: fresh(reply), opts: make([]grpc.CallOption, 0, len(opts)+2)}
	for _, opt := range opts {
		switch o := opt.(type) {
		case grpc.HeaderCallOption:
			header := new(metadata.MD)
			a.copies = append(a.copies, func() { *o.HeaderAddr = *header })
			opt = grpc.Header(header)
		case grpc.TrailerCallOption:
			a.copies = append(a.copies, func() { *o.TrailerAddr = a.trailer })
			continue
		case grpc.PeerCallOption:
			a.copies = append(a.copies, func() { *o.PeerAddr = a.peer })
			continue
		}
		a.opts = append(a.opts, opt)
	}
	a.opts = append(a.opts, grpc.Trailer(&a.trailer), grpc.Peer(&a.peer))
	return a
}

// fresh returns a new message of the kind of reply.
func fresh(reply any) any {
	if m, ok := reply.(proto.Message); ok {
		return m.ProtoReflect().New().Interface()
	}
	if t := reflect.TypeOf(reply); t != nil && t.Kind() == reflect.Pointer {
		return reflect.New(t.Elem()).Interface()
	}
	return reply
}

// deliver gives the caller what the attempt has brought.
func (a *attempt) deliver(reply any) {
	for _, c := range a.copies {
		c()
	}
	if m, ok := reply.(proto.Message); ok {
		proto.Reset(m)
		proto.Merge(m, a.reply.(proto.Message))
	} else if v := reflect.ValueOf(reply); v.Kind() == reflect.Pointer && !v.IsNil() {
		v.Elem().Set(reflect.ValueOf(a.reply).Elem())
	}
}

// ended returns what the policies are told of the end of the attempt.
func (a *attempt) ended(ctx context.Context, err error) error {
	if err == nil || isAnswer(err) {
		a.answer = err
		return nil
	}
	pushback := a.trailer.Get("grpc-retry-pushback-ms")
	if len(pushback) == 0 {
		return classed(ctx, err, a.peer.Addr != nil)
	}
	ms, parseErr := strconv.ParseUint(pushback[0], 10, 31)
	if parseErr != nil {
		return err // not to be made again; it has no class
	}
	return failure.WithRetryAfter(classed(ctx, err, a.peer.Addr != nil), time.Duration(ms)*time.Millisecond)
}
