package grpcpolicy_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/go-transparency/transparency/failure"
)

// read receives until the stream ends.
func read(s grpc.ServerStreamingClient[pb.StreamingOutputCallResponse]) (n int, err error) {
	for {
		if _, err = s.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		}
		n++
	}
}

// The breaker counts how streams end, and the bulkhead has their places until
// then; their openings end nothing.
func TestStreamEnds(t *testing.T) {
	more := make(chan struct{})
	s := &service{output: func(n int, out grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
		_ = out.Send(&pb.StreamingOutputCallResponse{})
		<-more
		_ = out.Send(&pb.StreamingOutputCallResponse{})
		return down(n, 2, []codes.Code{codes.OK, codes.Unavailable, codes.NotFound}[min(n, 2)])
	}}
	policies := tries(3)
	policies.Whole = failure.NewTimeout(time.Minute, nil)
	policies.Bulkhead = failure.NewBulkhead(&failure.BulkheadOptions{Places: 3, Queue: -1})
	client := serve(t, s, policies, nil, nil)
	for i, want := range []codes.Code{codes.Unavailable, codes.NotFound, codes.OK} {
		stream, err := client.StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Errorf("stream %d: Recv error = %v", i, err)
		}
		if got := policies.Bulkhead.Stats(); got.Active != 1 {
			t.Errorf("stream %d: the bulkhead has %+v while it is open", i, got)
		}
		before := stats(policies)
		if before.Succeeded+before.Failed != uint64(i) {
			t.Errorf("stream %d: the breaker has counted %+v before its end", i, before)
		}
		more <- struct{}{}
		if n, err := read(stream); n != 1 || status.Code(err) != want {
			t.Errorf("stream %d: %d more messages, %v, want one, %v", i, n, err, want)
		}
		if got := policies.Bulkhead.Stats(); got.Active != 0 {
			t.Errorf("stream %d: the bulkhead has %+v after its end", i, got)
		}
	}
	if got := stats(policies); got.Failed != 1 || got.Succeeded != 2 {
		t.Errorf("the breaker has counted %+v, want one failure and two answers", got)
	}
}

// A stream that was left by its caller gives back what it holds.
func TestStreamCancelled(t *testing.T) {
	s := &service{output: func(_ int, out grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
		<-out.Context().Done()
		return nil
	}}
	policies := tries(3)
	client := serve(t, s, policies, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := client.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{}); err != nil {
		t.Fatal(err)
	}
	cancel()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if policies.Bulkhead.Stats().Active == 0 && stats(policies).Ignored == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the bulkhead has %+v, the breaker %+v", policies.Bulkhead.Stats(), stats(policies))
		}
	}
}

// A stream keeps the deadline of its caller, though the policies have ended.
func TestStreamDeadline(t *testing.T) {
	release := make(chan struct{}) // the server must not be faster
	defer close(release)
	s := &service{output: func(_ int, out grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
		if _, ok := out.Context().Deadline(); !ok {
			t.Error("the server knows no deadline")
		}
		<-release
		return nil
	}}
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		policies := tries(3)
		client := serve(t, s, policies, nil, nil)
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		stream, err := client.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
		if status.Code(err) == codes.DeadlineExceeded && wait < time.Minute {
			continue // a slow machine: it did not even open
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read(stream); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("Recv error = %v, want DeadlineExceeded", err)
		}
		if got := stats(policies); got.Failed != 1 {
			t.Errorf("the breaker has counted %+v, want one failure", got)
		}
		return
	}
}

// The opening is made again; what was sent is not.
func TestStreamOpens(t *testing.T) {
	var refuse atomic.Int64
	refuse.Store(1 << 30)
	s := &service{input: func(_ int, in grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
		n := int32(0)
		for {
			if _, err := in.Recv(); err != nil {
				return in.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: n})
			}
			n++
		}
	}}
	policies := tries(3)
	client := serve(t, s, policies, nil, &refuse)
	if _, err := client.StreamingInputCall(t.Context()); status.Code(err) != codes.Unavailable || !errors.Is(err, failure.ErrAttempts) {
		t.Errorf("StreamingInputCall error = %v, want Unavailable after three attempts", err)
	}
	if got := stats(policies); got.Failed != 3 {
		t.Errorf("the breaker has counted %+v, want three failures", got)
	}
	refuse.Store(0)
	stream, err := client.StreamingInputCall(t.Context(), grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := stream.Send(&pb.StreamingInputCallRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := stream.CloseAndRecv()
	if err != nil || got.GetAggregatedPayloadSize() != 3 {
		t.Errorf("CloseAndRecv = %v, %v, want 3", got, err)
	}
	if s := policies.Bulkhead.Stats(); s.Active != 0 || stats(policies).Succeeded != 1 {
		t.Errorf("the bulkhead has %+v, the breaker %+v after the end", s, stats(policies))
	}
	policies.Breaker.(*failure.LocalBreaker).ForceOpen()
	if _, err := client.StreamingInputCall(t.Context()); status.Code(err) != codes.Unavailable || !errors.Is(err, failure.ErrOpen) {
		t.Errorf("StreamingInputCall error = %v, want Unavailable and ErrOpen", err)
	}
}
