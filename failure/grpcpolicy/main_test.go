package grpcpolicy_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/go-transparency/transparency/failure"
	"github.com/go-transparency/transparency/failure/grpcpolicy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A service is what its functions are, and counts its calls.
type service struct {
	pb.UnimplementedTestServiceServer
	calls  atomic.Int64
	unary  func(ctx context.Context, n int) (*pb.SimpleResponse, error)
	output func(n int, s grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error
	input  func(n int, s grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error
}

func (s *service) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return s.unary(ctx, int(s.calls.Add(1)))
}

func (s *service) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, out grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	return s.output(int(s.calls.Add(1)), out)
}

func (s *service) StreamingInputCall(in grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
	return s.input(int(s.calls.Add(1)), in)
}

// serve starts the service and returns a client through policies. Dials fail as
// long as refuse is not zero, which they count down.
func serve(t *testing.T, s *service, policies *failure.Standard, opts *grpcpolicy.Options, refuse *atomic.Int64) pb.TestServiceClient {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	pb.RegisterTestServiceServer(server, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	conn, err := grpc.NewClient("passthrough:///bufconn",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			if refuse != nil && refuse.Add(-1) >= 0 {
				return nil, net.ErrClosed
			}
			return listener.DialContext(ctx)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(grpcpolicy.Unary(policies, opts)),
		grpc.WithStreamInterceptor(grpcpolicy.Stream(policies, opts)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewTestServiceClient(conn)
}

// tries returns policies with that many attempts, and short pauses.
func tries(n int) *failure.Standard {
	s := failure.NewStandard("test")
	s.Retry = failure.NewRetry(&failure.RetryOptions{Attempts: n, Base: time.Millisecond, Budget: plenty()})
	return s
}

func plenty() *failure.Budget {
	return failure.NewBudget(&failure.BudgetOptions{PerSecond: 1e6})
}

func stats(s *failure.Standard) failure.Stats { return s.Breaker.(*failure.LocalBreaker).Stats() }

func always(string) bool { return true }

func payload(text string) *pb.SimpleResponse {
	return &pb.SimpleResponse{Payload: &pb.Payload{Body: []byte(text)}}
}

func down(n, failures int, err codes.Code) error {
	if n <= failures {
		return status.Error(err, "sorry")
	}
	return nil
}
