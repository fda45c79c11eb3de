package access

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a key may be, on every backend. A segment fits into a file name.
const (
	maxKey     = 1024
	maxSegment = 255
)

// checkKey returns an error wrapping [ErrInvalidKey] when key breaks the
// grammar that is told on the package page.
//
// One grammar for all backends means that a key which works on one works on
// the next. It holds nothing that some layer between here and the document
// reads as more than a name: no way up, no escape, no control character.
func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidKey)
	case len(key) > maxKey:
		return fmt.Errorf("%w: it has %d bytes, more than %d", ErrInvalidKey, len(key), maxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: it is not UTF-8", ErrInvalidKey)
	}
	for segment := range strings.SplitSeq(key, "/") {
		switch {
		case segment == "":
			return fmt.Errorf("%w: it has an empty segment", ErrInvalidKey)
		case segment == "." || segment == "..":
			return fmt.Errorf("%w: it has a segment %q", ErrInvalidKey, segment)
		case len(segment) > maxSegment:
			return fmt.Errorf("%w: it has a segment of %d bytes, more than %d", ErrInvalidKey, len(segment), maxSegment)
		}
	}
	for _, r := range key {
		if !unicode.IsPrint(r) || r == '\\' || r == '%' {
			return fmt.Errorf("%w: it has the character %q", ErrInvalidKey, r)
		}
	}
	return nil
}

// shorten keeps a key that may be anything from filling a log line.
func shorten(key string) string {
	const most = 64
	if len(key) <= most || checkKey(key) == nil {
		return key
	}
	return key[:most] + "…"
}
