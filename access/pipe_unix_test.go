//go:build unix

package access_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
)

// A pipe without a writer would block whoever opens it.
func TestFilePipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, repo := range []*access.Repository{
		access.NewFile(filepath.Join(dir, "pipe"), nil), access.NewDir(dir, nil), access.NewDir(filepath.Join(dir, "pipe"), nil),
	} {
		if _, err := get(repo, "pipe"); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("Get of a pipe: error = %v, want ErrInvalid", err)
		}
	}
}
