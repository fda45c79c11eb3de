package lock

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-transparency/transparency"
)

// LK-20: a mark is in the slot of its key, and of no other key.
func FuzzGuardMark(f *testing.F) {
	for _, key := range []string{"job", "a{b}c", "a{b}", "{b}", "{}a", "a}b", "{", "{{b}}", "x:{y}:{z}", "%7B", "é{ü}"} {
		f.Add(key, "b")
	}
	g := NewRedisGuard(nil, &RedisGuardOptions{Prefix: "p{x}:"})
	f.Fuzz(func(t *testing.T, key, other string) {
		mark, err := g.mark(key, nil)
		if err != nil {
			if !errors.Is(err, transparency.ErrInvalid) {
				t.Errorf("mark(%q) error = %v, want ErrInvalid", key, err)
			}
			return
		}
		if by := hashed(mark); by != hashed(key) {
			t.Errorf("mark(%q) = %q is hashed by %q", key, mark, by)
		}
		if second, err := g.mark(other, nil); err == nil && (second == mark) != (other == key) {
			t.Errorf("%q and %q have the marks %q and %q", key, other, mark, second)
		}
	})
}

// hashed is the part of a key that Redis Cluster hashes, as its specification
// puts it: what is between the first { and the first } that follows, if that
// is something.
func hashed(key string) string {
	open := strings.IndexByte(key, '{')
	if open < 0 {
		return key
	}
	end := strings.IndexByte(key[open+1:], '}')
	if end < 1 {
		return key
	}
	return key[open+1 : open+1+end]
}
