package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/go-transparency/transparency"
)

// NewFile returns a repository whose documents are the top-level members of
// one JSON file: the key is the member's name, the document its value, byte
// for byte. The file as a whole is bound by MaxBytes and is as strict as
// [Decode] asks. It is read at every Get, and cannot be written (see the
// package page). An absent file is [ErrNotFound].
func NewFile(path string, opts *Options) *Repository {
	if path == "" {
		return newRepository(nil, invalid("the file has no path"), opts)
	}
	return newRepository(jsonFile(path), nil, opts)
}

type jsonFile string

func (f jsonFile) Fetch(_ context.Context, key string, limit int64) ([]byte, error) {
	data, err := lookAgain(func() ([]byte, error) { return readFile(os.Stat, os.Open, string(f), limit) })
	if err == nil {
		data, err = member(data, key)
		if err == nil {
			return data, nil
		}
	}
	return nil, fmt.Errorf("%w (file %q)", err, string(f))
}

// NewDir returns a repository whose documents are the files below dir: the key
// is the path. Relative symbolic links are followed as long as they stay below
// dir, as those of a Kubernetes ConfigMap do; an absolute one, or one that
// leads out of dir, is of class [transparency.ErrInvalid], and so is what is no
// regular file. A directory is no document. It is opened at every Get, and
// cannot be written (see the package page). An absent dir is [ErrNotFound].
func NewDir(dir string, opts *Options) *Repository {
	if dir == "" {
		return newRepository(nil, invalid("the directory has no path"), opts)
	}
	return newRepository(directory(dir), nil, opts)
}

type directory string

func (d directory) Fetch(_ context.Context, key string, limit int64) ([]byte, error) {
	return lookAgain(func() ([]byte, error) { return d.read(key, limit) })
}

func (d directory) read(key string, limit int64) ([]byte, error) {
	if info, err := os.Stat(string(d)); err == nil && !info.IsDir() {
		return nil, invalid("it is no directory (directory %q)", string(d)) // to open a pipe would wait for its writer
	}
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, fmt.Errorf("%w (directory %q)", fileError(err), string(d))
	}
	defer root.Close() // read only: nothing can be lost
	return readFile(root.Stat, root.Open, filepath.FromSlash(key), limit)
}

// lookAgain believes an absence only when it has seen it three times. A link on
// the way to a file can be replaced, and its old target removed, between the
// steps of one look, as the kubelet does at every change of a ConfigMap; the
// file was there all the time.
func lookAgain(look func() ([]byte, error)) (data []byte, err error) {
	for range 3 {
		if data, err = look(); !errors.Is(err, ErrNotFound) {
			break
		}
	}
	return data, err
}

// readFile reads up to limit+1 bytes of a regular file.
func readFile(stat func(string) (fs.FileInfo, error), open func(string) (*os.File, error), name string, limit int64) ([]byte, error) {
	info, err := stat(name)
	switch {
	case err != nil:
		return nil, fileError(err)
	case info.IsDir():
		return nil, fmt.Errorf("%w: it is a directory", ErrNotFound)
	case !info.Mode().IsRegular():
		return nil, invalid("it is no regular file") // to open a pipe would wait for its writer
	}
	if err := checkSize(info.Size(), limit); err != nil {
		return nil, err
	}
	f, err := open(name)
	if err != nil {
		return nil, fileError(err)
	}
	defer f.Close() // read only: nothing can be lost
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fileError(err)
	}
	return data, checkSize(int64(len(data)), limit)
}

// fileError puts an error of package os into a class. The path is left to the
// caller.
func fileError(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", transparency.ErrDenied, err)
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENAMETOOLONG),
		errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("%w: %w", transparency.ErrInvalid, err)
	case errors.As(err, &errno):
		return fmt.Errorf("%w: %w", transparency.ErrUnavailable, err)
	default: // os.Root refused: the name leads out of it
		return fmt.Errorf("%w: %w", transparency.ErrInvalid, err)
	}
}
