//go:build unix

package main

import "syscall"

// freeze stops the redis-server in its tracks, with its connections open.
func (s *server) freeze() error { return syscall.Kill(s.pid, syscall.SIGSTOP) }

func (s *server) thaw() error { return syscall.Kill(s.pid, syscall.SIGCONT) }

// maxFiles returns how many files this process may have open.
func maxFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<20)) //nolint:gosec // not negative
}
