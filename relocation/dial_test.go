package relocation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
)

// RL-56: servers that speak another version are named at once, by Dial too; one
// that is denied is not asked again.
func TestDialRefused(t *testing.T) {
	for name, test := range map[string]struct {
		reject reject
		terms  opened
		want   error
		once   bool
	}{
		"version": {reject{Code: rejectVersion}, opened{}, ErrProtocol, true},
		"denied":  {reject{Code: rejectDenied}, opened{}, transparency.ErrDenied, true},
		"busy":    {reject{Code: rejectBusy}, opened{}, ErrNoServer, false},
		"future":  {reject{}, opened{Version: 2}, ErrNoServer, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, "a", "b", "c")
			f.terms = test.terms
			if test.reject.Code != 0 {
				f.opening = func(*fakePeer, opening) *reject { return &test.reject }
			}
			c, err := Dial(t.Context(), Addresses([]string{"a", "b", "c"}), f.net, nil)
			if c != nil || !errors.Is(err, test.want) {
				t.Errorf("%s: Dial = %v, %v, want %v", name, c, err, test.want)
			}
			if n := len(f.openingsAt("")); (n == 1) != test.once {
				t.Errorf("%s: %d servers were asked", name, n)
			}
		})
	}
}

// Dial asks each address once, follows hints, keeps to its context and ends at
// a refusal of the dialer.
func TestDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b", "c", "d", "e")
		next := map[string]string{"a": "b", "b": "c", "c": "d", "d": "e"}
		f.opening = func(s *fakePeer, _ opening) *reject {
			if to := next[s.addr]; to != "" {
				return &reject{Code: rejectMoved, Locations: []string{to}}
			}
			return nil
		}
		if c := f.dial(nil, "b"); c.Addr() != "e" {
			t.Errorf("from b: connected to %q, want e after three hops", c.Addr())
		}
		if _, err := Dial(t.Context(), Addresses([]string{"a"}), f.net, nil); !errors.Is(err, ErrNoServer) {
			t.Errorf("from a: Dial error = %v, want ErrNoServer after three hops", err)
		}
		if c := f.dial(nil, "x", "y", "e"); c.Addr() != "e" {
			t.Errorf("connected to %q, want e", c.Addr())
		}
		f.net.Hang("e", true)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		_, err := Dial(ctx, Addresses([]string{"e", "e", "e"}), f.net, nil)
		if d := time.Since(start); d != 15*time.Second || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrNoServer) {
			t.Errorf("Dial error = %v after %v, want the context's after 15s", err, d)
		}
		if _, err := Dial(t.Context(), Addresses([]string{"a", "b"}), deniedDialer{}, nil); !errors.Is(err, transparency.ErrDenied) {
			t.Errorf("Dial error = %v, want ErrDenied", err)
		}
		failing := func(context.Context) ([]string, error) { return nil, errors.New("no registry") }
		if _, err := Dial(t.Context(), failing, f.net, nil); !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), "no registry") {
			t.Errorf("Dial error = %v, want ErrNoServer and why", err)
		}
	})
}

type deniedDialer struct{}

func (deniedDialer) Dial(context.Context, string) (Transport, error) {
	return nil, fmt.Errorf("%w: 401", transparency.ErrDenied)
}
