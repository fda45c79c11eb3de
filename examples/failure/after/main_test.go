package main

import (
	"testing"
	"testing/synctest"

	"github.com/go-transparency/transparency/examples/internal/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

const want = `call  1, closed   : paid
call  2, closed   : the service failed
call  3, closed   : the service failed
call  4, closed   : paid
call  5, closed   : the service failed
call  6, closed   : paid
call  7, closed   : the service failed
call  8, closed   : the service failed
call  9, closed   : the service failed
         open now
call 10, open     : refused at once; the service was not asked
call 11, half-open: the service failed
         open now
call 12, open     : refused at once; the service was not asked
call 13, half-open: paid
         closed now
call 14, closed   : the service failed
14 calls: the service was asked 12 times, 2 calls were refused at once.
`

// In a bubble, so that no pause of this machine is taken for the recovery time.
func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got := labtest.Output(t, run); got != want {
			t.Errorf("stdout = %q, want %q", got, want)
		}
	})
}

func TestProgram(t *testing.T) {
	r := labtest.Program{}.Run(t)
	if r.Status != 0 || r.Stderr != "" || r.Stdout == "" {
		t.Errorf("status %d, stdout %q, stderr %q", r.Status, r.Stdout, r.Stderr)
	}
}
