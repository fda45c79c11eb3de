package rediskit

import (
	"strings"
	"testing"
)

// tag is what Redis Cluster hashes of a key (the cluster specification's rule).
func tag(key string) string {
	i := strings.IndexByte(key, '{')
	if i < 0 {
		return key
	}
	j := strings.IndexByte(key[i+1:], '}')
	if j <= 0 {
		return key
	}
	return key[i+1 : i+1+j]
}

func TestKey(t *testing.T) {
	for _, tt := range []struct{ prefix, entity, suffix, want string }{
		{"lock:", "stock:7", "", "lock:{stock:7}"},
		{"lock:", "stock:7", ":fence", "lock:{stock:7}:fence"},
		{"lock:", "a{b}c", "", "lock:{a%7Bb%7Dc}"},
		{"lock:", "}", "", "lock:{%7D}"},
		{"{}", "50%", "", "%7B%7D{50%25}"},
	} {
		if got := Key(tt.prefix, tt.entity, tt.suffix); got != tt.want {
			t.Errorf("Key(%q, %q, %q) = %q, want %q", tt.prefix, tt.entity, tt.suffix, got, tt.want)
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add("lock:", "a{b}c", "a%7Bb")
	f.Add("{", "}", "%7D")
	f.Fuzz(func(t *testing.T, prefix, a, b string) {
		if a == "" || b == "" {
			return
		}
		if x, y := tag(Key(prefix, a, "")), tag(Key(prefix, a, ":queue")); x != y {
			t.Errorf("two keys of %q under %q hash by %q and %q", a, prefix, x, y)
		}
		if a != b && Key(prefix, a, "") == Key(prefix, b, "") {
			t.Errorf("%q and %q share a key under %q", a, b, prefix)
		}
	})
}
