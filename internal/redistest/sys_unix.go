//go:build unix && !linux

package redistest

import "syscall"

// dieWithParent has no equivalent here: a server outlives a test process that is killed.
func dieWithParent() *syscall.SysProcAttr { return nil }

func pauseProcess(pid int) error  { return syscall.Kill(pid, syscall.SIGSTOP) }
func resumeProcess(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }
