//go:build unix

package location_test

import (
	"syscall"
	"testing"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/location"
)

// LO-2: a process that was stopped for longer than its TTL disappears, and
// comes back by itself when it is continued.
func TestProcessStopped(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	p, said := startInstance(t, s.Addr(), "h1")
	startInstance(t, s.Addr(), "h2")
	r := newRegistry(t, s.Client(t), location.Options{TTL: processTTL})
	sees(t, r, "[h1 h2]")
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	sees(t, r, "[h2]")
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	sees(t, r, "[h1 h2]")
	hears(t, "h1", said, "lost")
	hears(t, "h1", said, "registered")
}
