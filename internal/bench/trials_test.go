package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency/failure"
)

// inMemory is a lock within this process, which waits.
func inMemory() locking {
	held := make(chan struct{}, 1)
	return func(ctx context.Context) (func(context.Context) error, error) {
		select {
		case held <- struct{}{}:
			return func(context.Context) error { <-held; return nil }, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Cycles are counted, and so is who has how many; two in a section, and an
// attempt that fails, are found out.
func TestContend(t *testing.T) { synctest.Test(t, testContend) }

func testContend(t *testing.T) {
	l := inMemory()
	found, err := contend(t.Context(), []locking{l, l, l}, 0, 30*time.Millisecond)
	if err != nil || found.ops == 0 || len(found.samples[2]) != found.ops {
		t.Fatalf("contend = %d cycles, %d waits, %v, want as many", found.ops, len(found.samples[2]), err)
	}
	if cycle := found.samples[0][0]; cycle < float64(section) {
		t.Errorf("a cycle takes %v, want at least that of its section", time.Duration(cycle))
	}
	seldom := func(ctx context.Context) (func(context.Context) error, error) {
		<-time.After(50 * time.Millisecond)
		return l(ctx)
	}
	if found, err = contend(t.Context(), []locking{seldom, l}, 0, 100*time.Millisecond); err != nil || found.samples[1][0] < 10 {
		t.Errorf("contend with one that comes seldom = %v, %v, want the other several times as often", found.samples[1], err)
	}
	free := func(context.Context) (func(context.Context) error, error) {
		return func(context.Context) error { return nil }, nil
	}
	if _, err := contend(t.Context(), []locking{free, free, free, free}, 0, 100*time.Millisecond); err == nil || !strings.Contains(err.Error(), "have the lock") {
		t.Errorf("contend for what is no lock = %v, want who has it", err)
	}
	bad := errors.New("bad")
	if _, err := contend(t.Context(), []locking{l, func(context.Context) (func(context.Context) error, error) { return nil, bad }}, 0, time.Hour); !errors.Is(err, bad) {
		t.Errorf("contend with an attempt that fails = %v, want its error, at once", err)
	}
}

func TestHandOverSide(t *testing.T) { synctest.Test(t, testHandOverSide) }

func testHandOverSide(t *testing.T) {
	nothing := func() error { return nil }
	ready := func(context.Context) error { return nil }
	l := inMemory()
	s, err := handOverSide(t.Context(), l, l, ready, nothing)
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.trial(t.Context())
	if err != nil || found.ops != handOvers || len(found.samples[0]) != handOvers {
		t.Errorf("trial = %d hand-overs, %v, %v, want %d", found.ops, found.samples, err, handOvers)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	// Who waits for another lock has it before it is given back.
	s, err = handOverSide(t.Context(), inMemory(), inMemory(), ready, nothing)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.trial(t.Context()); err == nil {
		t.Error("trial of two that have the lock = nil, want an error")
	}
}

func TestStream(t *testing.T) {
	var s stream
	for range 3 {
		if err := s.handle(s.next()); err != nil {
			t.Errorf("handle of the next message = %v, want nil", err)
		}
	}
	s.next()
	if err := s.handle(s.next()); err == nil {
		t.Error("handle after a message was lost = nil, want an error")
	}
	var short stream
	if err := short.handle(short.next()[:8]); err == nil {
		t.Error("handle of half a message = nil, want an error")
	}
}

func TestWitness(t *testing.T) { synctest.Test(t, testWitness) }

func testWitness(t *testing.T) {
	w := &witness{}
	for _, server := range []string{"a", "a", "b"} {
		if server == "b" {
			time.Sleep(10 * time.Millisecond)
		}
		if err := w.see(server, w.next()); err != nil {
			t.Fatal(err)
		}
	}
	if at, gap := w.seen(); at != "b" || gap != 10*time.Millisecond {
		t.Errorf("seen = %q after %v, want b after 10 ms", at, gap)
	}
}

// A chain that lacks one of the four is found out.
func TestChainSide(t *testing.T) { synctest.Test(t, testChainSide) }

func testChainSide(t *testing.T) {
	build := func(lacking string) func(time.Duration, int) chain {
		return func(limit time.Duration, places int) chain {
			breaker := failure.NewLocalBreaker(nil)
			p := &failure.Standard{
				Retry: failure.NewRetry(nil), Breaker: breaker, Timeout: failure.NewTimeout(limit, nil),
				Bulkhead: failure.NewBulkhead(&failure.BulkheadOptions{Places: places, Queue: -1}),
			}
			closed := func(calls uint64) error { return closedWith(breaker.Stats(), calls) }
			switch lacking {
			case "retry":
				p.Retry = nil
			case "breaker":
				p.Breaker = nil
				closed = func(uint64) error { return nil }
			case "timeout":
				p.Timeout = nil
			case "bulkhead":
				p.Bulkhead = nil
			}
			return chain{
				call: func(ctx context.Context, fn guarded) (*reply, error) { return failure.Call(ctx, fn, p) },
				open: failure.ErrOpen, timedOut: failure.ErrTimeout, full: failure.ErrFull, closed: closed,
			}
		}
	}
	if err := chainSide(build("")).verify(t.Context()); err != nil {
		t.Errorf("verify of a whole chain = %v, want nil", err)
	}
	for _, lacking := range []string{"retry", "breaker", "timeout", "bulkhead"} {
		if err := chainSide(build(lacking)).verify(t.Context()); err == nil {
			t.Errorf("verify of a chain without a %s = nil, want an error", lacking)
		}
	}
}

func TestEach(t *testing.T) {
	var sum atomic.Int64
	if err := each(100, func(i int) error { sum.Add(int64(i)); return nil }); err != nil || sum.Load() != 4950 {
		t.Errorf("each of 100 = %d, %v, want every number", sum.Load(), err)
	}
	bad := errors.New("bad")
	err := each(100, func(i int) error {
		if i == 50 {
			return bad
		}
		return nil
	})
	if !errors.Is(err, bad) {
		t.Errorf("each with one that fails = %v, want its error", err)
	}
}
