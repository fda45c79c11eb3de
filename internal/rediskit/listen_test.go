package rediskit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/go-transparency/transparency/internal/rediskit"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
)

func TestListen(t *testing.T) {
	s := redistest.Start(t)
	client := s.Client(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard := make(chan string, 8)
	ended := make(chan error, 1)
	channel := s.Prefix() + "news"
	go func() {
		ended <- rediskit.Listen(ctx, client.Subscribe(ctx, channel), func(payload string, begun bool) {
			if begun {
				payload = "begun"
			}
			heard <- payload
		})
	}()
	if got := testkit.Receive(t, "the beginning", heard); got != "begun" {
		t.Errorf("first = %q, want the beginning", got)
	}
	client.Publish(ctx, channel, "one")
	if got := testkit.Receive(t, "the message", heard); got != "one" {
		t.Errorf("then = %q, want \"one\"", got)
	}
	cancel()
	if err := testkit.Receive(t, "the end of Listen", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Listen = %v, want context.Canceled", err)
	}
}

// A server that stopped answering keeps its connections open: only the beat
// tells that nothing comes.
func TestListenToASilentServer(t *testing.T) {
	s := redistest.StartServer(t)
	client := s.Client(t)
	begun := make(chan struct{}, 8)
	ended := make(chan error, 1)
	go func() {
		ended <- rediskit.Listen(t.Context(), client.Subscribe(t.Context(), "news"), func(string, bool) { begun <- struct{}{} })
	}()
	testkit.Receive(t, "the beginning", begun)
	s.Pause()
	if err := testkit.Receive(t, "the end of Listen, after two beats", ended); err == nil {
		t.Error("Listen = nil, want an error")
	}
	s.Resume()
}
