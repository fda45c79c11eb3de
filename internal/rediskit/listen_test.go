package rediskit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-transparency/transparency/internal/rediskit"
	"github.com/go-transparency/transparency/internal/redistest"
)

func TestListen(t *testing.T) {
	s := redistest.Start(t)
	client := s.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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
	if got := <-heard; got != "begun" {
		t.Errorf("first = %q, want the beginning", got)
	}
	client.Publish(ctx, channel, "one")
	if got := <-heard; got != "one" {
		t.Errorf("then = %q, want \"one\"", got)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
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
	<-begun
	s.Pause()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("Listen = nil, want an error")
		}
	case <-time.After(15 * time.Second):
		t.Error("Listen goes on after 15s of silence, want two beats at most")
	}
	s.Resume()
}
