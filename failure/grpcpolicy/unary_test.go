package grpcpolicy_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
	"github.com/go-transparency/transparency/failure/grpcpolicy"
)

// What is made again, and what the breaker counts, by the code.
func TestUnaryCodes(t *testing.T) {
	for code, want := range map[codes.Code]struct{ attempts, failed int }{
		codes.OK: {1, 0}, codes.NotFound: {1, 0}, codes.InvalidArgument: {1, 0}, codes.PermissionDenied: {1, 0},
		codes.ResourceExhausted: {1, 0}, codes.Aborted: {1, 0}, codes.Unimplemented: {1, 0},
		codes.Unavailable: {3, 3}, codes.DeadlineExceeded: {3, 3},
		codes.Unknown: {1, 1}, codes.Internal: {1, 1}, codes.DataLoss: {1, 1},
	} {
		for _, idempotent := range []bool{true, false} {
			if !idempotent {
				want.attempts, want.failed = 1, min(want.failed, 1)
			}
			s := &service{unary: func(_ context.Context, n int) (*pb.SimpleResponse, error) {
				return payload("ada"), down(n, 9, code)
			}}
			policies := tries(3)
			client := serve(t, s, policies, &grpcpolicy.Options{Idempotent: func(string) bool { return idempotent }}, nil)
			_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{})
			if status.Code(err) != code || int(s.calls.Load()) != want.attempts {
				t.Errorf("%v, idempotent %v: error = %v after %d attempts, want %d", code, idempotent, err, s.calls.Load(), want.attempts)
			}
			if got := stats(policies); int(got.Failed) != want.failed || int(got.Succeeded) != want.attempts-want.failed {
				t.Errorf("%v, idempotent %v: the breaker has counted %+v", code, idempotent, got)
			}
			if want.failed > 0 && want.attempts == 1 && (code == codes.Unavailable) != errors.Is(err, transparency.ErrUncertain) && code != codes.DeadlineExceeded {
				t.Errorf("%v: error = %v", code, err)
			}
		}
	}
}

// A call for which there was no connection is made again whatever it does.
func TestUnaryNotSent(t *testing.T) {
	var refuse atomic.Int64
	refuse.Store(1 << 30)
	s := &service{unary: func(context.Context, int) (*pb.SimpleResponse, error) { return payload("ada"), nil }}
	policies := tries(2)
	client := serve(t, s, policies, nil, &refuse)
	_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{})
	if status.Code(err) != codes.Unavailable || !errors.Is(err, failure.ErrAttempts) || !errors.Is(err, transparency.ErrUnavailable) || errors.Is(err, transparency.ErrUncertain) {
		t.Errorf("UnaryCall error = %v, want Unavailable and ErrUnavailable after two attempts", err)
	}
	if got := stats(policies); got.Failed != 2 {
		t.Errorf("the breaker has counted %+v, want two failures", got)
	}
}

// The attempt that is taken is what the caller gets, with its metadata.
func TestUnaryHedge(t *testing.T) {
	release := make(chan struct{})
	s := &service{unary: func(ctx context.Context, n int) (*pb.SimpleResponse, error) {
		_ = grpc.SetHeader(ctx, metadata.Pairs("attempt", strconv.Itoa(n)))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("attempt", strconv.Itoa(n)))
		if n == 1 {
			<-release
		}
		return payload(strconv.Itoa(n)), nil
	}}
	policies := tries(1)
	policies.Hedge = failure.NewHedge(&failure.HedgeOptions{Delay: time.Millisecond, Budget: plenty()})
	client := serve(t, s, policies, &grpcpolicy.Options{Idempotent: always}, nil)
	var header, trailer metadata.MD
	var from peer.Peer
	got, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&from))
	close(release)
	if err != nil || string(got.GetPayload().GetBody()) != "2" {
		t.Errorf("UnaryCall = %v, %v, want the second's answer", got, err)
	}
	if header.Get("attempt")[0] != "2" || trailer.Get("attempt")[0] != "2" || from.Addr == nil {
		t.Errorf("header %v, trailer %v, peer %v, want those of the second", header, trailer, from)
	}
}

// What this side refuses or ends has a code, and is told from others.
func TestUnaryRefused(t *testing.T) {
	release := make(chan struct{}) // the server's own deadline comes a little earlier
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	s := &service{unary: func(ctx context.Context, _ int) (*pb.SimpleResponse, error) {
		if md, _ := metadata.FromIncomingContext(ctx); len(md.Get("leaves")) > 0 {
			cancel()
		}
		<-release
		return nil, errors.New("too late")
	}}
	policies := tries(1)
	policies.Timeout = failure.NewTimeout(20*time.Millisecond, nil)
	client := serve(t, s, policies, nil, nil)
	_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{})
	if status.Code(err) != codes.DeadlineExceeded || !errors.Is(err, failure.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("UnaryCall error = %v, want DeadlineExceeded and ErrTimeout", err)
	}
	policies.Timeout = failure.NewTimeout(time.Minute, nil)
	client = serve(t, s, policies, nil, nil)
	leaving := metadata.AppendToOutgoingContext(ctx, "leaves", "yes")
	if _, err = client.UnaryCall(leaving, &pb.SimpleRequest{}); status.Code(err) != codes.Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("UnaryCall error = %v, want Canceled", err)
	}
	if got := stats(policies); got.Failed != 1 || got.Ignored != 1 {
		t.Errorf("the breaker has counted %+v, want the timeout, and the caller's end ignored", got)
	}
	policies.Breaker.(*failure.LocalBreaker).ForceOpen()
	_, err = client.UnaryCall(t.Context(), &pb.SimpleRequest{})
	if status.Code(err) != codes.Unavailable || !errors.Is(err, failure.ErrOpen) {
		t.Errorf("UnaryCall error = %v, want Unavailable and ErrOpen", err)
	}
}

// What the server asks for by pushback is done.
func TestUnaryPushback(t *testing.T) {
	for pushback, want := range map[string]int64{"0": 3, "3600000": 1, "-1": 1, "soon": 1} {
		s := &service{unary: func(ctx context.Context, n int) (*pb.SimpleResponse, error) {
			_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", pushback))
			return payload("ada"), down(n, 2, codes.Unavailable)
		}}
		client := serve(t, s, tries(3), &grpcpolicy.Options{Idempotent: always}, nil)
		_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{})
		if got := s.calls.Load(); got != want || (err == nil) != (want == 3) {
			t.Errorf("pushback %q: %d attempts, %v, want %d", pushback, got, err, want)
		}
		if pushback == "3600000" && failure.RetryAfter(err) != time.Hour {
			t.Errorf("pushback %q: RetryAfter = %v", pushback, failure.RetryAfter(err))
		}
	}
}

// Interceptors without policies have the usual ones.
func TestDefaults(t *testing.T) {
	s := &service{unary: func(context.Context, int) (*pb.SimpleResponse, error) { return payload("ada"), nil }}
	got, err := serve(t, s, nil, nil, nil).UnaryCall(t.Context(), &pb.SimpleRequest{})
	if err != nil || string(got.GetPayload().GetBody()) != "ada" {
		t.Errorf("UnaryCall = %v, %v", got, err)
	}
}

// declared is a service definition, which can be registered once.
var declared = sync.OnceValue(func() error {
	method := func(name string, level descriptorpb.MethodOptions_IdempotencyLevel) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{
			Name: proto.String(name), InputType: proto.String(".declared.Empty"), OutputType: proto.String(".declared.Empty"),
			Options: &descriptorpb.MethodOptions{IdempotencyLevel: level.Enum()},
		}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("declared.proto"), Package: proto.String("declared"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Empty")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Users"), Method: []*descriptorpb.MethodDescriptorProto{
			method("Get", descriptorpb.MethodOptions_NO_SIDE_EFFECTS),
			method("Put", descriptorpb.MethodOptions_IDEMPOTENT),
			method("Add", descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN),
		}}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		return err
	}
	return protoregistry.GlobalFiles.RegisterFile(file)
})

// The service definition says which methods may be called twice.
func TestDeclared(t *testing.T) {
	if err := declared(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"/declared.Users/Get": true, "/declared.Users/Put": true, "/declared.Users/Add": false,
		"/declared.Users/None": false, "/declared.Empty": false, "": false, "///": false,
	} {
		if got := grpcpolicy.Declared(name); got != want {
			t.Errorf("Declared(%q) = %v, want %v", name, got, want)
		}
	}
}
