package main

import (
	"errors"
	"testing"
)

func TestSpread(t *testing.T) {
	turn := 0
	round := func(n int) func() (string, error) {
		return func() (string, error) {
			turn++
			return instanceAddr(turn % n), nil
		}
	}
	if err := spread(round(instances)); err != nil {
		t.Errorf("spread of a round = %v, want nil", err)
	}
	if err := spread(round(instances - 1)); err == nil {
		t.Error("spread of picks that leave one out = nil, want an error")
	}
	if err := spread(func() (string, error) { return instanceAddr(min(turn%100, 4)), nil }); err == nil {
		t.Error("spread of picks of one = nil, want an error")
	}
	bad := errors.New("bad")
	if err := spread(func() (string, error) { return "", bad }); err != bad {
		t.Errorf("spread of a pick that fails = %v, want its error", err)
	}
}
