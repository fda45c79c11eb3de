package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/testkit"
)

type thing struct{ m map[string]int }

func (*thing) Right(context.Context, string) error {
	return fmt.Errorf("%w: x", transparency.ErrInvalid)
}
func (*thing) Watch(context.Context) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) { yield(0, transparency.ErrInvalid) }
}
func (*thing) Close() error { return nil }

type faulty struct{ thing }

func (f *faulty) Panics(fn func() error) error { f.m["x"] = 1; return fn() }
func (*faulty) Silent(context.Context) error   { return nil }
func (*faulty) Untyped() error                 { return errors.New("x") }
func (*faulty) Yields() iter.Seq2[int, error] {
	return func(yield func(int, error) bool) { yield(0, nil) }
}

func TestZero(t *testing.T) {
	for _, v := range []*thing{{}, nil} {
		if got := failures(t, func(r *testkit.Recorder) { testkit.Zero(t.Context(), r, v, "Close") }); len(got) != 0 {
			t.Errorf("Zero of what is right = %q", got)
		}
	}
	got := failures(t, func(r *testkit.Recorder) { testkit.Zero(t.Context(), r, new(faulty)) })
	if len(got) != 5 {
		t.Errorf("Zero of what is wrong in five ways = %q", got)
	}
}
