package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// dieWithParent makes the kernel kill the server when this process dies, however it dies.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// pauseProcess returns when the process stands still: the signal alone would let it answer once more.
func pauseProcess(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return poll(ctx, nil, func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		// The state follows the name, which is in parentheses and may contain some.
		if _, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" ")); !bytes.HasPrefix(state, []byte("T")) {
			return errors.New("still running")
		}
		return nil
	})
}

func resumeProcess(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }
