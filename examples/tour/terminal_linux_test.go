package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/go-transparency/transparency/examples/internal/labtest"
)

func TestTerminal(t *testing.T) {
	for _, test := range []struct {
		name string
		env  map[string]string
		want bool
	}{
		{"color", map[string]string{"TERM": "xterm"}, true},
		{"NO_COLOR", map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		{"NO_COLOR that is empty", map[string]string{"TERM": "xterm", "NO_COLOR": ""}, true},
		{"dumb", map[string]string{"TERM": "dumb"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.env[envRows] = "access"
			master, terminal := openTerminal(t)
			cmd := labtest.Program{Env: test.env}.Command(t.Context(), t)
			cmd.Stdout = terminal
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			_ = terminal.Close()
			_ = master.SetReadDeadline(time.Now().Add(5 * time.Second))
			out, _ := io.ReadAll(master) // it ends with an error when the terminal is closed
			if got := strings.Contains(string(out), "\x1b["); got != test.want || !strings.Contains(string(out), "All 1 hold") {
				t.Errorf("the terminal shows %q; want colors: %t", out, test.want)
			}
		})
	}
}

// openTerminal returns a pseudoterminal: what is written to terminal is read
// from master.
func openTerminal(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudoterminals here: ", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	conn, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number, unlock uint32
	var failed syscall.Errno
	err = conn.Control(func(fd uintptr) {
		if _, _, failed = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGPTN, uintptr(unsafe.Pointer(&number))); failed == 0 {
			_, _, failed = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCSPTLCK, uintptr(unsafe.Pointer(&unlock)))
		}
	})
	if err != nil || failed != 0 {
		t.Skip("no pseudoterminals here: ", err, failed)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudoterminals here: ", err)
	}
	return master, terminal
}
