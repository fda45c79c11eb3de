package lock

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A logger that is stuck on the loss of one lease keeps the news of another's
// from nobody.
func TestLoggerStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		logger := slog.New(stuckHandler{slog.DiscardHandler, stuck})
		l := New(deadRenewals{NewMemoryDriver()}, &Options{Logger: logger})
		defer l.Close()
		defer close(stuck)
		var leases [3]*Lease
		for i := range leases {
			var err error
			ttl := time.Duration(i+1) * 6 * time.Second
			if leases[i], err = l.Mutex(fmt.Sprint(i), &MutexOptions{TTL: ttl}).Lock(t.Context()); err != nil {
				t.Fatalf("Lock error = %v", err)
			}
		}
		for i, lease := range leases {
			until := lease.ValidUntil()
			<-lease.Context().Done()
			if late := time.Since(until); late > 0 {
				t.Errorf("the loss of lease %d was told %v late", i, late)
			}
		}
	})
}

type stuckHandler struct {
	slog.Handler
	stuck <-chan struct{}
}

func (stuckHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h stuckHandler) Handle(context.Context, slog.Record) error {
	<-h.stuck
	return nil
}

// deadRenewals renew nothing.
type deadRenewals struct{ *MemoryDriver }

func (deadRenewals) Renew(_ context.Context, claims []Claim) []error {
	return make([]error, 0, len(claims)) // which counts as no result
}
