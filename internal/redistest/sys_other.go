//go:build !unix

package redistest

import (
	"errors"
	"syscall"
)

func dieWithParent() *syscall.SysProcAttr { return nil }

func pauseProcess(int) error  { return errors.ErrUnsupported }
func resumeProcess(int) error { return errors.ErrUnsupported }
