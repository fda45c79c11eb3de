package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/joho/godotenv"
)

const maxDotenv = 64 << 10

// readDotenv returns the values in .env of dir; without such a file there are
// none. Its errors hold nothing of what is in the file, as godotenv's do.
func readDotenv(dir string) (map[string]string, error) {
	f, err := os.Open(filepath.Join(dir, ".env")) //nolint:gosec // the user's own
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.New("cannot open .env: check its permissions")
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDotenv+1))
	switch {
	case err != nil:
		return nil, errors.New("cannot read .env: check that it is a file")
	case len(text) > maxDotenv:
		return nil, fmt.Errorf(".env is longer than %d KiB: check that it is a list of NAME=value lines", maxDotenv>>10)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors begin a file so
	values, ok := parseDotenv(text)
	if !ok {
		return nil, fmt.Errorf(".env, line %d: check that it reads NAME=value, with quotes closed", badLine(text))
	}
	return values, nil
}

func parseDotenv(text []byte) (map[string]string, bool) {
	values, err := godotenv.UnmarshalBytes(text)
	_, nameless := values[""] // a last line without '='
	return values, err == nil && !nameless && !bytes.ContainsRune(text, 0)
}

// badLine returns the number of the line after the longest beginning of text
// that can be read: a value in quotes may go over several lines.
func badLine(text []byte) int {
	const tries = 1000
	good, goodEnd, end := 0, 0, 0 // lines that can be read, where they end, where this one does
	for i, line := range bytes.SplitAfter(text, []byte("\n")) {
		end += len(line)
		if i >= good+tries {
			break
		}
		if _, ok := parseDotenv(text[goodEnd:end]); ok {
			good, goodEnd = i+1, end
		}
	}
	return good + 1
}
