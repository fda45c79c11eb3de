package location_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/location"
)

// asking is a handler that asks what it is told of.
type asking struct {
	slog.Handler
	registry     *location.Registry
	registration atomic.Pointer[location.Registration]
	told         chan string
}

func (*asking) Enabled(context.Context, slog.Level) bool { return true }

func (h *asking) Handle(_ context.Context, record slog.Record) error {
	_ = h.registry.Stats()
	if g := h.registration.Load(); g != nil {
		_ = g.State()
	}
	h.told <- record.Message
	return nil
}

// unreadable has an endpoint more, that cannot be decoded.
type unreadable struct{ *location.MemoryDriver }

func (d unreadable) List(ctx context.Context, service, known string) (location.Listing, error) {
	l, err := d.MemoryDriver.List(ctx, service, known)
	l.Broken++
	return l, err
}

// The Logger is called with nothing locked: it may ask, and take its time.
func TestLoggerMayAsk(t *testing.T) {
	h := &asking{Handler: slog.DiscardHandler, told: make(chan string, 100)}
	d := location.NewMemoryDriver()
	h.registry = location.NewRegistry(unreadable{d}, &location.Options{TTL: 300 * time.Millisecond, Logger: slog.New(h)})
	wait := func(want string) {
		t.Helper()
		for testkit.Receive(t, "the Logger is told "+want, h.told) != want {
		}
	}
	h.registration.Store(mustRegister(t, h.registry, at("h1")))
	d.Clear()
	wait("location: registration lost")
	wait("location: registration restored")
	go func() { _, _ = hosts(h.registry) }()
	wait("location: endpoints that cannot be read are left out")
	_ = h.registry.Close()
}
