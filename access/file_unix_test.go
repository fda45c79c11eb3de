//go:build unix

package access_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
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

// What a Get opens, it closes, and leaves it to no finalizer.
func TestFilesAreClosed(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	open := func() int {
		entries, err := os.ReadDir("/dev/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(entries)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "doc"), `{"doc":1}`)
	before := open()
	for range 50 {
		for _, repo := range []*access.Repository{access.NewFile(filepath.Join(dir, "doc"), nil), access.NewDir(dir, nil)} {
			if _, err := get(repo, "doc"); err != nil {
				t.Fatal(err)
			}
			_, _ = get(repo, "absent")
		}
	}
	if after := open(); after > before+10 {
		t.Errorf("after 200 Gets %d files are open, before %d", after, before)
	}
}
