package access_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
	"github.com/go-transparency/transparency/internal/testkit"
)

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFileMembers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	write(t, path, "\ufeff\n{ \"database\" : {\n\t\"port\": 5432 }, \"a/b\":[ 1,2 ] ,\"n\":9007199254740993,\"nothing\":null, \"text\":\"\\u0061\"}")
	repo := access.NewFile(path, nil)
	for key, want := range map[string]string{
		"database": "{\n\t\"port\": 5432 }", "a/b": "[ 1,2 ]", "n": "9007199254740993", "nothing": "null", "text": `"\u0061"`,
	} {
		if got, err := get(repo, key); err != nil || got != want {
			t.Errorf("Get(%q) = %q, %v, want %q", key, got, err, want)
		}
	}
	for _, key := range []string{"port", "database/port", "Database", "b"} {
		if _, err := get(repo, key); !errors.Is(err, access.ErrNotFound) {
			t.Errorf("Get(%q) error = %v, want ErrNotFound", key, err)
		}
	}
}

func TestFileFaults(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "secret.json"), "{}")
	if err := os.Chmod(filepath.Join(dir, "secret.json"), 0); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "large.json"), `{"doc":"`+strings.Repeat("x", access.DefaultMaxBytes)+`"}`)
	for name, data := range map[string]string{
		"empty": "", "blank": " \n", "null": "null", "list": `["hunter2"]`, "text": "hunter2", "half": `{"doc":"hunter2`,
		"twice": `{"doc":"hunter2","doc":2}`, "deep": `{"doc":1,"x":{"hunter2":1,"hunter2":1}}`, "two": `{"doc":"hunter2"}{}`,
		"utf16": "\xff\xfe{\x00}\x00",
	} {
		write(t, filepath.Join(dir, name+".json"), data)
	}
	for name, want := range map[string]error{
		"absent.json": access.ErrNotFound, "absent/x.json": access.ErrNotFound, "list.json/x": access.ErrNotFound, "": transparency.ErrInvalid,
		"nul\x00.json": transparency.ErrInvalid,
		"large.json":   access.ErrTooLarge, ".": access.ErrNotFound, strings.Repeat("x", 300): transparency.ErrInvalid,
		"empty.json": transparency.ErrInvalid, "blank.json": transparency.ErrInvalid, "null.json": transparency.ErrInvalid,
		"list.json": transparency.ErrInvalid, "text.json": transparency.ErrInvalid, "half.json": transparency.ErrInvalid,
		"twice.json": transparency.ErrInvalid, "deep.json": transparency.ErrInvalid, "two.json": transparency.ErrInvalid,
		"utf16.json": transparency.ErrInvalid, "secret.json": transparency.ErrDenied,
	} {
		path := name
		if path != "" {
			path = filepath.Join(dir, name)
		}
		if name == "secret.json" && os.Getuid() <= 0 {
			continue // root may read everything
		}
		_, err := get(access.NewFile(path, nil), "doc")
		if !errors.Is(err, want) || want != access.ErrNotFound && errors.Is(err, access.ErrNotFound) {
			t.Errorf("%q: Get error = %v, want %v", name, err, want)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: error = %q: it quotes the document", name, err)
		}
		if quoted := strconv.Quote(path); name != "" && !strings.Contains(err.Error(), quoted) {
			t.Errorf("%q: error = %q: it does not name the file", name, err)
		}
	}
}

// TestFileReturns is AC-3 without a watch: a file that is gone is absent, and
// seen again when it is back.
func TestFileReturns(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "doc")
	for name, repo := range map[string]*access.Repository{"NewFile": access.NewFile(path, nil), "NewDir": access.NewDir(dir, nil)} {
		for _, data := range []string{`{"doc": 1}`, `{"doc": 2}`} {
			write(t, path, data)
			if got, err := get(repo, "doc"); err != nil || !strings.Contains(data, got) {
				t.Errorf("%s: Get = %q, %v, want that of %q", name, got, err, data)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if _, err := get(repo, "doc"); !errors.Is(err, access.ErrNotFound) {
				t.Errorf("%s: Get of a removed file: error = %v, want ErrNotFound", name, err)
			}
		}
	}
}

// TestDirLinks has the symbolic links of AC-14: those that stay inside are
// followed, those that lead out are not.
func TestDirLinks(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "conf")
	write(t, filepath.Join(outer, "passwd"), "hunter2")
	write(t, filepath.Join(dir, "..v1", "doc"), "1")
	write(t, filepath.Join(dir, "..v2", "doc"), "2")
	write(t, filepath.Join(dir, "plain"), "p")
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	link("..v1", "..data")
	link(filepath.Join("..data", "doc"), "doc")
	link(filepath.Join("..", "passwd"), "up")
	link(filepath.Join(outer, "passwd"), "absolute")
	link("..", "parent")
	link("self", "self")
	link("nowhere", "dangling")

	repo := access.NewDir(dir, nil)
	if got, err := get(repo, "doc"); err != nil || got != "1" {
		t.Errorf("Get through two links = %q, %v, want 1", got, err)
	}
	// As the kubelet does: the link is replaced in one step, the old data removed.
	link("..v2", "..next")
	if err := errors.Join(os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")), os.RemoveAll(filepath.Join(dir, "..v1"))); err != nil {
		t.Fatal(err)
	}
	if got, err := get(repo, "doc"); err != nil || got != "2" {
		t.Errorf("Get after the links were moved = %q, %v, want 2", got, err)
	}
	for key, want := range map[string]error{
		"up": transparency.ErrInvalid, "absolute": transparency.ErrInvalid, "parent/passwd": transparency.ErrInvalid, "self": transparency.ErrInvalid,
		"dangling": access.ErrNotFound, "..data": access.ErrNotFound, "plain/x": access.ErrNotFound, "absent/x": access.ErrNotFound,
	} {
		if got, err := get(repo, key); !errors.Is(err, want) || want != access.ErrNotFound && errors.Is(err, access.ErrNotFound) {
			t.Errorf("Get(%q) = %q, %v, want %v", key, got, err, want)
		}
	}
}

// TestLinksChange is AC-2 at any moment: who replaces a link and removes what it
// led to, as the kubelet does, makes no document absent.
func TestLinksChange(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "conf")
	version := func(i int) string { return fmt.Sprintf("..v%d", i) }
	change := func(i int) error {
		for name, data := range map[string]string{"doc": "1", "file.json": `{"doc":1}`} {
			write(t, filepath.Join(dir, version(i), name), data)
		}
		next := filepath.Join(dir, "..next")
		return errors.Join(os.Symlink(version(i), next), os.Rename(next, filepath.Join(dir, "..data")), os.RemoveAll(filepath.Join(dir, version(i-1))))
	}
	if err := change(0); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(filepath.Join("..data", "doc"), filepath.Join(dir, "doc")); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	var reads [3]atomic.Int64
	reader := 0
	for name, repo := range map[string]*access.Repository{
		"a link in the directory":   access.NewDir(dir, nil),
		"a link to the directory":   access.NewDir(filepath.Join(dir, "..data"), nil),
		"a file in a linked folder": access.NewFile(filepath.Join(dir, "..data", "file.json"), nil),
	} {
		count := &reads[reader]
		reader++
		wg.Go(func() {
			defer count.Store(math.MaxInt64)
			for {
				select {
				case <-done:
					return
				default:
				}
				if got, err := get(repo, "doc"); err != nil || got != "1" {
					t.Errorf("%s: Get under changes = %q, %v, want 1", name, got, err)
					return
				}
				count.Add(1)
			}
		})
	}
	defer wg.Wait()
	defer close(done)
	for i := range 60 {
		if err := change(i + 1); err != nil {
			t.Fatal(err)
		}
		// One change for a Get, as in life; several in a row are an absence.
		for i := range reads {
			seen := reads[i].Load()
			testkit.Eventually(t, "a reader to read again", testkit.Limit, func() bool { return reads[i].Load() > seen || seen == math.MaxInt64 })
		}
	}
}

// What a test cannot easily have happen, and root never meets.
func TestFileErrors(t *testing.T) {
	for from, want := range map[error]error{
		syscall.ENOENT: access.ErrNotFound, syscall.ENOTDIR: access.ErrNotFound,
		syscall.EACCES: transparency.ErrDenied, syscall.EPERM: transparency.ErrDenied,
		syscall.EISDIR: transparency.ErrInvalid, syscall.ELOOP: transparency.ErrInvalid, syscall.ENAMETOOLONG: transparency.ErrInvalid,
		syscall.EINVAL: transparency.ErrInvalid, errors.New("path escapes from parent"): transparency.ErrInvalid,
		syscall.EIO: transparency.ErrUnavailable, syscall.EMFILE: transparency.ErrUnavailable,
	} {
		err := access.FileError(&fs.PathError{Op: "open", Path: "somewhere", Err: from})
		if text := want.Error() + ": " + from.Error(); !errors.Is(err, want) || !errors.Is(err, from) || err.Error() != text {
			t.Errorf("fileError(%v) = %v, want %s", from, err, text)
		}
	}
}

// A limit that is off, or the largest there is, must not overflow.
func TestFileNoLimit(t *testing.T) {
	dir := t.TempDir()
	want := `"` + strings.Repeat("x", 2<<20) + `"`
	write(t, filepath.Join(dir, "doc"), want)
	write(t, filepath.Join(dir, "file"), `{"doc":`+want+`}`)
	for _, limit := range []int64{-1, math.MinInt64, math.MaxInt64} {
		opts := &access.Options{MaxBytes: limit, Timeout: time.Minute}
		for name, repo := range map[string]*access.Repository{"NewDir": access.NewDir(dir, opts), "NewFile": access.NewFile(filepath.Join(dir, "file"), opts)} {
			if got, err := get(repo, "doc"); err != nil || got != want {
				t.Errorf("%s, MaxBytes %d: Get = %d bytes, %v, want 2 MiB", name, limit, len(got), err)
			}
		}
	}
}

func TestDirFaults(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "x")
	for path, want := range map[string]error{
		"":                           transparency.ErrInvalid,
		filepath.Join(dir, "absent"): access.ErrNotFound,
		filepath.Join(dir, "file"):   transparency.ErrInvalid,
		filepath.Join(dir, "file/x"): access.ErrNotFound,
		dir + "\x00":                 transparency.ErrInvalid,
	} {
		if _, err := get(access.NewDir(path, nil), "doc"); !errors.Is(err, want) {
			t.Errorf("NewDir(%q): Get error = %v, want %v", path, err, want)
		}
	}
}
