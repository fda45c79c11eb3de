package accesstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
)

var invalidKeys = []string{
	"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/./b", "./a",
	`a\b`, `..\a`, "a\x00b", "a\nb", "a\x7fb", "%2e%2e/", "%2e%2e/a", "a%2fb", "%",
	"\xff", "a/\xc3\x28", "a\u202eb", "a\u200bb", "a\u00a0b",
	strings.Repeat("a", 256), strings.Repeat("a/", 512) + "a",
}

var validKeys = []string{
	"a", "a.json", "a/b.json", "A/b/C", "...", ".hidden", "..data", "a..b", "a b", "a+b", "é/日本",
	"a:b", "a;b", "a&b=c", "a@b", "~a", "{a}", "[a]", "a*", "a?b", "a#b", "-a", "$HOME", "'", "a,b",
	strings.Repeat("a", 255), strings.Repeat("a/", 511) + "ab",
}

// checkInvalidKeys is AC-14: the same keys are refused everywhere.
func checkInvalidKeys(tb testing.TB, h Harness) {
	f := h.open(tb, nil, map[string]string{"a": "1", "b": "2"})
	for _, key := range invalidKeys {
		doc, err := f.Repo.Get(context.Background(), key)
		if !errors.Is(err, access.ErrInvalidKey) || !errors.Is(err, transparency.ErrInvalid) {
			tb.Errorf("Get(%.40q) error = %v, want ErrInvalidKey and ErrInvalid", key, err)
		}
		if err != nil && len(err.Error()) > 500 {
			tb.Errorf("Get(%.40q): the error has %d bytes", key, len(err.Error()))
		}
		checkZero(tb, doc)
		if _, err := access.Put(context.Background(), f.Repo, key, []byte("3"), nil); h.Writes && !errors.Is(err, access.ErrInvalidKey) {
			tb.Errorf("Put(%.40q) error = %v, want ErrInvalidKey", key, err)
		}
	}
}

func checkValidKeys(tb testing.TB, h Harness) {
	for i, key := range validKeys {
		f := h.open(tb, nil, nil) // a backend of files has no room for "a" beside "a/b"
		want := fmt.Sprint(i)
		f.Set(tb, key, []byte(want))
		doc, err := f.Repo.Get(context.Background(), key)
		if err != nil || string(doc.Data) != want || doc.Key != key {
			tb.Errorf("Get(%.40q) = %.40q, %q, %v, want %q", key, doc.Key, doc.Data, err, want)
		}
	}
}
