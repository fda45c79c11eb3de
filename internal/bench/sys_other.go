//go:build !unix

package main

import "errors"

func (s *server) freeze() error { return errors.New("a process cannot be stopped on this system") }

func (s *server) thaw() error { return nil }

func maxFiles() int { return 2000 }
