//go:build unix

package access_test

import (
	"testing"

	"github.com/go-transparency/transparency/access"
)

// A colon makes no URL of a path: that takes a scheme, and a drive is none.
func TestFromEnvColons(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("CONFIG_BACKEND", "")
	for _, path := range []string{"c:config.json", "conf/a:b.json", "./s3:x", "3:x", ":x"} {
		write(t, path, `{"doc":1}`)
		t.Setenv("CONFIG_URL", path)
		repo, err := access.FromEnv(nil)
		if err != nil {
			t.Errorf("%q: FromEnv error = %v, want the file", path, err)
			continue
		}
		if got, err := get(repo, "doc"); err != nil || got != "1" {
			t.Errorf("%q: Get = %q, %v, want 1", path, got, err)
		}
	}
}
